"""A model in several instances of the kernel, which take the sequences of a step side by side, on a thread each.

Each item gives the same bits in any instance. An instance has its own memory, so the weights are there once for each,
and a sequence moves from one to another where a step would wait for the fullest.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait

import numpy as np

from musicgen.kernel.host import Span
from musicgen.kernel.network import KernelNetwork, State

MOST_LANES = 4


class LaneState:
    """The state of a sequence in one of the lanes, with its logits where the first one has them."""

    def __init__(self, lanes: Lanes, lane: int, state: State, logits: Span | None = None) -> None:
        self._lanes, self.lane, self.state, self._logits = lanes, lane, state, logits

    @property
    def bytes(self) -> int:
        """The size of the state when its metric memory is full."""
        return self.state.bytes

    @property
    def logits_at(self) -> int:
        """The address in the first lane's memory of the logits of the next token."""
        return self._logits.address if self._logits else self.state.logits_at

    def copy(self) -> LaneState:
        """Return a state that continues independently, in the same lane."""
        logits = self._logits.copy() if self._logits else None
        return LaneState(self._lanes, self.lane, self.state.copy(), logits)

    def move(self, lane: int, network: KernelNetwork) -> None:
        """Move to another lane."""
        self.lane, self.state = lane, self.state.copy_in(network)
        if self._logits is None:
            self._logits = self._lanes.kernel.take(4 * network.config.vocabulary_size)
        self.show()

    def show(self) -> None:
        """Copy the logits to the first lane."""
        if self._logits is not None:
            self._logits.write(self.state.logits())


class Lanes:
    """The network of a model in as many instances as there are processors, made when a step has the rows for them."""

    def __init__(self, make: Callable[[], KernelNetwork], most: int | None = None) -> None:
        """Make the first instance; `most` is the number of them."""
        self._make, self.most = make, most or _threads()
        self.lanes = [make()]
        self.config, self.kernel = self.lanes[0].config, self.lanes[0].kernel
        self._pool: ThreadPoolExecutor | None = None

    def begin(self, seed: int) -> LaneState:
        """Return the state before a sequence's first token, in the first lane."""
        return LaneState(self, 0, self.lanes[0].begin(seed))

    def advance(
        self, states: Sequence[LaneState], tokens: np.ndarray, guesses: np.ndarray | None = None,
        strengths: np.ndarray | float = 1.0,
    ) -> None:  # fmt: skip
        """Append tokens to states, in order; `guesses`, (count, 4), are those of recall."""
        apart = list(dict.fromkeys(states))
        self._spread(apart)
        strengths = np.broadcast_to(np.asarray(strengths, np.float32), len(tokens))
        lane_of = np.array([state.lane for state in states])

        def advance(lane: int) -> None:
            own = np.flatnonzero(lane_of == lane)
            some = None if guesses is None else guesses[own]
            inner = [states[place].state for place in own.tolist()]
            self.lanes[lane].advance(inner, tokens[own], some, strengths[own])

        first, *others = sorted(set(lane_of.tolist()))
        if others and self._pool is None:
            self._pool = ThreadPoolExecutor(MOST_LANES, "lane")
        waited = [self._pool.submit(advance, lane) for lane in others] if self._pool else []
        try:
            advance(first)
        finally:
            wait(waited)  # no thread works on states that are given up
        for one in waited:
            one.result()
        for state in apart:
            state.show()

    def _spread(self, apart: Sequence[LaneState]) -> None:
        """Move states from the fullest lane to the emptiest until they have as many, but for one."""
        while len(self.lanes) < min(self.most, len(apart)):
            self.lanes.append(self._make())
        counts = np.bincount([state.lane for state in apart], minlength=len(self.lanes))
        while counts.max() > counts.min() + 1:
            full, empty = int(counts.argmax()), int(counts.argmin())
            last = next(state for state in reversed(apart) if state.lane == full)
            last.move(empty, self.lanes[empty])
            counts[[full, empty]] += -1, 1


def _threads() -> int:
    """Return how many threads this process may use, or the user lets it."""
    if sys.platform == "emscripten":
        return 1
    from tokenization.processes import THREADS, processors  # which a browser cannot import

    asked = os.environ.get(THREADS, "")
    return min(
        MOST_LANES, processors(), int(asked) if asked.isdigit() and int(asked) else MOST_LANES
    )
