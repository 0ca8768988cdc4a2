"""The second groove language: the trio's note-ons and note-offs in bars, with goals.

    begin (bar (at? (note_on | note_off)+)*)+ end

It says the same music as the first, on the same grid. A place in the bar stands once before all that happens there,
where the first language needs a time shift before every event off the beat. Bars can be counted down to an end or a
seam, and parts of the piece can be given beforehand, bar by bar (goals.py), and their chords with them (goals.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tokenization.groove.language import Groove
from tokenization.groove.spelling import BAR_TICKS, END, PARTS
from tokenization.groove_2 import goals, grammar
from tokenization.groove_2.grammar import BarGrammar
from tokenization.groove_2.spelling import (
    AT,
    BAR,
    LEFT_1,
    TICK_OF,
    VOCABULARY,
    WITHOUT_CHORDS,
    BarReading,
    plain,
    spell,
)
from tokenization.language import Language
from tokenization.score import Notes


class Groove2(Groove):
    """The trio language with bars."""

    name = "groove-2"
    vocabulary = VOCABULARY
    has_chords = True
    bar = BAR
    idle = LEFT_1
    parts = PARTS
    bars = Language.bars
    infilling = goals.infilling
    accompanying = goals.accompanying
    is_valid = staticmethod(grammar.is_valid)
    reason = staticmethod(grammar.explain)

    def notes(self, ids: np.ndarray) -> Notes:
        """Return the notes of valid ids, without velocities; with the end, what still sounds ends."""
        reading = BarReading(np.asarray(ids, dtype=np.int64))
        whole = len(reading.ids) > 0 and reading.ids[-1] == END
        return reading.all_notes(reading.bars * BAR_TICKS) if whole else reading.notes

    def spell(self, notes: Notes) -> np.ndarray:
        """Spell notes that are on the grid: (T,) uint16."""
        return spell(notes).astype(np.uint16)

    def close(self, ids: np.ndarray, bars: int | None = None) -> np.ndarray:
        """Complete a prefix: what still sounds ends with the bar, or after so many bars, and nobody counts."""
        reading = BarReading(plain(ids))
        line = BAR_TICKS * min(bars or reading.bars, max(reading.bars, 1))
        return self.spell(reading.all_notes(line))

    def grammar(
        self,
        *,
        prompt_tokens: int = 0,
        prompt_bars: int = 0,
        longest_ticks: Sequence[int] | None = None,
    ) -> BarGrammar:
        """Return the grammar to generate by: events of one time in any order, which `close` mends."""
        return BarGrammar(
            prompt_tokens=prompt_tokens,
            longest_ticks=self.checked_longest(longest_ticks),
            size=len(self.vocabulary),
        )

    def spec(self) -> dict[str, Any]:
        """Return name and full configuration as plain data, to go with data sets and models."""
        spec = super().spec()
        del spec["shifts"]
        return spec

    def clock(self) -> dict[str, Any]:
        """Return how bars and the places in them move time, in ticks."""
        places = [[token, 0, int(TICK_OF[token])] for token in range(AT.start, AT.stop)]
        return {"bar_ticks": BAR_TICKS, "step_ticks": BAR_TICKS, "moves": [[BAR, 1, 0], *places]}


class Groove2WithoutChords(Groove2):
    """Its first edition, which names no chords of given parts."""

    vocabulary = WITHOUT_CHORDS
    has_chords = False
