"""Statistics of how parts play together: rests and entries, voice leading, crossings, imitation, bass and drums.

A part is heard by its line, the highest note that sounds. V pitched parts from the lowest to the highest, T steps.
"""

from __future__ import annotations

from itertools import combinations, pairwise, permutations

import numpy as np

from tokenization.score import Notes

MOST = 4  # parts compared with each other: those with the most notes
LAGS = 1, 2, 4, 8  # in beats, of an imitation
PERFECT = 0, 7  # semitones between lines, within an octave
KICK, SNARE = (35, 36), (38, 40)


def together(
    notes: Notes, rank: np.ndarray, bar: np.ndarray, lines: np.ndarray, steps: int
) -> dict[str, float]:
    """Return the statistics of pitched notes by onset and pitch, each with its part's rank and its bar: (P,)."""
    parts, bars = int(rank.max()) + 1, len(lines) - 1
    plays = np.zeros((parts, bars), dtype=bool)
    plays[rank, bar] = True
    onsets = [np.unique(notes.onset_ticks[rank == part]) for part in range(parts)]
    counts = np.bincount(rank)
    chordal = 1 - np.array([len(one) for one in onsets]) / counts
    found = {
        "parts: rests": 1 - float(plays.mean()),
        "parts: players deviation": float(plays.sum(axis=0).std()),
        "parts: entries": float(np.abs(np.diff(plays.astype(int))).mean()) if bars > 1 else np.nan,
        "parts: most chordal": float(chordal.max()),
        "parts: least chordal": float(chordal.min()),
    }
    if parts < 2:
        return found
    busiest = np.sort(np.argsort(-counts, kind="stable")[:MOST])
    common = [_alike(onsets[a], onsets[b]) for a, b in combinations(busiest, 2)]
    line = _lines(notes, rank, parts, int(lines[-1]))
    both = [(low < high)[(low >= 0) & (high >= 0)] for low, high in pairwise(line)]
    above = np.concatenate(both)
    return {
        **found,
        **_motion(line[0], line[-1], np.union1d(onsets[0], onsets[-1])),
        "parts: rhythm in common": float(np.mean(common)),
        "parts: most rhythm in common": max(common),
        "parts: crossing": 1 - float(above.mean()) if len(above) else np.nan,
        "parts: imitation": _imitation(notes, rank, busiest, steps),
    }


def with_drums(
    bass: np.ndarray, drums: np.ndarray, pitch: np.ndarray, place: np.ndarray, steps: int
) -> dict[str, float]:
    """Return how drums, with their pitches and places in the bar, play with the onsets of the lowest part."""
    kicks = drums[np.isin(pitch, KICK)]
    snares = place[np.isin(pitch, SNARE)]
    return {
        "drums: bass with kick": float(np.isin(bass, kicks).mean()) if len(bass) else np.nan,
        "drums: kick with bass": float(np.isin(kicks, bass).mean()) if len(kicks) else np.nan,
        "drums: backbeat": float((snares % (2 * steps) == steps).mean()) if len(snares) else np.nan,
    }


def _lines(notes: Notes, rank: np.ndarray, parts: int, length: int) -> np.ndarray:
    """Return the line of each part, −1 where it is silent: (V, T)."""
    found = np.full((parts, length), -1)
    order = np.argsort(notes.pitch, kind="stable")  # higher ones come later
    columns = rank, notes.onset_ticks, notes.end_ticks, notes.pitch
    for part, start, stop, pitch in zip(*(one[order].tolist() for one in columns), strict=True):
        found[part, start:stop] = pitch
    return found


def _motion(low: np.ndarray, high: np.ndarray, onsets: np.ndarray) -> dict[str, float]:
    """Return how two lines move against each other from onset to onset."""
    at = onsets[(low[onsets] >= 0) & (high[onsets] >= 0)]
    a, b = np.diff(low[at]), np.diff(high[at])
    move = (a != 0) & (b != 0)
    if not move.any():
        return {}
    parallel = (a == b)[move]
    interval = (high[at] - low[at])[1:][move] % 12
    return {
        "parts: contrary": float((np.sign(a) != np.sign(b))[move].mean()),
        "parts: parallel": float(parallel.mean()),
        "parts: parallel perfect": float((parallel & np.isin(interval, PERFECT)).mean()),
        "parts: oblique": 1 - float(move.mean()),
    }


def _alike(one: np.ndarray, other: np.ndarray) -> float:
    """Return the share of what either of two sorted sets has that both have."""
    common = len(np.intersect1d(one, other, assume_unique=True))
    return common / max(1, len(one) + len(other) - common)


def _imitation(notes: Notes, rank: np.ndarray, parts: np.ndarray, steps: int) -> float:
    """Return the greatest share of a part's notes that another repeats some beats later, in any octave."""
    keys = {
        part: np.unique((notes.onset_ticks * 12 + notes.pitch % 12)[rank == part])
        for part in parts.tolist()
    }
    shares = (
        np.isin(keys[a] + 12 * lag * steps, keys[b]).mean()
        for a, b in permutations(keys, 2)
        for lag in LAGS
    )
    return float(max(shares))
