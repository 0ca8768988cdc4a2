"""Many requests to one model at once: all their rows go through one step together.

A step of eight rows costs little more than a step of one. Requests join and leave between steps, and prompts are read
in pieces between them.

On one machine and device the same request gives the same music, and variation i is the same however many are asked
for, whatever else the model is asked meanwhile: to the last bit, since each row is computed by itself (batch.py).
Between machines it is the same to rounding: sooner or later another token is drawn.

Where there is no room for all, those are served who had least of the machine's time. Where somebody listens, rows take
their first steps before all others, and rows that are bars ahead of what is heard wait for those that are not.
"""

from __future__ import annotations

import time
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from musicgen.generation.batch import batch_of, bytes_of_a_row
from musicgen.generation.job import Job, ReadPrompt, Row, Stage, state_after_a_token
from musicgen.generation.sampling import draw, probabilities
from musicgen.performer import Performer, State


@contextmanager
def one_thread() -> Iterator[None]:
    """Let a model write on one thread.

    A second one gains less than a third on two quiet cores, and where something else takes one of them, a token takes
    forty times as long.
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


# A grammar costs by the call and hardly by the row. So rows whose grammars differ in their rows alone are joined for as
# long as they take their steps together.


class JointDraw:
    """Rows that draw together: sampled alike, by one grammar of B rows."""

    def __init__(self, rows: list[Row]) -> None:
        first, *others = rows
        self.rows = rows
        self._sampling, self._kinds = first.job.request.sampling, first.job.order.kinds
        self._grammar = first.grammar.joined([row.grammar for row in others])

    def draw(self) -> list[Row]:
        """Draw a token a row, and drop and return the rows that have ended, as those do for which nothing may come."""
        if not self.rows:
            return []
        allowed = self._grammar.allowed()  # (B, V)
        possible = np.asarray(allowed.any(axis=1))
        ended = self.keep(possible)
        if not self.rows:
            return ended
        scores = np.stack([row.scores for row in self.rows])
        uniforms = np.array([row.random.random() for row in self.rows])
        chances = probabilities(scores, self._sampling, allowed[possible], self._kinds)
        tokens = self._grammar.instead(draw(chances, uniforms))
        self._grammar.advance(tokens)
        taken = zip(self.rows, tokens.tolist(), self._grammar.bars.tolist(), strict=True)
        return ended + self.keep(np.array([row.take(token, begun) for row, token, begun in taken]))

    def keep(self, kept: np.ndarray) -> list[Row]:
        """Keep some rows, (B,) bool, and return the others."""
        if kept.all():
            return []
        gone = [row for row, stays in zip(self.rows, kept, strict=True) if not stays]
        self.rows = [row for row, stays in zip(self.rows, kept, strict=True) if stays]
        self._grammar = self._grammar.select(np.flatnonzero(kept))
        return gone

    def part(self) -> None:
        """Give each row its own row of the grammar back."""
        for number, row in enumerate(self.rows):
            row.grammar = self._grammar.select(np.array([number]))


def _joint(rows: Iterable[Row]) -> list[JointDraw]:
    alike: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        alike[row.job.request.sampling, row.grammar.shared].append(row)
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
        self._batch = batch_of(model)
        self._most = MOST_ROWS if listeners else STEP_ROWS
        self._prompts: OrderedDict[Hashable, ReadPrompt] = OrderedDict()
        self._room = 0  # rows; not known yet
        # Seconds that each owner had, of those who are here and of those who left with more than the others had.
        self._had: dict[str, float] = {}
        self._least = 0.0  # that somebody here has had: with so much, newcomers begin
        self._turn: list[JointDraw] = []  # whose turn it is, for so many steps more
        self._turn_steps = 0

    def add(self, job: Job) -> None:
        """Take in a request."""
        self._new.append(job)

    @property
    def idle(self) -> bool:
        """Whether nobody is here."""
        return not self._jobs and not self._new

    @property
    def _rows(self) -> list[Row]:
        return [row for job in self._jobs for row in job.writing]

    def _at(self, stage: Stage) -> list[Row]:
        return [row for row in self._rows if row.stage is stage]

    def place(self, job: Job) -> int:
        """Return how many requests stand in line before one; 0 if it is at work."""
        line = list(dict.fromkeys(row.job for row in self._ranked(self._at(Stage.WAITING))))
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
            self._fail(job, error)

    def _welcome(self) -> None:
        while self._new:
            job = self._new.popleft()
            self._had[job.owner] = max(self._had.get(job.owner, 0.0), self._least)
            self._jobs.append(job)

    def _dismiss(self) -> None:
        for job in list(self._jobs):
            with self._blaming(job):
                if job.cancelled():
                    self._end(job)

    def _admit(self) -> None:
        """Let in who has had least, for as long as there is room."""
        here = sum(row.size for row in self._rows if row.stage is not Stage.WAITING)
        for row in self._ranked(self._at(Stage.WAITING)):
            if here and not self._room:  # who is alone need not know
                self._room = self._room_for(state_after_a_token(self.model))
            if here and here + row.size > self._room:
                return
            here += row.size
            row.stage = Stage.READING

    def _read(self) -> None:
        """Read on in prompts, the shortest first: for a moment where others play, else to the end of one."""
        begun = time.monotonic()
        while reading := self._at(Stage.READING):
            job = self._ranked(reading, lambda row: len(row.job.ids))[0].job
            since = time.monotonic()
            with self._blaming(job):
                self._read_piece(job, reading)
            self._charge(job.owner, time.monotonic() - since)
            playing = self._at(Stage.PLAYING)
            if playing and (time.monotonic() > begun + READ_SECONDS or self._beginning()):
                return
            if not playing:
                self._dismiss()

    def _read_piece(self, job: Job, reading: Iterable[Row]) -> None:
        if job.prompt not in self._prompts:
            self._prompts[job.prompt] = ReadPrompt(self.model, job.order)
        prompt = self._prompts[job.prompt]
        self._prompts.move_to_end(job.prompt)
        if prompt.after is None:
            prompt.go_on()
        else:
            self._start([row for row in reading if row.job is job], *prompt.after)

    def _start(self, rows: Sequence[Row], logits: Tensor, state: State) -> None:
        """Let rows of one job stand after its prompt."""
        scores = _scores(logits)[0]
        _check_finite(scores)
        numbers = iter(self._batch.join(state, sum(row.size for row in rows)))
        for row in rows:
            row.stage, row.numbers = Stage.PLAYING, [*islice(numbers, row.size)]
            row.scores = row.unguided = scores
        self._room = self._room_for(state)
        self._turn_steps = 0

    def _room_for(self, state: State) -> int:
        """Return how many rows of such states there is room for."""
        return max(1, min(self._most, self._most_bytes // max(1, bytes_of_a_row(state))))

    def _step(self) -> None:
        """Give each row of those whose turn it is one token more."""
        begun = time.monotonic()
        self._take_turns(begun)
        for joint in list(self._turn):
            jobs = {row.job for row in joint.rows}
            try:
                self._drop(joint.draw())
            except Exception as error:  # of all that draw together
                self._turn = [other for other in self._turn if other is not joint]
                for job in jobs:
                    self._fail(job, error)
        self._end_at_bounds()
        if rows := self._rows_of_turn:
            following = [row for row in rows if row.twin_follows]
            numbers = [row.numbers[0] for row in rows] + [row.numbers[1] for row in following]
            tokens = torch.tensor([row.drawn for row in (*rows, *following)])
            device = self.model.embedding.weight.device
            scores = _scores(self._batch.step(numbers, tokens.to(device)))
            self._hand_out(rows, scores)
            for row, unguided in zip(following, scores[len(rows) :], strict=True):
                row.unguided = unguided
            for row in rows:
                row.guide()
        spent, size = time.monotonic() - begun, sum(row.size for row in rows)
        for row in rows:
            self._charge(row.job.owner, spent * row.size / size)

    def _charge(self, owner: str, seconds: float) -> None:
        self._had[owner] = self._had.get(owner, 0.0) + seconds

    @property
    def _rows_of_turn(self) -> list[Row]:
        return [row for joint in self._turn for row in joint.rows]

    def _end_at_bounds(self) -> None:
        """End rows where the encoding has no further position."""
        for row in self._rows_of_turn:
            try:
                self.model.position.check(len(row.job.ids) + len(row.tokens))
            except ValueError as error:
                row.job.bound = error
                self._leave_turn([row])
                self._drop([row])

    def _hand_out(self, rows: Sequence[Row], scores: np.ndarray) -> None:
        finite = np.isfinite(scores).all()
        for row, own in zip(rows, scores, strict=False):
            row.scores = own
            if not finite:
                with self._blaming(row.job):
                    _check_finite(own)

    def _take_turns(self, now: float) -> None:
        """Let those whose turn it is draw together."""
        if self._turn_steps <= 0:
            rows = self._next_turn(now)
            if {*rows} != {*self._rows_of_turn}:
                for joint in self._turn:
                    joint.part()
                self._turn = _joint(rows)
            self._turn_steps = FIRST_STEPS if self._beginning() else TURN_STEPS
        self._turn_steps -= 1

    def _next_turn(self, now: float) -> list[Row]:
        playing = self._at(Stage.PLAYING)
        lead = dict.fromkeys(playing, 0.0)
        if beginning := self._beginning():
            playing = beginning
        elif self._listeners:
            lead = {row: row.lead(now) for row in playing}
            if self._at(Stage.READING) or any(row.heard_since is None for row in playing):
                playing = [row for row in playing if lead[row] <= AHEAD_BARS]
        turn, size = [], 0
        for row in self._ranked(playing, lead.__getitem__):
            size += row.size
            if size > STEP_ROWS and turn:
                break
            turn.append(row)
        return turn

    def _beginning(self) -> list[Row]:
        """Return whose first note somebody waits for, but for owners who had much more than others."""
        playing = self._at(Stage.PLAYING)
        beginning = [row for row in playing if len(row.tokens) < FIRST_STEPS]
        if not self._listeners or not beginning:
            return []
        most = min(self._had[row.job.owner] for row in playing) + FIRST_SECONDS
        return [row for row in beginning if self._had[row.job.owner] <= most]

    def _ranked(
        self, rows: Iterable[Row], then: Callable[[Row], float] = lambda _: 0.0
    ) -> list[Row]:
        """Return rows in the order of service: by what their owners had, `then` by what is given."""
        return sorted(rows, key=lambda row: (self._had[row.job.owner], then(row)))

    def _drop(self, rows: Iterable[Row]) -> None:
        """Let rows go that have ended, and what they belonged to if they were the last."""
        for row in rows:
            self._batch.leave(row.numbers)
            self._turn_steps = 0
            row.job.writing.remove(row)
            if not row.job.writing:
                self._end(row.job)

    def _leave_turn(self, rows: Collection[Row]) -> None:
        for joint in self._turn:
            joint.keep(np.array([row not in rows for row in joint.rows], bool))
        self._turn = [joint for joint in self._turn if joint.rows]

    def _fail(self, job: Job, error: Exception) -> None:
        job.error = job.error or error
        self._end(job)

    def _end(self, job: Job) -> None:
        """Let a job go, done or not."""
        self._leave_turn(job.writing)
        for row in job.writing:
            self._batch.leave(row.numbers)
        self._turn_steps = 0
        job.let_go()
        if job in self._jobs:
            self._jobs.remove(job)
            self._forget_owners()
        if job.error is not None:
            self._prompts.pop(job.prompt, None)
        self._forget_prompts()
        job.ended.set()

    def _forget_owners(self) -> None:
        """Forget who is not here, and had no more than newcomers are given."""
        here = {job.owner for job in self._jobs}
        if here:
            self._least = max(self._least, min(self._had[owner] for owner in here))
        self._had = {one: had for one, had in self._had.items() if one in here or had > self._least}

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
            self._fail(job, error)


def _scores(logits: Tensor) -> np.ndarray:
    """Return the logits, (rows, V): the one wait for the device in a step."""
    return logits.float().cpu().numpy()


def _check_finite(scores: np.ndarray) -> None:
    if not np.isfinite(scores).all():
        raise ValueError(
            "the model's output is not finite: its weights are damaged or its training diverged"
        )
