"""Which beats of a song start a bar: an annotation, mended where the notes say otherwise.

Bars start where the bass starts low and long notes, where chords change, and where the melody starts long notes. Each
beat gets the log-odds that these give it, less their mean over the song; the best path through the beats goes by whole
bars, earns for each annotated downbeat that it keeps, and pays for every bar of another length than most
(the Viterbi algorithm). So the annotation stays wherever the evidence against it is small. The weights are those of a
logistic regression on the annotated downbeats of every fifth song of POP909, most of which are right;
`python -m tests.tools.measure.bars` prints them, and what the path changes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

ON_BEAT = 0.2  # beats from it
LONGEST_BEATS = 4.0  # what a note says more by being long
DEEPEST_OCTAVES = 2.0
# Of the bass: that it starts here, octaves below its median, log length; a change of chord; log length of the melody.
WEIGHTS = np.array([-0.61, 0.51, 0.86, 2.40, 0.33])
KEPT = 0.5  # for an annotated downbeat
ODD = 8.0  # for a bar of another length
ODD_BEATS = (2, 3, 4, 5)  # that bars may have beside the usual number


@dataclass(frozen=True, kw_only=True)
class Onsets:
    """Notes, counted in beats from the first annotated one."""

    onset: np.ndarray  # (N,)
    length: np.ndarray  # (N,)
    pitch: np.ndarray  # (N,)
    is_melody: np.ndarray  # (N,)


def mended(
    downbeats: np.ndarray, usual: int, notes: Onsets, chord_changes: np.ndarray
) -> np.ndarray:
    """Return the beats that start bars, (bars,), of a song with such annotated downbeats, (beats,).

    `usual` is how many beats most bars have; chord changes are counted in beats as notes are.
    """
    evidence = features(len(downbeats), notes, chord_changes) @ WEIGHTS
    return _path(evidence - evidence.mean() + KEPT * downbeats, usual)


def features(beats: int, notes: Onsets, chord_changes: np.ndarray) -> np.ndarray:
    """Return what each beat has of a downbeat: (beats, 5)."""
    at = np.rint(notes.onset).astype(np.int64)
    near = (np.abs(notes.onset - at) < ON_BEAT) & (at >= 0) & (at < beats)
    at, pitch = at[near], notes.pitch[near]
    length = np.clip(notes.length[near], 0, LONGEST_BEATS)
    lowest = np.full(beats, 128)
    np.minimum.at(lowest, at, pitch)
    struck = lowest < 128
    median = np.median(lowest[struck]) if struck.any() else 0
    octaves = np.where(
        struck, np.clip((median - lowest) / 12, -DEEPEST_OCTAVES, DEEPEST_OCTAVES), 0
    )
    is_bass = pitch == lowest[at]
    changes = np.rint(chord_changes).astype(np.int64)
    changed = np.zeros(beats)
    changed[changes[(changes >= 0) & (changes < beats)]] = 1
    return np.stack(
        [
            struck,
            octaves,
            _longest(beats, at[is_bass], length[is_bass]),
            changed,
            _longest(beats, at[notes.is_melody[near]], length[notes.is_melody[near]]),
        ],
        axis=-1,
    )


def _longest(beats: int, at: np.ndarray, length: np.ndarray) -> np.ndarray:
    longest = np.zeros(beats)
    np.maximum.at(longest, at, length)
    return np.log1p(longest)


def _path(gain: np.ndarray, usual: int) -> np.ndarray:
    """Return the best path of bars; the first one starts before the usual number of beats is over."""
    beats = len(gain)
    prices = dict.fromkeys(ODD_BEATS, ODD) | {usual: 0.0}
    best, before = np.full(beats, -np.inf), np.full(beats, -1)
    best[:usual] = gain[:usual]
    for beat in range(min(prices), beats):
        for length, price in prices.items():
            total = best[beat - length] + gain[beat] - price if beat >= length else -np.inf
            if total > best[beat]:
                best[beat], before[beat] = total, beat - length
    beat = int(max(0, beats - usual) + best[-usual:].argmax())
    path = []
    while beat >= 0:
        path.append(beat)
        beat = int(before[beat])
    return np.array(path[::-1])
