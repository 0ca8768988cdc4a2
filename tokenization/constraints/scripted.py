"""A grammar that forces given tokens: certain tokens are set around each bar line, all others the model chooses.

Letters: B rows of a batch, L tokens of the script.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tokenization.goal import SEAM
from tokenization.grammar import Grammar
from tokenization.language import Language

FREE = -1  # no place in the script: the row writes


@dataclass(frozen=True, kw_only=True, eq=False)
class Script:
    """The forced tokens around the bar tokens of a piece of N bars, in order."""

    tokens: np.ndarray  # (L,)
    is_bar: np.ndarray  # (L,) which of them are the bar tokens of the bars that are written
    stop: np.ndarray  # (L,) where each bar's part ends
    first: np.ndarray  # (N + 1,) the place of each bar's part; L after the last
    # (N + 1,) what comes where a bar is over: the first of the next one's part; the end at last
    opening: np.ndarray

    @classmethod
    def around(
        cls, language: Language, before: Sequence[Sequence[int]], after: Sequence[Sequence[int]]
    ) -> Script:
        """Say of each bar what stands before its bar token and what right after it."""
        bar = language.bar
        assert bar is not None, "a script stands around bar tokens"
        parts = [[*b, bar, *a] for b, a in zip(before, after, strict=True)]
        lengths = np.array([len(part) for part in parts])
        first = np.concatenate([[0], lengths.cumsum()]).astype(np.int64)
        is_bar = np.zeros(first[-1], dtype=bool)
        is_bar[first[:-1] + [len(b) for b in before]] = True
        tokens = np.array([token for part in parts for token in part], dtype=np.int64)
        opening = np.append(tokens, language.end)[first]
        stop = np.repeat(first[1:], lengths)
        return cls(tokens=tokens, is_bar=is_bar, stop=stop, first=first, opening=opening)

    @classmethod
    def to_a_seam(cls, language: Language, after: np.ndarray, start: int, stop: int) -> Script:
        """Say at first what comes after the bars start … stop − 1, and of each of these how many are left."""
        left = language.vocabulary[SEAM].start + np.arange(stop - start)[::-1, None]
        scripts = [after.tolist(), *[[]] * (stop - 1)]
        return cls.around(language, scripts, [*[[]] * start, *left.tolist()])


class Scripted(Grammar):
    """Another grammar whose music has as many bars as the script, and then ends.

    The other grammar hears nothing of what the script says, but the bar tokens, unless it is one that `hears`. A bar is
    over by whichever token a model would end it: the next bar's, the end, or what the script says there. Each stands
    for what comes in fact. To forbid the others would push a model that expects one of them into notes that it does not
    want.
    """

    def __init__(
        self,
        grammar: Grammar,
        language: Language,
        script: Script,
        *,
        may_end_silent: bool = False,
        hears: bool = False,
    ) -> None:
        """Stand where `grammar` stands, at the start of a sequence.

        `may_end_silent`: the end may also come where another bar could, in a language that has no end after an empty
        bar. `hears`: the other grammar takes all tokens of the script, not the bar tokens alone.
        """
        assert language.bar is not None, "a script stands around bar tokens"
        assert language.idle is not None, "the grammar of a language with goals takes a token idly"
        self._grammar, self._script = grammar, script
        self._bar, self._end, self._idle = language.bar, language.end, language.idle
        self._may_end_silent, self._hears = may_end_silent, hears
        self._place = np.full(len(grammar.bars), FREE)

    @property
    def bars(self) -> np.ndarray:
        """How many bars each row has begun to write."""
        return self._grammar.bars

    def allowed(self) -> np.ndarray:
        """Return which tokens may come next."""
        mask = self._grammar.allowed().copy()
        bars, scripted = self._grammar.bars, self._place != FREE
        may_begin, rest = mask[:, self._bar].copy(), bars < len(self._script.first) - 1
        may_end = mask[:, self._end] | (may_begin & self._may_end_silent)
        over = np.flatnonzero(np.where(rest, may_begin, may_end))
        mask[:, [self._bar, self._end]] = False
        mask[over, self._bar] = mask[over, self._end] = True
        mask[over, self._script.opening[bars[over]]] = True
        rows = np.flatnonzero(scripted)
        mask[rows] = False
        mask[rows, self._script.tokens[self._place[rows]]] = True
        return mask

    def instead(self, tokens: np.ndarray) -> np.ndarray:
        """Return what a row takes in place of a token; nothing else where the script speaks."""
        scripted, bars = self._place != FREE, self._grammar.bars
        over = ~scripted & np.isin(tokens, (self._bar, self._end))
        tokens = np.where(over, self._script.opening[bars], tokens)
        opens = self._opens(tokens)
        plain = np.where(opens, self._bar, np.where(scripted, self._idle, tokens))
        taken = self._grammar.instead(plain)
        return np.where(scripted | (opens & (taken == plain)), tokens, taken)

    def advance(self, tokens: np.ndarray) -> None:
        """Take one more token a row."""
        tokens = np.asarray(tokens, dtype=np.int64)
        opens = self._opens(tokens)
        scripted = opens | (self._place != FREE)
        first = self._script.first[np.where(opens, self._grammar.bars, 0)]
        place = np.where(opens, first, np.maximum(self._place, 0))
        own = ~scripted | self._script.is_bar[place] | self._hears
        self._grammar.advance(np.where(own, tokens, self._idle))
        goes_on = scripted & (place + 1 < self._script.stop[place])
        self._place = np.where(goes_on, place + 1, FREE)

    def _opens(self, tokens: np.ndarray) -> np.ndarray:
        """Say where a token is the first one of a bar's part: (B,)."""
        bars = self._grammar.bars
        rest = bars < len(self._script.first) - 1
        return (self._place == FREE) & rest & (tokens == self._script.opening[bars])
