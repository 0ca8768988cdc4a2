"""A grammar that forces given tokens: certain tokens are set around each bar line, all others the model chooses.

Letters: B rows of a batch, L tokens of the script.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tokenization.ensemble.grammar import EnsembleGrammar
from tokenization.ensemble.tokens import BAR, END
from tokenization.grammar import Grammar

FREE = -1  # no place in the script: the row writes


@dataclass(frozen=True, kw_only=True, eq=False)
class Script:
    """The forced tokens around the bar tokens of a piece of N bars, in order."""

    tokens: np.ndarray  # (L,)
    stop: np.ndarray  # (L,) where each bar's part ends
    first: np.ndarray  # (N + 1,) the place of each bar's part; L after the last
    # (N + 1,) what comes where a bar is over: the first of the next one's part; the end at last
    opening: np.ndarray

    @classmethod
    def around(cls, before: Sequence[Sequence[int]], after: Sequence[Sequence[int]]) -> Script:
        """Say of each bar what stands before its bar token and what right after it."""
        parts = [[*b, BAR, *a] for b, a in zip(before, after, strict=True)]
        lengths = np.array([len(part) for part in parts])
        first = np.concatenate([[0], lengths.cumsum()]).astype(np.int64)
        tokens = np.array([token for part in parts for token in part], dtype=np.int64)
        opening = np.append(tokens, END)[first]
        return cls(tokens=tokens, stop=np.repeat(first[1:], lengths), first=first, opening=opening)


class Scripted(Grammar):
    """The grammar of music that has as many bars as the script, and then ends.

    A bar is over by whichever token a model would end it: the next bar's, the end, or what the script says there. Each
    stands for what comes in fact. To forbid the others would push a model that expects one of them into notes that it
    does not want.
    """

    def __init__(
        self, grammar: EnsembleGrammar, script: Script, *, may_end_silent: bool = False
    ) -> None:
        """Stand where `grammar` stands, at the start of a sequence.

        `may_end_silent`: the end may also come where another bar could, after an empty one.
        """
        self._grammar, self._script, self._may_end_silent = grammar, script, may_end_silent
        self._place = np.full(len(grammar.bars), FREE)

    @property
    def bars(self) -> np.ndarray:
        """How many bars each row has begun to write."""
        return self._grammar.bars

    def allowed(self) -> np.ndarray:
        """Return which tokens may come next."""
        mask = self._grammar.allowed().copy()
        bars, scripted = self._grammar.bars, self._place != FREE
        may_begin, rest = mask[:, BAR].copy(), bars < len(self._script.first) - 1
        may_end = mask[:, END] | (may_begin & self._may_end_silent)
        over = np.flatnonzero(np.where(rest, may_begin, may_end))
        mask[:, [BAR, END]] = False
        mask[over, BAR] = mask[over, END] = True
        mask[over, self._script.opening[bars[over]]] = True
        rows = np.flatnonzero(scripted)
        mask[rows] = False
        mask[rows, self._script.tokens[self._place[rows]]] = True
        return mask

    def instead(self, tokens: np.ndarray) -> np.ndarray:
        """Return what a row takes in place of a token; nothing else where the script speaks."""
        over = (self._place == FREE) & np.isin(tokens, (BAR, END))
        return np.where(over, self._script.opening[self._grammar.bars], tokens)

    def advance(self, tokens: np.ndarray) -> None:
        """Take one more token a row."""
        tokens, bars = np.asarray(tokens, dtype=np.int64), self._grammar.bars
        rest = bars < len(self._script.first) - 1
        opens = (self._place == FREE) & rest & (tokens == self._script.opening[bars])
        first = self._script.first[np.where(opens, bars, 0)]
        place = np.where(opens, first, np.maximum(self._place, 0))
        self._grammar.advance(tokens)
        goes_on = (opens | (self._place != FREE)) & (place + 1 < self._script.stop[place])
        self._place = np.where(goes_on, place + 1, FREE)
