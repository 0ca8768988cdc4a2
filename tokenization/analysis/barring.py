"""Finds the bars of a score whose beats are known, but not its metre: bars of four or three beats."""

from __future__ import annotations

import numpy as np

from tokenization.score import Meters, Score
from tokenization.wording import Remark

# Bars tend to start where the bass starts low and long notes, where the harmony changes, and where the highest part
# starts long notes. Each beat is scored by the sum of these features; the bars are those of the metre and the phase
# whose downbeats have the highest mean score, in standard errors.
ON_BEAT = 0.2  # largest distance of an onset from its beat, in beats
LONGEST_BEATS = 4.0  # longer notes count the same
DEEPEST_OCTAVES = 2.0
AROUND = 2  # beats on each side between which harmonies are compared
# Octaves of the bass below its median, its log length, the change of harmony, the log length of the highest note.
WEIGHTS = np.array([0.5, 0.9, 2.4, 0.3])
METRES = (4, 3)  # beats of a bar, the usual one first
CLEARER = 1.1  # by which another metre must be clearer than the usual one


def with_bars_found(score: Score) -> Score:
    """Return a score with bars found in its notes if its bars have one beat, as if nobody had set a metre."""
    numerator, denominator = score.meters.columns[1:]
    if not len(numerator) or (numerator != 1).any() or not len(score.notes):
        return score
    beats, first = _bars_in(score)
    ticks, rows = first * score.ticks_per_beat, [(0, beats, 4)]
    if first:
        rows = [(0, first, 4), (ticks, beats, 4)]  # a pickup
    message = (
        f"The file states bars of 1/{denominator[0]}; bars of {beats}/4 were found in its notes."
    )
    return score.replace(meters=Meters(*np.array(rows).T)).remark(Remark(message))


def _bars_in(score: Score) -> tuple[int, int]:
    """Return the beats of a bar and the first downbeat."""
    odds = _features(score) @ WEIGHTS
    odds = (odds - odds.mean()) / max(float(odds.std()), 1e-9)
    best, found = 0.0, (METRES[0], 0)
    for beats in METRES:
        for phase in range(beats):
            downbeats = odds[phase::beats]
            clear = float(downbeats.mean() * np.sqrt(len(downbeats))) if len(downbeats) else 0.0
            clear = round(clear / (1 if beats == METRES[0] else CLEARER), 6)
            if clear > best:
                best, found = clear, (beats, phase)
    return found


def _features(score: Score) -> np.ndarray:
    """Return the features of each beat, in the order of WEIGHTS: (beats, 4)."""
    notes = score.pitched if len(score.pitched) else score.notes
    onset = notes.onset_ticks / score.ticks_per_beat
    length = notes.duration_ticks / score.ticks_per_beat
    at = np.rint(onset).astype(np.int64)
    count = int(at.max()) + 1
    tones = np.zeros((count + 2 * AROUND, 12))  # with silence around them
    begun = np.floor(onset + ON_BEAT).astype(np.int64).clip(0, count - 1)
    np.add.at(tones, (begun + AROUND, notes.pitch % 12), np.minimum(length, 1))
    windows = np.lib.stride_tricks.sliding_window_view(tones, AROUND, axis=0).sum(-1)
    before, after = windows[:count], windows[AROUND : count + AROUND]
    size = np.linalg.norm(before, axis=1) * np.linalg.norm(after, axis=1)
    change = 1 - (before * after).sum(1) / np.maximum(size, 1e-9)
    near = np.abs(onset - at) < ON_BEAT
    at, pitch, length = at[near], notes.pitch[near], np.clip(length[near], 0, LONGEST_BEATS)
    lowest, highest = np.full(count, 128), np.full(count, -1)
    np.minimum.at(lowest, at, pitch)
    np.maximum.at(highest, at, pitch)
    sounds = highest >= 0
    median = np.median(lowest[sounds]) if sounds.any() else 0
    octaves = np.clip((median - lowest) / 12, -DEEPEST_OCTAVES, DEEPEST_OCTAVES)
    longest = np.zeros((2, count))
    for row, edge in zip(longest, (lowest, highest), strict=True):
        is_edge = pitch == edge[at]
        np.maximum.at(row, at[is_edge], length[is_edge])
    low, high = np.log1p(longest)
    return np.stack([np.where(sounds, octaves, 0), low, np.where(sounds, change, 0), high], axis=-1)
