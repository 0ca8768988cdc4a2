"""Chord tokens for accompaniment: the chords of the given parts, which a new pitched part is conditioned on.

The harmony is spread over many given notes, and a bass note needs its root; linear attention hardly finds that. So the
chords are recognised (analysis/chords.py) and written as tokens: at the beginning of each bar of the new part, and in
it on the beat on which they change. Being goals, these tokens add their embedding to every later position
(musicgen/model/goals.py). Where a bass alone is given, and perhaps drums, no more than a root is known. What this is
worth is printed for generated parts by `musicgen evaluate accompaniment`, and in losses by
tests/tools/measure/accompaniment.py.

Conditioning is not enough: in training a part's own last bars are right, and the model follows these. So what is
generated has a bias towards the chord (tokenization/logit_bias.py), by the weights that make hidden parts of held-out
pieces likeliest beside groove-2 (`python -m tests.tools.fit.chord_bias`), times LOUD: a wrong note draws others after
it.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache

import numpy as np

from tokenization.analysis.chord_names import QUALITIES, ROOTS
from tokenization.analysis.chords import NONE, PITCH_CLASSES, TONES, changes_in_fours
from tokenization.groove.tokens import (
    BAR_TICKS,
    BASS,
    DRUMS,
    NOTE_ON,
    OTHER,
    PITCHES,
    TICKS_PER_BEAT,
    TRACKS,
)
from tokenization.groove_2.spelling import NOTHING, ChordTokens
from tokenization.groove_2.tokens import CHORD, ROOT, VOCABULARY
from tokenization.logit_bias import LogitBias
from tokenization.score import Notes


def chords_to(given: Notes, tracks: Collection[int], bars: int) -> ChordTokens:
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
    return ChordTokens(times, ids)


def _bridged(ticks: np.ndarray, chords: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Leave out rests of less than a bar: the chord after one begins with it."""
    lasts = np.diff(ticks, append=ticks[-1] + BAR_TICKS)
    rests = (chords == NONE) & (lasts < BAR_TICKS)
    begins = np.where(np.append(False, rests[:-1]), np.append(0, ticks[:-1]), ticks)
    return begins[~rests], chords[~rests]


# Near what fits: of a bass's notes that are tones of the chord; of another part's, by semitones above the bass's root.
TONE = 1.45
ABOVE_ROOT = (0.7, -0.4, -0.2, 0.0, 0.8, -0.1, -0.3, 0.7, -0.1, -0.2, -0.5, -0.3)
LOUD = 2.0


@cache
def toward_chords() -> LogitBias:
    """Return how notes of the pitched parts lean towards a chord or a root that is told."""
    size, roots = len(VOCABULARY), np.arange(len(ROOTS))
    goal, kind = np.zeros(size, np.int64), np.zeros(size, np.int64)
    goal[CHORD.start : ROOT.stop] = np.arange(1, len(CHORD) + len(ROOT) + 1)
    for first, track in ((1, BASS), (1 + PITCH_CLASSES, OTHER)):
        key = NOTE_ON.start + track * PITCHES
        kind[key : key + PITCHES] = first + np.arange(PITCHES) % PITCH_CLASSES
    weights = np.zeros((len(CHORD) + len(ROOT) + 1, 2 * PITCH_CLASSES + 1))
    of_chords, of_roots = weights[1 : len(CHORD) + 1], weights[len(CHORD) + 1 :]
    of_chords[:, 1 : PITCH_CLASSES + 1] = LOUD * TONE * TONES
    above = (np.arange(PITCH_CLASSES) - roots[:, None]) % PITCH_CLASSES
    of_roots[:, PITCH_CLASSES + 1 :] = LOUD * np.array(ABOVE_ROOT)[above]
    group = np.concatenate([[0], np.repeat([0, 1], PITCH_CLASSES)])
    return LogitBias(goal=goal, kind=kind, group=group, weights=weights)
