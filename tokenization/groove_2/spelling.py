"""Bars of events ↔ tokens: one spelling of notes on the grid, and reading it, as array operations.

A bar is its bar token and what happens in it; a place token stands before what happens off the bar line, once for all
that happens at that time. What ends on a line ends after the token of the bar that begins there; what sounds when the
piece ends ends with its last bar and has no note-off.

Letters: T tokens, E events.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from tokenization.groove.events import Events, Reading, events_of
from tokenization.groove.tokens import BAR_TICKS, BEGIN, END
from tokenization.groove_2.tokens import AFTER, AT, BAR, BEFORE, GIVEN, GOAL_START, TICK_OF, WRITE
from tokenization.score import Notes


def bars_of(notes: Notes) -> int:
    """Return how many bars notes take: the last one has a note in it."""
    last = int(notes.end_ticks.max()) if len(notes) else 0
    return max(-(-last // BAR_TICKS), 1)


def spell_bars(events: Events, start: int, stop: int) -> np.ndarray:
    """Return the tokens of the bars start … stop − 1 of sorted events: (T,) int64."""
    first, last = np.searchsorted(events.time_ticks, [start * BAR_TICKS, stop * BAR_TICKS])
    events = events[first:last]
    lines = np.arange(start, stop) * BAR_TICKS
    times = np.unique(events.time_ticks)
    places = times[times % BAR_TICKS > 0]
    # A bar comes before its places, a place before its events; sorting is stable.
    order = np.argsort(
        np.concatenate([3 * lines, 3 * places + 1, 3 * events.time_ticks + 2]), kind="stable"
    )
    bars = np.full(len(lines), BAR)
    return np.concatenate([bars, AT.start - 1 + places % BAR_TICKS, events.ids])[order]


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
