"""A script: tokens that are forced around bar lines, such as a plan, chords or given parts.

Letters: B rows of a batch, V tokens of the vocabulary, N bars, L tokens of the script.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tokenization.ensemble.grammar import ROOT_TONES, TONICS, TRIADS, EnsembleGrammar
from tokenization.ensemble.tokens import AT, BAR, END, HARMONY_ID, LENGTH, PITCH, VOCABULARY
from tokenization.grammar import Grammar

FREE = -1  # not in the script: the model chooses
TONIC = -1  # in a script: the tonic chord of the current key


@dataclass(frozen=True, kw_only=True, eq=False)
class Script:
    """The forced tokens around the bar tokens of a piece of N bars, as one passage per bar."""

    tokens: np.ndarray  # (L,)
    stop: np.ndarray  # (L,) the end of the passage that each token belongs to
    first: np.ndarray  # (N + 1,) the start of each passage; L after the last
    opening: np.ndarray  # (N + 1,) the first token of each passage; `end` after the last
    in_chords: np.ndarray  # (N + 1,) whether the passage contains chords; False after the last

    @classmethod
    def around(cls, before: Sequence[Sequence[int]], after: Sequence[Sequence[int]]) -> Script:
        """Return a script from the tokens before and after each bar token."""
        passages = [[*b, BAR, *a] for b, a in zip(before, after, strict=True)]
        lengths = np.array([len(passage) for passage in passages])
        first = np.concatenate([[0], lengths.cumsum()]).astype(np.int64)
        tokens = np.array([token for passage in passages for token in passage], dtype=np.int64)
        opening = np.append(tokens, END)[first]
        in_chords = np.array([*(HARMONY_ID in part for part in after), False])
        stop = np.repeat(first[1:], lengths)
        return cls(tokens=tokens, stop=stop, first=first, opening=opening, in_chords=in_chords)


class Scripted(Grammar):
    """A grammar that inserts the passages of a script, and ends the music after the last bar.

    The model can end a bar with `bar`, `end`, or the first token of the next passage; `instead` turns the first two
    into the third.
    """

    counts_bars = True

    def __init__(
        self,
        grammar: EnsembleGrammar,
        script: Script,
        *,
        may_end_silent: bool = False,
        on_tonic: bool = False,
        holds: bool = False,
    ) -> None:
        """Start one sequence, where `grammar` is.

        `may_end_silent`: the last bar can be empty. `on_tonic`: the script has the tonic chord in the last bar, and
        only its tones are allowed on the downbeat there, as in the endings of real pieces; the grammar's bass has the
        tonic itself. `holds`: each part attacks only the downbeat of the last bar, and holds its notes.
        """
        self._grammar, self._script, self._may_end_silent = grammar, script, may_end_silent
        self._on_tonic, self._holds = on_tonic, holds
        self._place = np.full(len(grammar.bars), FREE)
        self._key = np.full(len(grammar.bars), -1)  # of the tonic chord in the last bar

    @property
    def bars(self) -> np.ndarray:
        """The number of bars so far, including the current one: (B,)."""
        return self._grammar.bars

    def allowed(self) -> np.ndarray:
        """Return the mask of the tokens that can come next: (B, V) bool."""
        rows = (self._place != FREE).nonzero()[0]
        if len(rows) < len(self._place):
            mask = self._free()
            mask[rows] = False
        else:
            mask = np.zeros((len(rows), len(VOCABULARY)), dtype=bool)
        forced = self._script.tokens[self._place[rows]]
        forced[forced == TONIC] = self._grammar.tonics(rows[forced == TONIC])
        mask[rows, forced] = True
        return mask

    def _free(self) -> np.ndarray:
        """Return the mask of the tokens that can come next where the model chooses: (B, V) bool."""
        mask, bars = self._grammar.allowed().copy(), self._grammar.bars
        may_begin, has_next = mask[:, BAR].copy(), bars < len(self._script.first) - 1
        may_end = mask[:, END] | (may_begin & self._may_end_silent)
        over = np.where(has_next, may_begin, may_end).nonzero()[0]
        mask[:, [BAR, END]] = False
        mask[over, BAR] = mask[over, END] = True
        mask[over, self._script.opening[bars[over]]] = True
        # A bar with scripted chords has no others. Before the first bar, index −1 reads the last entry, False.
        rows = (self._script.in_chords[bars - 1] & self._grammar.in_chords).nonzero()[0]
        mask[rows, AT.start : AT.stop] = False
        if self._holds:
            last = (~has_next).nonzero()[0]
            mask[last, AT.start + 1 : AT.stop] = False
            mask[last, LENGTH.start : LENGTH.stop] &= self._grammar.held[last]
        for row in ((self._key >= 0) & self._grammar.on_downbeat).nonzero()[0]:
            tones, key = mask[row].copy(), self._key[row]
            bass = self._grammar.begins_bass[row]
            tones[PITCH.start : PITCH.stop] &= ROOT_TONES[key] if bass else TRIADS[key]
            mask[row] = tones if tones.any() else mask[row]
        return mask

    def bias(self) -> np.ndarray | None:
        """Return the nats to add to the logits of the next tokens, (B, V), or None for none."""
        return self._grammar.bias()

    def take(self, ids: np.ndarray) -> None:
        """Advance past a valid prompt; all but the last bar at once if the script has only their bar tokens."""
        bars = np.flatnonzero(ids == BAR)
        first = self._script.first[: len(bars)]
        only_bars = len(bars) > 1 and (np.diff(first) == 1).all()
        last = bars[-1] if only_bars else 0
        self._grammar.take(ids[:last])
        super().take(ids[last:])

    def instead(self, tokens: np.ndarray) -> np.ndarray:
        """Return the script's next opening for a `bar` or `end` that the model chose; else the token."""
        opening = self._script.opening[self._grammar.bars]
        free = self._place == FREE
        over = free & ((tokens == BAR) | (tokens == END) | (tokens == opening))
        inner = self._grammar.instead(np.where(over, BAR, tokens))
        return np.where(over & (inner == BAR), opening, np.where(free, inner, tokens))

    def advance(self, tokens: np.ndarray) -> None:
        """Append one token to each row."""
        tokens, bars = np.asarray(tokens, dtype=np.int64), self._grammar.bars
        has_next = bars < len(self._script.first) - 1
        opens = (self._place == FREE) & has_next & (tokens == self._script.opening[bars])
        first = self._script.first[np.where(opens, bars, 0)]
        place = np.where(opens, first, np.maximum(self._place, 0))
        if self._on_tonic:
            tonic = (tokens[:, None] == TONICS) & (~has_next & (self._place != FREE))[:, None]
            self._key = np.where(tonic.any(1), tonic.argmax(1), self._key)
        self._grammar.advance(tokens)
        within = (opens | (self._place != FREE)) & (place + 1 < self._script.stop[place])
        self._place = np.where(within, place + 1, FREE)
