"""Many requests to one model at once: all their rows go through one step together.

A step of eight rows costs little more than a step of one. So requests join and leave between steps; prompts are read in
pieces between them, and nobody's music stops for somebody's long prompt.

The promise: on one machine and device the same request gives the same music, and variation i is the same however many
are asked for, and whatever else is asked of the model meanwhile. It holds to the last bit, since each row is computed
by itself (batch.py). Between machines it holds to rounding: sooner or later another token is drawn.

Who is served when: where there is no room for all, those who had least of the machine's time. Where somebody listens,
rows take their first steps before all others, and rows that are bars ahead of what is heard stand still while there
are others with nothing to hear.
"""

from __future__ import annotations

import time
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from musicgen.generation.batch import batch_of, bytes_of_a_row
from musicgen.generation.job import (
    After,
    Job,
    ReadPrompt,
    RowGroup,
    state_after_a_token,
    with_rows,
)
from musicgen.generation.sampling import draw, probabilities
from musicgen.performer import Performer, State


@contextmanager
def one_thread() -> Iterator[None]:
    """Let a model write on one thread.

    On two quiet cores a second one gains less than a third; where something else takes one of them, the threads wait
    for each other, and a token takes forty times as long.
    """
    before = torch.get_num_threads()
    if before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class ServedTime:
    """Seconds that each owner had, of those who are here and of those who left with more than the others had."""

    def __init__(self) -> None:
        self._had: dict[str, float] = {}
        self._now: float = 0.0  # what who had least has had: with so much, newcomers begin

    def come(self, owner: str) -> None:
        """Note that somebody is here; who comes has no claim from when they were away."""
        self._had[owner] = max(self._had.get(owner, 0.0), self._now)

    def had(self, owner: str) -> float:
        """Return what somebody had."""
        return self._had.get(owner, 0.0)

    def charge(self, owner: str, seconds: float) -> None:
        """Add to it."""
        self._had[owner] = self.had(owner) + seconds

    def keep(self, here: Collection[str]) -> None:
        """Forget who is not here, and had no more than newcomers are given."""
        if here:
            self._now = max(self._now, min(self.had(one) for one in here))
        self._had = {one: had for one, had in self._had.items() if one in here or had > self._now}


# Rows of several requests that draw their next tokens together: sampled alike, and told what may come by one grammar.
#
# For a few rows a grammar costs by the call and hardly by the row. So those of requests that differ in their rows
# alone are joined for as long as the same requests take their steps together.

Ended = list[tuple[RowGroup, np.ndarray]]
"""Groups in which rows have ended, with which of their rows go on: (rows,) bool."""


class JointDraw:
    """Groups whose rows draw together; B rows in all, V tokens."""

    def __init__(self, groups: Sequence[RowGroup]) -> None:
        first, *others = groups
        self._groups, self._sampling = groups, first.job.request.sampling
        self._kinds = first.job.order.kinds
        self._grammar = first.grammar
        if others:
            self._grammar = first.grammar.joined([group.grammar for group in others])
        self._allowed = np.empty(0, bool)  # (B, V)

    @property
    def jobs(self) -> set[Job]:
        """Whose rows these are."""
        return {group.job for group in self._groups}

    def look(self) -> Ended:
        """Ask what may come; a row for which nothing may has ended."""
        self._allowed = self._grammar.allowed()
        possible = np.asarray(self._allowed.any(axis=1))
        if possible.all():
            return []
        return [(group, possible[rows]) for group, rows in with_rows(self._groups)]

    def take(self) -> Ended:
        """Draw a token a row, and let the groups take theirs."""
        scores = np.concatenate([group.scores for group in self._groups])
        uniforms = np.array([x for group in self._groups for x in group.uniforms()])
        chances = probabilities(scores, self._sampling, self._allowed, self._kinds)
        tokens = self._grammar.instead(draw(chances, uniforms))
        self._grammar.advance(tokens)
        begun, ended = self._grammar.bars, []
        for group, rows in with_rows(self._groups):
            goes_on = group.take(tokens[rows], begun[rows])
            if not goes_on.all():
                ended.append((group, goes_on))
        return ended

    def part(self) -> None:
        """Give each group its own rows of the grammar back."""
        if len(self._groups) > 1:
            for group, rows in with_rows(self._groups):
                group.grammar = self._grammar.select(np.arange(rows.start, rows.stop))


def _joint(groups: Iterable[RowGroup]) -> list[JointDraw]:
    alike: dict[Any, list[RowGroup]] = defaultdict(list)
    for group in groups:
        alike[group.job.request.sampling, group.grammar.shared].append(group)
    return [JointDraw(part) for part in alike.values()]


MOST_ROWS = 256  # that are here, as far as memory goes
MOST_BYTES = 3 << 29  # of their states, where this is the one engine
STEP_ROWS = 64  # in one step: more are no cheaper a row, and each waits the longer
KEPT_PROMPTS = 4  # that nobody wants now, so that another take of one begins at once …
KEPT_BYTES = 1 << 25  # … with states up to this size
READ_SECONDS = 0.2  # of reading prompts before others get a step
TURN_STEPS = 16  # for which the same rows go on, where not all can
FIRST_STEPS = 12  # of a row, which reach its first note and go before all others
FIRST_SECONDS = 1.0  # by which an owner may have had more than others, to go first
AHEAD_BARS = 2  # of what is heard: more can wait


class Engine:
    """The requests to one model; `add` may be called by any thread, `work` by one. `listeners`: somebody hears it."""

    def __init__(
        self, model: Performer, *, listeners: bool = False, most_bytes: int = MOST_BYTES
    ) -> None:
        self.model, self._listeners, self._most_bytes = model, listeners, most_bytes
        self._new: deque[Job] = deque()
        self._jobs: list[Job] = []
        self._line: list[RowGroup] = []  # no room yet
        self._reading: list[RowGroup] = []  # there is; the prompt is being read
        self._playing: list[RowGroup] = []
        self._batch = batch_of(model)
        self._most = MOST_ROWS if listeners else STEP_ROWS
        self._prompts: OrderedDict[Hashable, ReadPrompt] = OrderedDict()
        self._room = 0  # rows; not known yet
        self._shares = ServedTime()
        # Of those whose turn it is, for as long as they are the same.
        self._joint: list[JointDraw] = []
        self._turn: list[RowGroup] = []
        self._turn_steps = 0

    def add(self, job: Job) -> None:
        """Take in a request."""
        self._new.append(job)

    @property
    def idle(self) -> bool:
        """Whether nobody is here."""
        return not self._jobs and not self._new

    def place(self, job: Job) -> int:
        """Return how many requests stand in line before one; 0 if it is at work."""
        line = list(dict.fromkeys(group.job for group in self._ranked(self._line[:])))
        return line.index(job) + 1 if job in line else 0

    def work(self) -> bool:
        """Do a little for those who are here: some reading, and one step. Says whether there was anything to do."""
        if self.idle:
            return False
        self._welcome()
        self._dismiss()
        self._admit()
        if not self._beginning():
            self._read()
        self._step()
        return True

    def fail(self, error: Exception) -> None:
        """End everybody's work by an error that is nobody's own."""
        self._welcome()
        for job in list(self._jobs):
            job.error = error
            self._end(job)

    def _welcome(self) -> None:
        while self._new:
            job = self._new.popleft()
            self._shares.come(job.owner)
            self._jobs.append(job)
            self._line += job.groups

    def _dismiss(self) -> None:
        for job in list(self._jobs):
            with self._blaming(job):
                if job.cancelled():
                    self._end(job)

    def _admit(self) -> None:
        """Let in who has had least, for as long as there is room."""
        if not self._line:
            return
        here = sum(group.size for group in (*self._reading, *self._playing))
        for group in self._ranked(self._line):
            if here and not self._room:  # who is alone need not know
                self._room = self._room_for(state_after_a_token(self.model))
            if here and here + group.size > self._room:
                return
            here += group.size
            self._line.remove(group)
            self._reading.append(group)

    def _read(self) -> None:
        """Read on in prompts: for a moment where others play, else to the end of one."""
        begun = time.monotonic()
        while self._reading:
            lengths = {group: len(group.job.ids) for group in self._reading}
            group = self._ranked(self._reading, lengths)[0]
            since = time.monotonic()
            with self._blaming(group.job):
                self._read_piece(group)
            self._shares.charge(group.job.owner, time.monotonic() - since)
            if self._playing and (time.monotonic() > begun + READ_SECONDS or self._beginning()):
                return
            if not self._playing:
                self._dismiss()

    def _read_piece(self, group: RowGroup) -> None:
        prompt = self._prompt_of(group.job)
        if prompt.after is None:
            prompt.go_on()
        else:
            self._start(group, prompt.after)

    def _prompt_of(self, job: Job) -> ReadPrompt:
        """Return a job's prompt, as far as it has been read."""
        if job.prompt not in self._prompts:
            self._prompts[job.prompt] = ReadPrompt(self.model, job.order)
        self._prompts.move_to_end(job.prompt)
        return self._prompts[job.prompt]

    def _start(self, group: RowGroup, after: After) -> None:
        logits, state = after
        scores = _scores(logits)
        _check_finite(scores)
        group.start(self._batch.join(state, group.size), scores)
        self._room = self._room_for(state)
        self._reading.remove(group)
        self._playing.append(group)
        self._turn_steps = 0

    def _room_for(self, state: State) -> int:
        """Return how many rows of such states there is room for."""
        return max(1, min(self._most, self._most_bytes // max(1, bytes_of_a_row(state))))

    def _step(self) -> None:
        """Give each row of those whose turn it is one token more."""
        begun = time.monotonic()
        groups = self._chosen(begun)
        self._draw(groups)
        groups = [group for group in groups if len(group)]
        for group in groups:
            self._end_at_bound(group)
        groups = [group for group in groups if len(group)]
        numbers = [number for group in groups for number in group.numbers]
        if numbers:
            following = [(group, group.following()) for group in groups]
            twins = [group.twins[row] for group, rows in following for row in rows]
            given = [group.given for group in groups]
            given += [group.given[rows] for group, rows in following]
            tokens = torch.from_numpy(np.concatenate(given))
            device = self.model.embedding.weight.device
            scores = _scores(self._batch.step(numbers + twins, tokens.to(device)))
            self._hand_out(groups, scores[: len(numbers)])
            at = len(numbers)
            for group, rows in following:
                group.guide(rows, scores[at : at + len(rows)])
                at += len(rows)
        spent, rows = time.monotonic() - begun, sum(group.size for group in groups)
        for group in groups:
            self._shares.charge(group.job.owner, spent * group.size / max(1, rows))

    def _end_at_bound(self, group: RowGroup) -> None:
        """End rows where the encoding has no further position."""
        job = group.job
        try:
            self.model.position.check(len(job.ids) + len(job.rows[group.live[0]]))
        except ValueError as error:
            job.bound = error
            self._let_go([(group, np.zeros(len(group), bool))])

    def _draw(self, groups: Sequence[RowGroup]) -> None:
        """Draw a token a row, and let groups take them."""
        while self._each_joint(groups, JointDraw.look):
            pass
        self._each_joint(groups, JointDraw.take)

    def _each_joint(self, groups: Sequence[RowGroup], act: Callable[[JointDraw], Ended]) -> bool:
        """Let rows that draw together act, and let go what has ended with that; says whether anything has."""
        self._joint = self._joint or _joint(group for group in groups if len(group))
        ended: Ended = []
        failed: list[tuple[Job, Exception]] = []
        for joint in self._joint:
            try:
                ended += act(joint)
            except Exception as error:  # of all that draw together
                failed += [(job, error) for job in joint.jobs]
        self._let_go(ended, failed)
        return bool(ended or failed)

    def _let_go(self, ended: Ended, failed: Sequence[tuple[Job, Exception]] = ()) -> None:
        """Let jobs go that failed, and rows that have ended."""
        if ended or failed:
            self._part()
        for job, error in failed:
            job.error = job.error or error
            self._end(job)
        for group, goes_on in ended:
            if len(group):  # another's error may have ended its job
                self._drop(group, group.keep(goes_on))

    def _part(self) -> None:
        """Give each group its own rows of the grammar back: before any of them leaves, or another one comes."""
        for joint in self._joint:
            joint.part()
        self._joint = []

    def _hand_out(self, groups: Sequence[RowGroup], scores: np.ndarray) -> None:
        finite = np.isfinite(scores).all()
        for group, rows in with_rows(groups):
            with self._blaming(group.job):
                if not finite:
                    _check_finite(scores[rows])
                group.scores = scores[rows]

    def _chosen(self, now: float) -> list[RowGroup]:
        """Return whose turn it is."""
        if self._turn_steps <= 0:
            turn = self._next_turn(now)
            if turn != self._turn:
                self._part()
            self._turn, self._turn_steps = turn, FIRST_STEPS if self._beginning() else TURN_STEPS
        self._turn_steps -= 1
        return list(self._turn)

    def _next_turn(self, now: float) -> list[RowGroup]:
        playing, lead = self._playing, dict.fromkeys(self._playing, 0.0)
        if beginning := self._beginning():
            playing = beginning
        elif self._listeners:
            lead = {group: group.lead(now) for group in playing}
            if self._reading or any(group.heard_since is None for group in playing):
                playing = [group for group in playing if lead[group] <= AHEAD_BARS]
        turn, rows = [], 0
        for group in self._ranked(playing, lead):
            if rows + group.size > STEP_ROWS and turn:
                break
            turn.append(group)
            rows += group.size
        return turn

    def _beginning(self) -> list[RowGroup]:
        """Return whose first note somebody waits for, but for owners who had much more than others."""
        beginning = [group for group in self._playing if group.steps < FIRST_STEPS]
        if not self._listeners or not beginning:
            return []
        had = self._shares.had
        most = min(had(group.job.owner) for group in self._playing) + FIRST_SECONDS
        return [group for group in beginning if had(group.job.owner) <= most]

    def _ranked(
        self, groups: Iterable[RowGroup], lead: Mapping[RowGroup, float] | None = None
    ) -> list[RowGroup]:
        """Return groups in the order of service: by what their owners had, then by how far ahead they are."""
        had = self._shares.had
        return sorted(
            groups, key=lambda group: (had(group.job.owner), 0.0 if lead is None else lead[group])
        )

    def _drop(self, group: RowGroup, numbers: Sequence[int]) -> None:
        """Let rows go that have ended, and what they belonged to if they were the last."""
        self._batch.leave(numbers)
        if not len(group):
            self._playing.remove(group)
            self._turn_steps = 0
            if not any(map(len, group.job.groups)):
                self._end(group.job)

    def _end(self, job: Job) -> None:
        """Let a job go, done or not."""
        self._part()
        for group in job.groups:
            self._batch.leave([*group.numbers, *group.twins])
            group.numbers, group.twins, group.live = [], [], group.live[:0]
        for groups in (self._line, self._reading, self._playing, self._turn):
            groups[:] = [group for group in groups if group.job is not job]
        self._turn_steps = 0
        job.let_go()
        if job in self._jobs:
            self._jobs.remove(job)
            self._shares.keep({other.owner for other in self._jobs})
        if job.error is not None:
            self._prompts.pop(job.prompt, None)
        self._forget_prompts()
        job.ended.set()

    def _forget_prompts(self) -> None:
        """Keep the last few prompts of those that nobody wants now, unless their states are large."""
        wanted = {job.prompt for job in self._jobs}
        unwanted = [key for key in self._prompts if key not in wanted]
        for number, key in enumerate(reversed(unwanted)):
            after = self._prompts[key].after
            if number >= KEPT_PROMPTS or (after and bytes_of_a_row(after[1]) > KEPT_BYTES):
                del self._prompts[key]

    @contextmanager
    def _blaming(self, job: Job) -> Iterator[None]:
        """Let what goes wrong end this job, and no other."""
        try:
            yield
        except Exception as error:
            job.error = job.error or error
            self._end(job)


def _scores(logits: Tensor) -> np.ndarray:
    """Return the logits, (rows, V): the one wait for the device in a step."""
    return logits.float().cpu().numpy()


def _check_finite(scores: np.ndarray) -> None:
    if not np.isfinite(scores).all():
        raise ValueError(
            "the model's output is not finite: its weights are damaged or its training diverged"
        )
