"""Scores for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from tokenization.score import Notes, Score, Track

BASS, DRUMS, OTHER = 0, 1, 2
TRIO = (Track("Bass", 33), Track("Drums", 0, True), Track("Other", 0))


def trio(notes: Iterable, ticks_per_beat: int = 12, tracks: tuple[Track, ...] = TRIO) -> Score:
    """Return a score of (onset, duration, pitch, track) rows."""
    onset, duration, pitch, track = np.array(list(notes), dtype=np.int64).reshape(-1, 4).T
    columns = Notes(onset, duration, pitch, np.full_like(pitch, 80), track).sorted()
    return Score(ticks_per_beat=ticks_per_beat, notes=columns, tracks=tracks)


def random_trio(seed: int, notes: int, beats: int) -> Score:
    """Return random notes over some beats, including chords and unisons."""
    random = np.random.default_rng(seed)
    onset = random.integers(beats * 12, size=notes)
    chord = random.random(notes) < 0.3
    onset[1:][chord[1:]] = onset[:-1][chord[1:]]
    duration = random.integers(1, 3 * 12, size=notes)
    pitch = random.integers(36, 84, size=notes)
    rows = np.stack((onset, duration, pitch, random.integers(3, size=notes)), axis=1)
    return trio(rows)


def piano_of(notes: Iterable[Sequence[int]]) -> Score:
    """Return a score of (onset, duration, pitch) rows on one piano."""
    rows = [(onset, duration, pitch, 0) for onset, duration, pitch in notes]
    return trio(rows, tracks=(Track("Piano", 0),))
