"""The interface of a grammar: which tokens can come next, and how its state advances."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from copy import copy
from typing import Self

import numpy as np


class Rows:
    """State of B rows: arrays, (B, …), and parts that are such state themselves; all else is the same for all rows."""

    def select(self, rows: np.ndarray) -> Self:
        """Return a copy with the given rows, to drop some or to repeat one."""
        chosen = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray):  # (B, …)
                setattr(chosen, name, value[rows])
            elif isinstance(value, Rows):
                setattr(chosen, name, value.select(rows))
        return chosen

    @property
    def shared(self) -> Hashable:
        """All state except the rows. Others can be `joined` if it is equal."""
        return type(self), *((name, _shared(value)) for name, value in vars(self).items())

    def joined(self, others: Sequence[Self]) -> Self:
        """Return one state with the rows of several."""
        together = copy(self)
        for name, value in vars(self).items():
            theirs = [vars(other)[name] for other in others]
            if isinstance(value, np.ndarray):
                setattr(together, name, np.concatenate([value, *theirs]))
            elif isinstance(value, Rows):
                setattr(together, name, value.joined(theirs))
        return together


class Grammar(Rows, ABC):
    """A state machine over a batch of B prefixes, with arrays as state."""

    counts_bars = False  # whether it ends the music by itself after a number of bars

    @property
    @abstractmethod
    def bars(self) -> np.ndarray:
        """The number of bars so far, including the current one: (B,)."""

    @abstractmethod
    def allowed(self) -> np.ndarray:
        """Return the mask of the tokens that can come next: (B, V) bool, read-only."""

    @abstractmethod
    def advance(self, tokens: np.ndarray) -> None:
        """Append one token to each row: (B,) allowed ids."""

    def take(self, ids: np.ndarray) -> None:
        """Advance past a valid prompt; the grammar has one row."""
        for place in range(len(ids)):
            self.advance(ids[place : place + 1])

    def bias(self) -> np.ndarray | None:
        """Return the nats to add to the logits of the next token, (B, V) float32, or None for none."""
        return None

    def instead(self, tokens: np.ndarray) -> np.ndarray:
        """Return the tokens to append instead of the sampled ones; by default, these."""
        return tokens


class Excluding(Grammar):
    """A grammar with some tokens forbidden, such as the end token where the length is given."""

    def __init__(self, grammar: Grammar, tokens: Sequence[int]) -> None:
        self._grammar, self._tokens = grammar, tuple(tokens)

    @property
    def bars(self) -> np.ndarray:
        return self._grammar.bars

    def allowed(self) -> np.ndarray:
        mask = self._grammar.allowed().copy()
        mask[:, list(self._tokens)] = False
        return mask

    def bias(self) -> np.ndarray | None:
        return self._grammar.bias()

    def instead(self, tokens: np.ndarray) -> np.ndarray:
        return self._grammar.instead(tokens)

    def advance(self, tokens: np.ndarray) -> None:
        self._grammar.advance(tokens)

    def take(self, ids: np.ndarray) -> None:
        self._grammar.take(ids)


def _shared(value: object) -> object:
    if isinstance(value, np.ndarray):
        return value.shape[1:], value.dtype
    return value.shared if isinstance(value, Rows) else value
