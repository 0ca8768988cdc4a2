"""The groove language: a trio of bass, drums and one other track as note-ons, note-offs and shifts.

    begin (time_shift* (note_on | note_off))+ end

It has neither dynamics nor instruments nor a tempo; a `Band` keeps them beside the tokens.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tokenization.groove import faults
from tokenization.groove.arrange import arrange
from tokenization.groove.events import Reading, events_of, spell_events
from tokenization.groove.grammar import FAR_TICKS, GrooveGrammar
from tokenization.groove.grid import DEFAULT_BAND, Band, band_of, grid
from tokenization.groove.tokens import (
    BAR_TICKS,
    BEGIN,
    END,
    MOST_UNISONS,
    PITCHES,
    SHIFTS,
    TICKS_PER_BEAT,
    TIME_SHIFT,
    TRACKS,
    VOCABULARY,
)
from tokenization.language import Encoded, Language
from tokenization.score import Notes, Score

RARE = 1e-4  # share of notes that may last longer than what is called the longest


class Groove(Language):
    """The trio language."""

    name = "groove"
    vocabulary = VOCABULARY
    begin = BEGIN
    end = END
    has_chords = False  # of given parts, to those that are written to them
    is_valid = staticmethod(faults.is_valid)
    reason = staticmethod(faults.explain)

    def arrange(self, score: Score, tracks: Any = None) -> Score:
        """Bring any score to bass, drums and one more on the 4/4 grid; its remarks explain.

        `tracks` names these three, by index or name, None for none; else they are found.
        """
        return arrange(score, tracks)

    def encode(self, score: Score) -> Encoded:
        """Spell an arranged score, from the begin token to the end token."""
        notes, losses = grid(score)
        ids = self.spell(notes)
        return Encoded(
            ids=ids, bars=self.bars(ids), notes=len(notes), losses=losses, setting=band_of(score)
        )

    def decode(self, ids: np.ndarray, setting: Band | None = None) -> Score:
        """Read a valid sequence or a prefix of one; a note broken off at its end is left out."""
        return (setting or DEFAULT_BAND).score(self.notes(self.valid(ids)))

    def notes(self, ids: np.ndarray) -> Notes:
        """Return the notes of valid ids, without velocities: what augmentation works on."""
        return Reading(np.asarray(ids, dtype=np.int64)).notes

    def spell(self, notes: Notes) -> np.ndarray:
        """Spell notes that are on the grid, such as some of a piece's own: (T,) uint16."""
        return np.append(spell_events(events_of(notes)), END).astype(np.uint16)

    def close(self, ids: np.ndarray, bars: int | None = None) -> np.ndarray:
        """Complete a prefix: what still sounds ends with the bar, then comes the end token.

        Events of one time may stand in any order (grammar.py); they are put in the valid one.

        With `bars`, the piece ends after so many bars at the latest, and all that sounds with it; a prefix that has not
        come so far, with the bar that it has come to.
        """
        reading = Reading(np.asarray(ids, dtype=np.int64))
        begun = self._bars_begun(reading)
        if bars and len(reading.ids):  # a shift to a bar's line has come to that bar
            begun = min(bars, int(reading.time_ticks[-1]) // BAR_TICKS + 1)
        return self.spell(reading.all_notes(BAR_TICKS * begun))

    def grammar(
        self,
        *,
        prompt_tokens: int = 0,
        prompt_bars: int = 0,
        longest_ticks: Sequence[int] | None = None,
    ) -> GrooveGrammar:
        """Return the grammar to generate by: events of one time in any order, which `close` mends."""
        return GrooveGrammar(
            prompt_tokens=prompt_tokens,
            start_ticks=prompt_bars * BAR_TICKS,
            longest_ticks=self.checked_longest(longest_ticks),
        )

    def checked_longest(self, longest_ticks: Sequence[int] | None) -> tuple[int, ...] | None:
        """Return how long notes of each track may last, or say what is wrong with it."""
        if longest_ticks is None:
            return None
        if (
            len(longest_ticks) != len(TRACKS)
            or not 1 <= min(longest_ticks) <= max(longest_ticks) <= FAR_TICKS
        ):
            raise ValueError(
                f"the longest notes are {[*longest_ticks[:9]]}, not a tick or more for each of {', '.join(TRACKS)}"
            )
        return tuple(longest_ticks)

    def longest(self, pieces: Iterable[np.ndarray]) -> list[int]:
        """Return how many ticks the notes of each track last at most in pieces, but for one in 10 000.

        A track without notes is not bounded by what was not seen: it gets what the longest other one has.
        """
        found = Notes.concatenate([self.notes(ids) for ids in pieces])
        by_track = [found.duration_ticks[found.track == track] for track in range(len(TRACKS))]
        longest = [
            int(np.percentile(ticks, 100 * (1 - RARE), method="higher")) if len(ticks) else 0
            for ticks in by_track
        ]
        return [ticks or max(longest) for ticks in longest]

    def bars(self, ids: np.ndarray) -> np.ndarray:
        """Return the token offset at which each bar starts: the first token to reach its line.

        A note that only ends on a bar line does not start the bar there.
        """
        reading = Reading(np.asarray(ids, dtype=np.int64))
        lines = BAR_TICKS * np.arange(self._bars_begun(reading))
        return np.maximum(np.searchsorted(reading.time_ticks, lines), 1)

    @staticmethod
    def _bars_begun(reading: Reading) -> int:
        """Return the number of bars up to the last event, or to the end of the shifts after it."""
        if not len(reading.ids):
            return 0
        onset = reading.time_ticks[reading.event_places[reading.is_on]]
        reached = max(int(reading.time_ticks[-1]), int(onset.max(initial=-1)) + 1)
        return max(-(-reached // BAR_TICKS), 1)

    def kinds(self) -> np.ndarray:
        """Return the kind of each token; notes are of three, one a track. (V,)"""
        kinds = super().kinds()
        for block in (self.vocabulary["note_on"], self.vocabulary["note_off"]):
            tracks = np.arange(len(block)) // PITCHES
            kinds[block.start : block.stop] = kinds.max() + 1 + tracks
        return kinds

    def spec(self) -> dict[str, Any]:
        """Return name and full configuration as plain data, to go with data sets and models."""
        return {
            **super().spec(),
            "tracks": list(TRACKS),
            "ticks_per_beat": TICKS_PER_BEAT,
            "bar_ticks": BAR_TICKS,
            "shifts": [list(shift) for shift in SHIFTS],
            "most_unisons": MOST_UNISONS,
        }

    def clock(self) -> dict[str, Any]:
        """Return how time shifts move time: by whole beats, then to a tick of that beat."""
        return {
            "bar_ticks": BAR_TICKS,
            "step_ticks": TICKS_PER_BEAT,
            "moves": [[TIME_SHIFT.start + i, *shift] for i, shift in enumerate(SHIFTS)],
        }

    def first_fault(self, ids: np.ndarray) -> int | None:
        """Return the first position whose token may not stand there."""
        if self.is_valid(ids):
            return None
        # Prefixes are valid up to the fault, and no longer from there on.
        return bisect_left(range(len(ids)), True, key=lambda n: not self.is_valid(ids[: n + 1]))
