"""How a groove is laid out for a goal: what is given before what is written, for prompts and for training alike.

Accompaniment goes bar by bar, the given parts of each before the written ones: so what sounds at a place of the bar is
what stood there a bar ago, where metric heads look first (musicgen/metre/rows.py). Time goes on by two bars for each:
heads of an even period find what the same parts did before, apart from what is given. A written bar says the chords
that the given parts play in it (harmony.py). What comes after a gap is in phase with what is written: so many bars
stand first as bring those before the gap to the same place of the period.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain

import numpy as np

from tokenization.goal import COUNTED, given_until
from tokenization.groove.events import Events, events_of
from tokenization.groove.tokens import BAR_TICKS, BEGIN, END
from tokenization.groove_2.harmony import chords_to
from tokenization.groove_2.spelling import NOTHING, bars_of, spell_bars
from tokenization.groove_2.tokens import AFTER, BEFORE, GIVEN, LEFT_1, SEAM_1, WRITE
from tokenization.score import Notes


def ending(notes: Notes, counted: int) -> np.ndarray:
    """Return a piece whose last bars, so many, count down to its end: (T,) int64."""
    bars = bars_of(notes)
    events, start = events_of(notes), max(bars - min(counted, COUNTED), 0)
    bars_left = counted_bars(events, start, bars, LEFT_1)
    return np.concatenate([[BEGIN], spell_bars(events, 0, start), *bars_left, [END]])


def gap(notes: Notes, start: int, stop: int) -> np.ndarray:
    """Return a piece laid out to have the bars start … stop − 1 written: (T,) int64."""
    events = events_of(notes)
    bars_left = counted_bars(events, start, stop, SEAM_1)
    given = spell_bars(events, 0, start)
    return np.concatenate([[BEGIN], beyond(notes, stop), given, *bars_left, [END]])


def counted_bars(events: Events, start: int, stop: int, last: int) -> list[np.ndarray]:
    """Return bars that say, after their bar tokens, how far it is to the goal; `last` is what the last one says."""
    bars = [spell_bars(events, bar, bar + 1) for bar in range(start, stop)]
    return [np.insert(bar, 1, last + stop - start - n - 1) for n, bar in enumerate(bars)]


def beyond(notes: Notes, stop: int) -> np.ndarray:
    """Return what begins in the bars from `stop` on, as it is given before the first bar: (T,) int64."""
    later = notes[notes.onset_ticks >= stop * BAR_TICKS]
    until = given_until(stop, stop)
    return np.concatenate([[AFTER], spell_bars(events_of(later), stop, until), [BEFORE]])


def accompaniment(notes: Notes, given: Collection[int], *, chords: bool = True) -> np.ndarray:
    """Return a piece laid out to have parts written to given ones, which may say their chords: (T,) int64."""
    bars, events = bars_of(notes), events_of(notes[~np.isin(notes.track, list(given))])
    chord_tokens = chords_to(notes, given, bars) if chords else NOTHING
    written = (spell_bars(events, bar, bar + 1, chord_tokens) for bar in range(bars))
    parts = chain.from_iterable(zip(blocks(notes, bars, given), written, strict=True))
    return np.concatenate([[BEGIN], *parts, [END]])


def blocks(notes: Notes, bars: int, given: Collection[int]) -> Sequence[np.ndarray]:
    """Return what is given before each bar of a piece of so many: [(T,) int64]."""
    tracks = sorted(given)
    events = events_of(notes[np.isin(notes.track, tracks)])
    who = [GIVEN.start + track for track in tracks]
    return [np.concatenate([who, spell_bars(events, bar, bar + 1), [WRITE]]) for bar in range(bars)]
