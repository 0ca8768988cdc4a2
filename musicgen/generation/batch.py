"""Sequences that a network continues together: the network's state after each, and its recall.

A network is the kernel's (kernel/network.py) or torch's (eager.py). Each sequence is computed by itself, so that it
does not depend, to the last bit, on what else is computed.

B sequences, V tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self
from zlib import crc32

import numpy as np

from musicgen.config import ModelConfig
from musicgen.generation.request import Order
from musicgen.kernel.host import Kernel
from musicgen.recall import Recall, RecallRoles, take_each

# The strength of recall in a band that goes on. At full strength, it repeats itself more than bands do, and its harmony
# stands still.
RECALL_OF_BANDS = 0.6


class NetworkState(Protocol):
    """The state of a network after a sequence."""

    @property
    def logits_at(self) -> int:
        """The address in the kernel's memory of the logits of the next token."""
        ...

    @property
    def bytes(self) -> int:
        """The size of the state, with all the metric memory that it can fill."""
        ...

    def copy(self) -> Self:
        """Return a state that continues independently."""
        ...


class Network(Protocol):
    """What computes the logits of sequences."""

    config: ModelConfig
    kernel: Kernel

    def begin(self, seed: int) -> Any:
        """Return the state before a sequence's first token; the seed draws the noise of the encoding."""
        ...

    def advance(
        self,
        states: Sequence[Any],
        tokens: np.ndarray,
        guesses: np.ndarray | None = None,
        strengths: np.ndarray | float = 1.0,
    ) -> Any:
        """Append tokens to states, in order; the logits of the next token are then in each state."""
        ...


@dataclass(eq=False)
class Prefix:
    """A sequence so far."""

    state: NetworkState
    recall: Recall | None  # None if the model does not recall

    def copy(self) -> Prefix:
        """Return a sequence that continues independently."""
        return Prefix(self.state.copy(), None if self.recall is None else self.recall.copy())


class Batch:
    """The sequences of one network."""

    def __init__(self, network: Network) -> None:
        self.network, config = network, network.config
        self._roles: RecallRoles | None = None
        if config.recall is not None:
            self._roles = RecallRoles(config.recall, config.vocabulary_size, network.kernel)

    def begin(self, wanted: Order) -> Prefix:
        """Return the sequence before the first token of a request's prompt, which must not be too long."""
        self.network.config.position.check(len(wanted.ids))
        recall = None
        if self._roles is not None:
            recall = self._roles.begin(
                elsewhere=wanted.elsewhere, unlike=wanted.unlike, sources=wanted.sources,
                varies=wanted.varies, strength=self._strength(wanted),
            )  # fmt: skip
        return Prefix(self.network.begin(noise_of(wanted.ids)), recall)

    def _strength(self, wanted: Order) -> float:
        """Return how strongly a request recalls."""
        assert self._roles is not None
        has_bars = np.count_nonzero(wanted.ids == self._roles.bar) > 1  # a new one is the last
        goes_on = has_bars and not wanted.elsewhere and not wanted.sources
        is_band = goes_on and self._roles.drums in wanted.ids
        return wanted.request.sampling.recall * (RECALL_OF_BANDS if is_band else 1)

    def read(self, prefix: Prefix, ids: np.ndarray) -> None:
        """Append tokens to one sequence."""
        recall, states = prefix.recall, [prefix.state] * len(ids)  # which takes them in turn
        if recall is None:
            self.network.advance(states, ids)
        else:
            self.network.advance(states, ids, recall.take(ids), recall.strength)

    def append(self, prefixes: Sequence[Prefix], tokens: np.ndarray) -> None:
        """Append one token to each sequence, (B,)."""
        states = [prefix.state for prefix in prefixes]
        recalls = [prefix.recall for prefix in prefixes if prefix.recall is not None]
        if not recalls:
            self.network.advance(states, tokens)
            return
        strengths = np.array([recall.strength for recall in recalls], np.float32)
        self.network.advance(states, tokens, take_each(recalls, tokens), strengths)


def noise_of(ids: np.ndarray) -> int:
    """Return the seed of the encoding's noise for a prompt: the same for every request, so that states are shared."""
    return crc32(ids.astype("<i8").tobytes())
