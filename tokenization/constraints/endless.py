"""A grammar that forbids the end token, for music of a length that was asked for."""

from __future__ import annotations

import numpy as np

from tokenization.grammar import Grammar


class Endless(Grammar):
    """Another grammar without the end token."""

    def __init__(self, grammar: Grammar, end: int) -> None:
        self._grammar, self._end = grammar, end

    @property
    def bars(self) -> np.ndarray:
        """How many bars each row has begun."""
        return self._grammar.bars

    def allowed(self) -> np.ndarray:
        """Return which tokens may come next, without the end."""
        mask = self._grammar.allowed().copy()
        mask[:, self._end] = False
        return mask

    def instead(self, tokens: np.ndarray) -> np.ndarray:
        """Return what a row takes in place of a token."""
        return self._grammar.instead(tokens)

    def advance(self, tokens: np.ndarray) -> None:
        """Take one more token a row."""
        self._grammar.advance(tokens)
