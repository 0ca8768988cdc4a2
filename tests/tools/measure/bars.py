"""Measure where the bars of POP909 begin, as annotated and mended: python -m tests.tools.measure.bars POP909.

Prints the weights of the evidence as a fit on every fifth song gives them, how many songs and bars move, and on
which beat of a bar the bass starts its longest notes.
"""

from collections import Counter

import numpy as np

from tests.tools.options import options
from training.data.sources.pop909 import BEATS_FILE, WEIGHTS, Song, features, song_of

BASS = 2  # the column of its log length
MOST = 0.5  # of a song's bars


def fitted(songs: list[Song]) -> np.ndarray:
    """Return the weights of a logistic regression of the annotated downbeats, by Newton's method."""
    rows = np.concatenate([evidence(song) for song in songs])
    rows = np.column_stack([rows, np.ones(len(rows))])
    wanted = np.concatenate([song.downbeats for song in songs]).astype(np.float64)
    weights = np.zeros(rows.shape[1])
    for _ in range(20):
        chance = 1 / (1 + np.exp(-rows @ weights))
        curvature = (rows * (chance * (1 - chance))[:, None]).T @ rows
        weights += np.linalg.solve(
            curvature + 1e-3 * np.eye(len(weights)), rows.T @ (wanted - chance)
        )
    return weights[:-1]


def evidence(song: Song) -> np.ndarray:
    """Return what each beat has of a downbeat."""
    return features(len(song.downbeats), song.onsets(), song.chord_changes())


def strongest(song: Song, starts: np.ndarray) -> int:
    """Return the beat of the bar, from 1, on which the bass starts its longest notes."""
    length = evidence(song)[:, BASS]
    beats = np.arange(starts[0], len(length))
    place = beats - starts[np.searchsorted(starts, beats, side="right") - 1]
    means = [length[beats[place == i]].mean() for i in range(song.usual) if (place == i).any()]
    return int(np.argmax(means)) + 1


def main() -> None:
    """Print all of it."""
    folders = sorted(path.parent for path in options(__doc__, "pop909").pop909.rglob(BEATS_FILE))
    songs = [song_of(folder) for folder in folders]
    four = [song for song in songs if song.usual == 4]
    print("weights of a fit on every fifth song", fitted(four[::5]).round(2), "in use", WEIGHTS)
    moved, odd, bass = Counter(), Counter(), {"annotated": Counter(), "mended": Counter()}
    for song in songs:
        annotated, bars = np.flatnonzero(song.downbeats), song.bars()
        share = 1 - np.isin(bars, annotated).mean()
        which = "no bar" if not share else "some bars" if share < MOST else "most bars"
        moved[which] += 1
        moved["bars"] += int((~np.isin(bars, annotated)).sum())
        moved["of"] += len(bars)
        odd["annotated"] += int((np.diff(annotated) != song.usual).sum())
        odd["mended"] += int((np.diff(bars) != song.usual).sum())
        if song.usual == 4:
            bass["annotated"][strongest(song, annotated)] += 1
            bass["mended"][strongest(song, bars)] += 1
    print(f"{len(songs)} songs, of which move:", dict(moved))
    print("bars of another length than most of their song:", dict(odd))
    for name, counts in bass.items():
        print(
            f"songs in 4/4 by the beat of the longest bass notes, {name}:", sorted(counts.items())
        )


if __name__ == "__main__":
    main()
