"""The contract of a grammar: which tokens may come next, and what happens when one does."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from copy import copy
from typing import Self

import numpy as np


class Grammar(ABC):
    """What may follow: a state machine over a batch of B prefixes, array look-ups only."""

    counts_bars = (
        False  # whether it leads to the end token by itself, with the last of so many bars
    )

    @property
    @abstractmethod
    def bars(self) -> np.ndarray:
        """How many bars each row has begun, to stop by: (B,)."""

    @abstractmethod
    def allowed(self) -> np.ndarray:
        """Return which tokens may come next: (B, V) bool, not to be written into."""

    @abstractmethod
    def advance(self, tokens: np.ndarray) -> None:
        """Take one more token a row: (B,) ids that `allowed` allowed."""

    def take(self, ids: np.ndarray) -> None:
        """Take the tokens of a valid prompt, where there is one row."""
        for place in range(len(ids)):
            self.advance(ids[place : place + 1])

    def instead(self, tokens: np.ndarray) -> np.ndarray:
        """Return what a row takes in place of an allowed token that was drawn: as a rule, the token."""
        return tokens

    def select(self, rows: np.ndarray) -> Self:
        """Return a grammar of copies of the given rows: to drop some, or to vary one prefix."""
        chosen = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray):  # with a row for each prefix: (B, …)
                setattr(chosen, name, value[rows])
            elif isinstance(value, Grammar):
                setattr(chosen, name, value.select(rows))
        return chosen

    @property
    def shared(self) -> Hashable:
        """What grammars must have in common that can be `joined`: all but the rows."""
        return type(self), *((name, _shared(value)) for name, value in vars(self).items())

    def joined(self, others: Sequence[Self]) -> Self:
        """Return one grammar of the rows of several, one after the other."""
        together = copy(self)
        for name, value in vars(self).items():
            theirs = [vars(other)[name] for other in others]
            if isinstance(value, np.ndarray):
                setattr(together, name, np.concatenate([value, *theirs]))
            elif isinstance(value, Grammar):
                setattr(together, name, value.joined(theirs))
        return together


def _shared(value: object) -> object:
    if isinstance(value, np.ndarray):
        return value.shape[1:], value.dtype
    return value.shared if isinstance(value, Grammar) else value
