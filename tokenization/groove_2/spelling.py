"""Bars of events ↔ tokens: one spelling of notes on the grid, and reading it, as array operations.

A bar is its bar token and what happens in it; a place token stands before what happens off the bar line, once for all
that happens at that time. What ends on a line ends after the token of the bar that begins there; what sounds when the
piece ends ends with its last bar and has no note-off.

Letters: T tokens, E events.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from tokenization.analysis.chords import CHORDS, ROOTS
from tokenization.groove.spelling import BAR_TICKS, BEGIN, END, TRACKS, Events, Reading, events_of
from tokenization.groove.spelling import VOCABULARY as FIRST
from tokenization.language import GOAL_FAMILIES, LEFT, SEAM, Vocabulary
from tokenization.score import Notes

# The alphabet of the second groove language: bars and places in them move time, and goals have tokens of their own.
#
# Notes begin and end by the same ids as in the first one, so that what a model knows of them can be kept. Its first
# edition had no names of chords, which come last (goals.py).

_FAMILIES = [
    *((name, FIRST[name].names) for name in ("special", "note_on", "note_off")),
    ("bar", ["bar"]),  # the next one begins
    ("at", [f"at_{tick}" for tick in range(1, BAR_TICKS)]),  # what follows stands there in it
    *GOAL_FAMILIES,
    ("given", [f"given_{track}" for track in range(len(TRACKS))]),
    ("write", ["write"]),
]
WITHOUT_CHORDS = Vocabulary(_FAMILIES)
VOCABULARY = Vocabulary(
    [
        *_FAMILIES,
        ("chord", [f"chord_{name}" for name in CHORDS]),
        ("root", [f"root_{name}" for name in ROOTS]),  # where no more than a bass is known
    ]
)
BAR = VOCABULARY.id("bar")
AT, GIVEN = VOCABULARY["at"], VOCABULARY["given"]
CHORD, ROOT = VOCABULARY["chord"], VOCABULARY["root"]
WRITE, AFTER, BEFORE = (VOCABULARY.id(name) for name in ("write", "after", "before"))
GOAL_START = VOCABULARY[LEFT].start  # all tokens from here on belong to goals and move no time
LEFT_1, SEAM_1 = VOCABULARY[LEFT].start, VOCABULARY[SEAM].start

TICK_OF = np.full(len(VOCABULARY), -1)  # in its bar: (V,)
TICK_OF[BAR] = 0
TICK_OF[AT.start : AT.stop] = np.arange(1, BAR_TICKS)


def bars_of(notes: Notes) -> int:
    """Return how many bars notes take: the last one has a note in it."""
    last = int(notes.end_ticks.max()) if len(notes) else 0
    return max(-(-last // BAR_TICKS), 1)


class ChordTokens(NamedTuple):
    """What a model is told of the music at certain times, in order (goals.py)."""

    time_ticks: np.ndarray  # (C,)
    ids: np.ndarray  # (C,)

    def between(self, start_ticks: int, stop_ticks: int) -> ChordTokens:
        """Return what is told from one time to before another."""
        first, last = np.searchsorted(self.time_ticks, [start_ticks, stop_ticks])
        return ChordTokens(self.time_ticks[first:last], self.ids[first:last])


NOTHING = ChordTokens(np.zeros(0, np.int64), np.zeros(0, np.int64))


def spell_bars(
    events: Events, start: int, stop: int, chord_tokens: ChordTokens = NOTHING
) -> np.ndarray:
    """Return the tokens of the bars start … stop − 1 of sorted events, and of what is told in them: (T,) int64."""
    first, last = np.searchsorted(events.time_ticks, [start * BAR_TICKS, stop * BAR_TICKS])
    events, chord_tokens = (
        events[first:last],
        chord_tokens.between(start * BAR_TICKS, stop * BAR_TICKS),
    )
    lines = np.arange(start, stop) * BAR_TICKS
    times = np.union1d(events.time_ticks, chord_tokens.time_ticks)
    places = times[times % BAR_TICKS > 0]
    # A bar comes before its places, a place before what is told there and its events; sorting is stable.
    order = np.argsort(
        np.concatenate(
            [4 * lines, 4 * places + 1, 4 * chord_tokens.time_ticks + 2, 4 * events.time_ticks + 3]
        ),
        kind="stable",
    )
    bars = np.full(len(lines), BAR)
    ids = [bars, AT.start - 1 + places % BAR_TICKS, chord_tokens.ids, events.ids]
    return np.concatenate(ids)[order]


def spell(notes: Notes) -> np.ndarray:
    """Return the tokens of a whole piece, begin and end too: (T,) int64; of silence begin alone, without end."""
    if not len(notes):
        return np.array([BEGIN])
    return np.concatenate([[BEGIN], spell_bars(events_of(notes), 0, bars_of(notes)), [END]])


class BarReading(Reading):
    """A sequence of ids without tokens of goals, and what it says."""

    @cached_property
    def bar(self) -> np.ndarray:
        """How many bars have begun by each token: (T,)."""
        return np.cumsum(self.ids == BAR)

    @cached_property
    def time_ticks(self) -> np.ndarray:
        """The time after each token: (T,)."""
        tick = TICK_OF[self.ids]
        moved = np.maximum.accumulate(np.where(tick >= 0, np.arange(len(tick)), 0))
        return np.maximum(self.bar - 1, 0) * BAR_TICKS + np.maximum(tick[moved], 0)

    @property
    def bars(self) -> int:
        """How many bars have begun."""
        return int(self.bar[-1]) if len(self.ids) else 0


def plain(ids: np.ndarray) -> np.ndarray:
    """Return a sequence without what a goal added to it: countdowns, and bars that were given beforehand."""
    ids = np.asarray(ids, dtype=np.int64)
    opens = (ids == AFTER) | GIVEN.holds(ids)
    closes = (ids == BEFORE) | (ids == WRITE)
    if not opens.any():
        return ids[ids < GOAL_START]
    # Inside where the last of both is one that opens.
    index = np.arange(1, len(ids) + 1)
    opened, closed = (np.maximum.accumulate(np.where(x, index, 0)) for x in (opens, closes))
    return ids[(ids < GOAL_START) & (closed >= opened)]
