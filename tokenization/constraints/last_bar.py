"""A grammar that knows the last bar a piece is to have."""

from __future__ import annotations

import numpy as np

from tokenization.grammar import Grammar

PAST = 2  # more than the one bar on that `generate` is told to go


class LastBar(Grammar):
    """Counts 0 bars up to the last one, and PAST behind it.

    Languages differ in whether a bar has begun right behind a prompt; so bars are counted from the
    first of the piece, not from there.
    """

    def __init__(self, grammar: Grammar, last: int) -> None:
        self._grammar, self._last = grammar, last

    @property
    def bars(self) -> np.ndarray:
        """PAST where a row has begun a bar behind the last, else 0."""
        return PAST * (self._grammar.bars > self._last)

    def allowed(self) -> np.ndarray:
        """Return which tokens may come next."""
        return self._grammar.allowed()

    def instead(self, tokens: np.ndarray) -> np.ndarray:
        """Return what a row takes in place of a token."""
        return self._grammar.instead(tokens)

    def advance(self, tokens: np.ndarray) -> None:
        """Take one more token a row."""
        self._grammar.advance(tokens)

    def select(self, rows: np.ndarray) -> LastBar:
        """Return copies of the given rows."""
        return LastBar(self._grammar.select(rows), self._last)
