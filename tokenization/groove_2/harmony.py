"""The chords that given parts play, as a model is told them that writes a pitched part to these.

What harmony sounds is spread over many given notes, of which a bass note needs the root; linear attention hardly finds
it. So it is recognised (analysis/chords.py) and said: at the beginning of each written bar, and in it on the beat on
which it changes. Being goals, these tokens tell every position after them (musicgen/model/goals.py). Where a bass alone
is given, and perhaps drums, no more than a root is known. What it is worth, `musicgen evaluate accompaniment` tells of
what is drawn, and tests/tools/measure_accompaniment.py of losses.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from tokenization.analysis.chord_names import QUALITIES
from tokenization.analysis.chords import NONE, changes_in_fours
from tokenization.groove.tokens import BAR_TICKS, DRUMS, OTHER, TICKS_PER_BEAT, TRACKS
from tokenization.groove_2.spelling import NOTHING, Told
from tokenization.groove_2.tokens import CHORD, ROOT
from tokenization.score import Notes


def chords_to(given: Notes, tracks: Collection[int], bars: int) -> Told:
    """Return the chords of notes of the given tracks, over so many bars: at each bar line and where they change.

    Nothing is told where no pitched part is given, or none is written.
    """
    pitched = given[np.isin(given.track, list(tracks)) & (given.track != DRUMS)]
    unwritten = {DRUMS, *tracks}
    if not len(pitched) or unwritten >= set(range(len(TRACKS))):
        return NOTHING
    ticks, chords = _bridged(*changes_in_fours(pitched, TICKS_PER_BEAT))
    times = np.union1d(ticks, np.arange(bars) * BAR_TICKS)
    times = times[times < bars * BAR_TICKS]
    at = np.searchsorted(ticks, times, side="right") - 1
    ids = CHORD.start + chords[at]
    if OTHER not in tracks:
        rooted = chords[at] != NONE
        ids = np.where(rooted, ROOT.start + chords[at] // len(QUALITIES), ids)
    return Told(times, ids)


def _bridged(ticks: np.ndarray, chords: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Leave out rests of less than a bar: the chord after one begins with it."""
    lasts = np.diff(ticks, append=ticks[-1] + BAR_TICKS)
    rests = (chords == NONE) & (lasts < BAR_TICKS)
    begins = np.where(np.append(False, rests[:-1]), np.append(0, ticks[:-1]), ticks)
    return begins[~rests], chords[~rests]
