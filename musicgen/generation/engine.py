"""Many requests to one model at once: all their rows go through one step together.

A step of eight rows costs little more than a step of one. So requests join and leave between steps; prompts are read in
pieces between them, and nobody's music stops for somebody's long prompt.

The promise: on one machine and device the same request gives the same music, and variation i is the same however many
are asked for, and whatever else is asked of the model meanwhile. On a CPU it holds to the last bit: 1 to 8 rows are
multiplied alike and more go in groups of 8 (few_rows.py); all else is computed row by row (batch.py). On a GPU, and
between machines, it holds to rounding: sooner or later another token is drawn.

Who is served when: where there is no room for all, those who had least of the machine's time. Where somebody listens,
rows that are bars ahead of what is heard stand still while there are others with nothing to hear.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby

import numpy as np
import torch
from torch import Tensor

from musicgen.generation.batch import Batch, SoftmaxBatch
from musicgen.generation.job import Job, Party
from musicgen.generation.prompt import After, pieces
from musicgen.generation.sampling import draw, probabilities
from musicgen.generation.shares import ServedTime
from musicgen.model.performer import Performer, State

MOST_ROWS = 256  # that are here, as far as memory goes
MOST_BYTES = 3 << 29  # of their states
STEP_ROWS = 64  # in one step: more are no cheaper a row, and each waits the longer
READ_SECONDS = 0.03  # of reading prompts before others get a step
TURN_STEPS = 16  # for which the same rows go on, where not all can
AHEAD_BARS = 2  # of what is heard: more can wait


class Engine:
    """The requests to one model; `add` may be called by any thread, `work` by one. `listeners`: somebody hears it."""

    def __init__(self, model: Performer, *, listeners: bool = False) -> None:
        self.model, self._listeners = model, listeners
        self._new: deque[Job] = deque()
        self._jobs: list[Job] = []
        self._line: list[Party] = []  # no room yet
        self._reading: list[Party] = []  # there is; the prompt is being read
        self._playing: list[Party] = []
        self._batch = SoftmaxBatch(model) if model.config.attention == "softmax" else Batch(model)
        self._most = MOST_ROWS if listeners else STEP_ROWS
        self._room = self._most
        self._shares = ServedTime()
        self._turn: list[Party] = []
        self._turn_steps = 0

    def add(self, job: Job) -> None:
        """Take in a request."""
        self._new.append(job)

    def __len__(self) -> int:
        return len(self._jobs) + len(self._new)

    @property
    def idle(self) -> bool:
        """Whether nobody is here."""
        return not self._jobs and not self._new

    def place(self, job: Job) -> int:
        """Return how many requests stand in line before one; 0 if it is at work."""
        line = list(dict.fromkeys(party.job for party in self._ranked(self._line[:])))
        return line.index(job) + 1 if job in line else 0

    def work(self) -> bool:
        """Do a little for those who are here: some reading, and one step. Says whether there was anything to do."""
        if self.idle:
            return False
        self._welcome()
        self._dismiss()
        self._admit()
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
            self._line += job.parties

    def _dismiss(self) -> None:
        for job in list(self._jobs):
            with self._blaming(job):
                if job.cancelled():
                    self._end(job)

    def _admit(self) -> None:
        """Let in who has had least, for as long as there is room."""
        if not self._line:
            return
        here = sum(map(len, (*self._reading, *self._playing)))
        for party in self._ranked(self._line):
            if here and here + len(party) > self._room:
                return
            here += len(party)
            self._line.remove(party)
            self._reading.append(party)

    def _read(self) -> None:
        """Read on in prompts: for a moment where others play, else to the end of one."""
        begun = time.monotonic()
        while self._reading:
            party = self._ranked(self._reading)[0]
            since = time.monotonic()
            with self._blaming(party.job):
                self._read_piece(party)
            self._shares.charge(party.owner, time.monotonic() - since)
            if self._playing and time.monotonic() > begun + READ_SECONDS:
                return
            if not self._playing:
                self._dismiss()

    def _read_piece(self, party: Party) -> None:
        job = party.job
        if job.after_prompt is None:
            if job.reading is None:
                job.reading = pieces(self.model, job.ids, job.request.seed)
            try:
                next(job.reading)
            except StopIteration as end:
                job.after_prompt, job.reading = end.value, None
            return
        self._start(party, job.after_prompt)

    def _start(self, party: Party, after: After) -> None:
        logits, state = after
        scores = _scores(logits)
        _check_finite(scores)
        party.start(self._batch.join(state, len(party)), scores)
        self._room = max(1, min(self._most, MOST_BYTES // max(1, _bytes(state))))
        self._reading.remove(party)
        self._playing.append(party)
        if not any(other in self._line or other in self._reading for other in party.job.parties):
            party.job.after_prompt = None
        self._turn_steps = 0

    def _step(self) -> None:
        """Give each row of those whose turn it is one token more."""
        begun = time.monotonic()
        parties = self._chosen(begun)
        self._draw(parties)
        parties = [party for party in parties if len(party)]
        for party in parties:
            with self._blaming(party.job):
                self.model.position.check(len(party.job.ids) + len(party.job.rows[party.live[0]]))
        parties = [party for party in parties if len(party)]
        numbers = [number for party in parties for number in party.numbers]
        if numbers:
            tokens = torch.from_numpy(np.concatenate([party.given for party in parties]))
            logits = self._batch.step(numbers, tokens.to(self.model.embedding.weight.device))
            self._hand_out(parties, _scores(logits))
        self._charge(parties, time.monotonic() - begun)

    def _draw(self, parties: Sequence[Party]) -> None:
        """Draw a token a row, and let parties take them."""
        ready = []
        for party in parties:
            with self._blaming(party.job):
                self._drop(party, party.look())
                if len(party):
                    ready.append(party)
        ready = [party for party in ready if len(party)]  # another's error may have ended its job
        for sampling, group in groupby(ready, key=lambda party: party.job.request.sampling):
            alike = list(group)
            scores = np.concatenate([party.scores for party in alike])
            masks = [
                np.ones(party.scores.shape, bool) if party.allowed is None else party.allowed
                for party in alike
            ]
            uniforms = np.array([x for party in alike for x in party.uniforms()])
            tokens = draw(probabilities(scores, sampling, np.concatenate(masks)), uniforms)
            for party, own in zip(alike, _split(tokens, alike), strict=True):
                with self._blaming(party.job):
                    self._drop(party, party.take(own))

    def _hand_out(self, parties: Sequence[Party], scores: np.ndarray) -> None:
        for party, own in zip(parties, _split(scores, parties), strict=True):
            with self._blaming(party.job):
                _check_finite(own)
                party.scores = own

    def _chosen(self, now: float) -> list[Party]:
        """Return whose turn it is."""
        if self._turn_steps <= 0:
            self._turn, self._turn_steps = self._next_turn(now), TURN_STEPS
        self._turn_steps -= 1
        return list(self._turn)

    def _next_turn(self, now: float) -> list[Party]:
        playing, lead = self._playing, dict.fromkeys(self._playing, 0.0)
        if self._listeners:
            lead = {party: party.lead(now) for party in playing}
            if self._reading or any(party.heard_since is None for party in playing):
                playing = [party for party in playing if lead[party] <= AHEAD_BARS]
        turn, rows = [], 0
        for party in self._ranked(playing, lead):
            if rows + len(party) > STEP_ROWS and turn:
                break
            turn.append(party)
            rows += len(party)
        return turn

    def _ranked(
        self, parties: Iterable[Party], lead: dict[Party, float] | None = None
    ) -> list[Party]:
        """Return parties in the order of service: by what their owners had, then by how far ahead they are."""
        had = self._shares.had
        return sorted(
            parties, key=lambda party: (had(party.owner), 0.0 if lead is None else lead[party])
        )

    def _charge(self, parties: Sequence[Party], seconds: float) -> None:
        rows = sum(map(len, parties))
        for party in parties:
            self._shares.charge(party.owner, seconds * len(party) / max(1, rows))

    def _drop(self, party: Party, numbers: Sequence[int]) -> None:
        """Let rows go that have ended, and what they belonged to if they were the last."""
        self._batch.leave(numbers)
        if not len(party):
            self._playing.remove(party)
            self._turn_steps = 0
            if not any(map(len, party.job.parties)):
                self._end(party.job)

    def _end(self, job: Job) -> None:
        """Let a job go, done or not."""
        for party in job.parties:
            self._batch.leave(party.numbers)
            party.numbers, party.live = [], party.live[:0]
        for parties in (self._line, self._reading, self._playing, self._turn):
            parties[:] = [party for party in parties if party.job is not job]
        self._turn_steps = 0
        job.reading = job.after_prompt = None
        if job in self._jobs:
            self._jobs.remove(job)
            self._shares.go(job.owner, {other.owner for other in self._jobs})
        job.ended.set()

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


def _split(values: np.ndarray, parties: Sequence[Party]) -> list[np.ndarray]:
    """Return each party's part of what was computed for all their rows."""
    return np.split(values, np.cumsum([len(party) for party in parties])[:-1])


def _bytes(state: State) -> int:
    """Return how much memory a row's state takes."""
    tensors = [x for layer in state.layers for x in layer if isinstance(x, Tensor)]
    return sum(x.numel() * x.element_size() for x in tensors) // len(tensors[0])
