"""The engine: many requests to one model at once, with all their rows in one batch.

A step appends a token to each of its rows. Requests join and leave between steps, and prompts are read in pieces
between steps.

The same request always gives the same music, and variation i is the same whatever the number of variations and whatever
else the model is asked meanwhile: to the last bit, since each row is computed by itself (batch.py). If the kernel
computes the model, that is so on every machine.

Where there is not room for all, the owners who have had the least of the machine's time are served first, and those who
have had much more wait for them: no owner's requests, however many and long, take more time than another's. One who
comes with little to ask, after others had the machine, hardly waits for them at all. With listeners, rows take their
first steps before all others.
"""

from __future__ import annotations

import time
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from musicgen.generation.batch import Batch, Network, Prefix
from musicgen.generation.request import Job, Order, Row, Stage
from musicgen.generation.rules import add_to, limit_of_chords
from musicgen.generation.sampling import Draws

WINDOW = 256  # tokens of a prompt that are read before others get a step


class ReadPrompt:
    """A prompt that is read in windows; all requests with this prompt share the state after it."""

    def __init__(self, batch: Batch, wanted: Order) -> None:
        self._batch, self._prefix = batch, batch.begin(wanted)
        ids = wanted.ids.astype(np.int64)
        self._windows = [ids[start : start + WINDOW] for start in range(0, len(ids), WINDOW)]
        self.after: Prefix | None = None  # the whole prompt

    def go_on(self) -> None:
        """Read the next window; at the end of the prompt, set `after`."""
        self._batch.read(self._prefix, self._windows.pop(0))
        if not self._windows:
            if self._prefix.recall is not None:
                self._prefix.recall.adapt_limit()
            self.after = self._prefix


# The cost of a grammar grows with the number of calls and hardly with rows. So rows whose grammars are instances of one
# grammar share a joint one while they advance together.


class JointDraw:
    """Rows with the same sampling settings and a joint grammar of B rows."""

    def __init__(self, rows: list[Row], network: Network) -> None:
        first, *others = rows
        self.rows = rows
        request, order = first.job.request, first.job.order
        self._guidance = request.sampling.guidance
        # An earlier version of a language has the first tokens of its grammar.
        self._tokens = network.config.vocabulary_size
        self._draws = Draws(network.kernel, self._tokens, request.sampling, order.kinds)
        self._chords = [token for token in order.chords if token < self._tokens]
        self._grammar = first.grammar.joined([row.grammar for row in others])

    def draw(self) -> list[Row]:
        """Draw a token for each row; drop and return the rows that have ended or have no token allowed.

        The jobs of rows whose logits are not finite get an error.
        """
        if not self.rows:
            return []
        allowed = self._grammar.allowed()[:, : self._tokens]  # (B, V)
        possible = np.asarray(allowed.any(axis=1))
        ended = self.keep(possible)
        if not self.rows:
            return ended
        allowed = allowed[possible]
        bias = _BIAS[allowed.view(np.uint8)]
        if (preferred := self._grammar.bias()) is not None:
            bias += preferred[:, : self._tokens]
        for row, own in zip(self.rows, bias, strict=True):
            self._apply_rules(row, own)
        logits = [row.prefixes[0].state.logits_at for row in self.rows]
        unguided = [row.twin.state.logits_at if row.twin else 0 for row in self.rows]
        uniforms = np.array([row.random.random() for row in self.rows])
        limits = np.array([limit_of_chords(row.prefixes[0].recall) for row in self.rows])
        limits[~allowed[:, self._chords].any(axis=1)] = 1
        tokens = self._draws.draw(logits, unguided, bias, uniforms, limits)
        if (damaged := tokens < 0).any():
            ended += self.keep(~damaged)
            for row in ended[-int(damaged.sum()) :]:
                row.job.error = ValueError(NOT_FINITE)
            tokens = tokens[~damaged]
        tokens = self._grammar.instead(tokens)
        self._grammar.advance(tokens)
        taken = zip(self.rows, tokens.tolist(), self._grammar.bars.tolist(), strict=True)
        return ended + self.keep(np.array([row.take(*one) for row, *one in taken], bool))

    def _apply_rules(self, row: Row, bias: np.ndarray) -> None:
        """Add the rules of a row to its bias; guidance extrapolates them too."""
        own, twin = row.prefixes[0].recall, row.twin
        if own is None:
            return
        if twin is None or twin.recall is None:
            add_to(bias, own)
        else:
            add_to(bias, own, self._guidance)
            add_to(bias, twin.recall, 1 - self._guidance)

    def keep(self, kept: np.ndarray) -> list[Row]:
        """Keep some rows, (B,) bool, and return the others."""
        if kept.all():
            return []
        dropped = [row for row, stays in zip(self.rows, kept, strict=True) if not stays]
        self.rows = [row for row, stays in zip(self.rows, kept, strict=True) if stays]
        self._grammar = self._grammar.select(np.flatnonzero(kept))
        return dropped

    def split(self) -> None:
        """Give each row its own grammar again."""
        for number, row in enumerate(self.rows):
            row.grammar = self._grammar.select(np.array([number]))


_BIAS = np.array([-np.inf, 0], np.float32)  # of a token that is forbidden, and allowed
NOT_FINITE = "the model's output is not finite: its weights are damaged or its training diverged"


def _joint(rows: Iterable[Row], network: Network) -> list[JointDraw]:
    """Group rows that can draw together."""
    groups: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row.job.request.sampling, row.grammar.shared].append(row)
    return [JointDraw(group, network) for group in groups.values()]


MOST_ROWS = 256  # in the batch, if memory allows
MOST_BYTES = 1 << 30  # of their states, for the only engine of a process
STEP_ROWS = 64  # per step: more rows are no cheaper per row, and each waits longer
KEPT_PROMPTS = 4  # read prompts without a request, kept so that another take can begin at once …
KEPT_BYTES = 1 << 25  # … if their states are no larger
READ_SECONDS = 0.2  # of reading prompts, or one window, before steps and new requests
TURN_STEPS = 16  # for which the same rows advance, where there is not room for all
AHEAD_SECONDS = 0.5  # more of the time than another at work, from which an owner waits
CREDIT_SECONDS = 3.0  # less of the time than others at work, with which an owner begins at most
FIRST_STEPS = 12  # of a row: enough to reach its first note, they come before all others …
FIRST_SECONDS = 1.0  # … unless its owner has had more time than another by this much


class Engine:
    """Serves the requests to one model: `add` can be called from any thread, `work` from one.

    With `listeners`, requests are heard while they are written, and their first notes have priority.
    """

    def __init__(
        self, network: Network, *, listeners: bool = False, most_bytes: int = MOST_BYTES
    ) -> None:
        self._listeners, self._most_bytes = listeners, most_bytes
        self._new: deque[Job] = deque()
        self._jobs: list[Job] = []
        self._batch = Batch(network)
        self._most = MOST_ROWS if listeners else STEP_ROWS
        self._prompts: OrderedDict[Hashable, ReadPrompt] = OrderedDict()
        self._capacity = 0  # rows; 0 until it is known
        # Seconds of work per owner, of those with a job and of those who left with more than a newcomer is given.
        self._seconds: dict[str, float] = {}
        # The least of those with a job, which never falls: newcomers begin with less by their credit.
        self._least = 0.0
        self._turn: list[JointDraw] = []  # the rows that advance, for `_turn_steps` more steps
        self._turn_steps = 0  # 0 also ends a turn early, when anything has come or gone

    def add(self, job: Job) -> None:
        """Add a request."""
        self._new.append(job)

    @property
    def idle(self) -> bool:
        """Whether there is no request."""
        return not self._jobs and not self._new

    @property
    def _rows(self) -> list[Row]:
        return [row for job in self._jobs for row in job.writing]

    def _at(self, stage: Stage) -> list[Row]:
        return [row for row in self._rows if row.stage is stage]

    def work(self) -> bool:
        """Read some of the prompts and take one step; return whether there was anything to do."""
        if self.idle:
            return False
        self._take_new()
        self._end_cancelled()
        if self._turn_steps <= 0:
            self._admit()
        if not self._beginning():
            self._read()
        self._step()
        return True

    def fail(self, error: Exception) -> None:
        """End all requests with an error that none of them caused."""
        self._take_new()
        for job in list(self._jobs):
            self._fail(job, error)

    def _take_new(self) -> None:
        while self._new:
            job = self._new.popleft()
            self._credit(job.owner)
            self._jobs.append(job)
            self._turn_steps = 0

    def _end_cancelled(self) -> None:
        for job in list(self._jobs):
            with self._blaming(job):
                if job.cancelled():
                    self._end(job)

    def _admit(self) -> None:
        """Admit waiting rows while there is room, those of the owners who have had the least first."""
        held, full = Counter[str](), set[str]()
        for row in self._served:
            held[row.job.owner] += row.size
        for row in self._ranked(self._at(Stage.WAITING)):
            if row.stage is not Stage.WAITING or row.job.owner in full:
                continue
            # Rows that wait for each other at choices come together.
            owner, admitted, group = row.job.owner, held.total(), row.job.group(row)
            size = sum(one.size for one in group)
            if admitted and not self._capacity:  # the first rows are always admitted
                self._capacity = self._capacity_for(self._state_after_a_token())
            if admitted and admitted + size > self._capacity:
                return
            if self._listeners and held[owner] and 2 * (held[owner] + size) > self._capacity:
                full.add(owner)  # half of the room is for others, who may come meanwhile
                continue
            held[owner] += size
            self._join(owner)
            for one in group:
                one.stage = Stage.READING

    def _join(self, owner: str) -> None:
        """Let an owner begin to be served before the others, but not as long as it had nothing."""
        if served := {row.job.owner for row in self._served} - {owner}:
            self._least = max(self._least, min(self._seconds[other] for other in served))
            self._credit(owner)

    def _credit(self, owner: str) -> None:
        """Let an owner have had at most its credit less than those who have had the least."""
        self._seconds[owner] = max(self._seconds.get(owner, 0.0), self._least - CREDIT_SECONDS)

    @property
    def _served(self) -> list[Row]:
        """The rows that are read or written."""
        return [row for row in self._rows if row.stage is not Stage.WAITING]

    def _due(self, rows: Iterable[Row]) -> list[Row]:
        """Return the rows of owners who have not had much more time than another whose rows are served."""
        least = min((self._seconds[row.job.owner] for row in self._served), default=0.0)
        return [row for row in rows if self._seconds[row.job.owner] <= least + AHEAD_SECONDS]

    def _read(self) -> None:
        """Read prompts, the shortest first, for READ_SECONDS: other requests may come meanwhile."""
        begun = time.monotonic()
        while reading := self._due(self._at(Stage.READING)):
            job = self._ranked(reading, lambda row: len(row.job.ids))[0].job
            since = time.monotonic()
            with self._blaming(job):
                self._read_piece(job, reading)
            self._charge(job.owner, time.monotonic() - since)
            if time.monotonic() > begun + READ_SECONDS or self._beginning():
                return
            if not self._at(Stage.PLAYING):
                self._end_cancelled()

    def _read_piece(self, job: Job, reading: Iterable[Row]) -> None:
        if job.prompt_key not in self._prompts:
            self._prompts[job.prompt_key] = ReadPrompt(self._batch, job.order)
        prompt = self._prompts[job.prompt_key]
        self._prompts.move_to_end(job.prompt_key)
        if prompt.after is None:
            prompt.go_on()
        else:
            self._start([row for row in reading if row.job is job], prompt.after)

    def _start(self, rows: Sequence[Row], prompt: Prefix) -> None:
        """Let rows of one job begin after its prompt."""
        for row in rows:
            row.stage, row.prefixes = Stage.PLAYING, [prompt.copy() for _ in range(row.size)]
        self._capacity = self._capacity_for(prompt)
        self._turn_steps = 0

    def _capacity_for(self, prefix: Prefix) -> int:
        """Return the number of rows that fit, each with a state of this size."""
        return max(1, min(self._most, self._most_bytes // max(1, prefix.state.bytes)))

    def _state_after_a_token(self) -> Prefix:
        """Return a sequence of one token; with softmax attention, states grow from there."""
        prefix = Prefix(self._batch.network.begin(0), None)
        self._batch.read(prefix, np.zeros(1, np.int64))
        return prefix

    def _step(self) -> None:
        """Append one token to each row of the current turn."""
        begun = time.monotonic()
        self._take_turns()
        for joint in list(self._turn):
            jobs = {row.job for row in joint.rows}
            try:
                self._drop(joint.draw())
            except Exception as error:  # concerns all rows that draw together
                self._turn = [other for other in self._turn if other is not joint]
                for job in jobs:
                    self._fail(job, error)
        self._end_at_bounds()
        if rows := self._rows_of_turn:
            self._append(rows)
        spent, size = time.monotonic() - begun, sum(row.size for row in rows)
        for row in rows:
            self._charge(row.job.owner, spent * row.size / size)
        self._hold([row for row in rows if row.comes_to_choice])

    def _append(self, rows: Sequence[Row]) -> None:
        """Append the tokens that were drawn to the sequences of rows."""
        following = [row for row in rows if row.twin_follows]
        prefixes = [row.prefixes[0] for row in rows] + [row.prefixes[1] for row in following]
        self._batch.append(prefixes, np.array([row.drawn for row in (*rows, *following)]))

    def _hold(self, rows: Sequence[Row]) -> None:
        """Hold rows that come to a choice, and make the choices for which no row is missing."""
        if not rows:
            return
        for joint in self._turn:
            joint.split()
        self._leave_turn(rows)
        for row in rows:
            row.stage = Stage.HELD
        for row in rows:
            self._choose(row)

    def _choose(self, row: Row) -> None:
        """Let the rows of a group go on from the best, if all are there."""
        begun = time.monotonic()
        with self._blaming(row.job):
            row.job.choose(row)
        self._turn_steps = 0
        self._charge(row.job.owner, time.monotonic() - begun)

    def _charge(self, owner: str, seconds: float) -> None:
        self._seconds[owner] = self._seconds.get(owner, 0.0) + seconds

    @property
    def _rows_of_turn(self) -> list[Row]:
        return [row for joint in self._turn for row in joint.rows]

    def _end_at_bounds(self) -> None:
        """End rows for which the encoding has no further position."""
        config = self._batch.network.config
        for row in self._rows_of_turn:
            try:
                config.position.check(len(row.job.ids) + len(row.tokens))
            except ValueError as error:
                row.job.bound = error
                self._leave_turn([row])
                self._drop([row])

    def _take_turns(self) -> None:
        """Count the steps of a turn, and choose the rows of the next one."""
        if self._turn_steps <= 0:
            rows = self._next_turn()
            if {*rows} != {*self._rows_of_turn}:
                for joint in self._turn:
                    joint.split()
                self._turn = _joint(rows, self._batch.network)
            self._turn_steps = FIRST_STEPS if self._beginning() else TURN_STEPS
        self._turn_steps -= 1

    def _next_turn(self) -> list[Row]:
        turn, size = [], 0
        for row in self._ranked(self._beginning() or self._due(self._at(Stage.PLAYING))):
            size += row.size
            if size > STEP_ROWS and turn:
                break
            turn.append(row)
        return turn

    def _beginning(self) -> list[Row]:
        """Return the rows whose first note is awaited, except those of owners who have had much more than others."""
        playing = self._at(Stage.PLAYING)
        beginning = [row for row in playing if len(row.tokens) < FIRST_STEPS]
        if not self._listeners or not beginning:
            return []
        most = min(self._seconds[row.job.owner] for row in playing) + FIRST_SECONDS
        return [row for row in beginning if self._seconds[row.job.owner] <= most]

    def _ranked(
        self, rows: Iterable[Row], then: Callable[[Row], float] = lambda _: 0.0
    ) -> list[Row]:
        """Sort rows for service: by the seconds that their owners have had, `then` by a key."""
        return sorted(rows, key=lambda row: (self._seconds[row.job.owner], then(row)))

    def _drop(self, rows: Iterable[Row]) -> None:
        """Remove rows that have ended, and end a job with its last row."""
        for row in rows:
            row.prefixes = []
            self._turn_steps = 0
            if row in row.job.writing:
                row.job.writing.remove(row)
            if row.job.error is not None or not row.job.writing:
                self._end(row.job)
            elif held := [other for other in row.job.group(row) if other.stage is Stage.HELD]:
                self._choose(held[0])

    def _leave_turn(self, rows: Collection[Row]) -> None:
        for joint in self._turn:
            joint.keep(np.array([row not in rows for row in joint.rows], bool))
        self._turn = [joint for joint in self._turn if joint.rows]

    def _fail(self, job: Job, error: Exception) -> None:
        job.error = job.error or error
        self._end(job)

    def _end(self, job: Job) -> None:
        """End a job, completed or not."""
        self._leave_turn(job.writing)
        for row in job.writing:
            row.prefixes = []
        self._turn_steps = 0
        job.let_go()
        if job in self._jobs:
            self._jobs.remove(job)
            self._forget_owners()
        if job.error is not None:
            self._prompts.pop(job.prompt_key, None)
        self._forget_prompts()
        job.ended.set()

    def _forget_owners(self) -> None:
        """Forget owners without a job who have had no more than a newcomer is given."""
        owners = {job.owner for job in self._jobs}
        if owners:
            self._least = max(self._least, min(self._seconds[owner] for owner in owners))
        self._seconds = {
            owner: seconds
            for owner, seconds in self._seconds.items()
            if owner in owners or seconds > self._least - CREDIT_SECONDS
        }

    def _forget_prompts(self) -> None:
        """Of the prompts without a request, keep the last few whose states are small."""
        wanted = {job.prompt_key for job in self._jobs}
        unwanted = [key for key in self._prompts if key not in wanted]
        for number, key in enumerate(reversed(unwanted)):
            after = self._prompts[key].after
            if number >= KEPT_PROMPTS or (after and after.state.bytes > KEPT_BYTES):
                del self._prompts[key]

    @contextmanager
    def _blaming(self, job: Job) -> Iterator[None]:
        """Let an exception end this job and no other."""
        try:
            yield
        except Exception as error:
            self._fail(job, error)
