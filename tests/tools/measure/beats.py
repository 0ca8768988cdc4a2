"""Measure estimated beats against POP909's annotation: python -m tests.tools.measure.beats POP909.

Beside ours, pretty_midi's: its tempo estimate, folded below 140, from its estimated first beat on.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pretty_midi

from tokenization.analysis.beats import estimated, has_beats, tempo_map
from tokenization.midi.reading import read_midi
from tokenization.score import Score
from training.data.sources.pop909 import BEATS_FILE, read_beats

TOLERANCE_SECONDS = 0.07  # as MIREX has it
FASTEST_FOLDED = 140


def f_measure(found: np.ndarray, annotated: np.ndarray) -> float:
    """Return 2 · hits / (found + annotated), over the time in which beats were found."""
    annotated = annotated[(annotated > found[0] - 0.5) & (annotated < found[-1] + 0.5)]
    distance = np.abs(annotated[:, None] - found).min(axis=1)
    return 2 * int((distance <= TOLERANCE_SECONDS).sum()) / (len(annotated) + len(found))


def by_pretty_midi(score: Score) -> np.ndarray:
    """Return the beats of a score as pretty_midi estimates them, in seconds."""
    seconds = tempo_map(score).to_seconds(score.notes.onset_ticks / score.ticks_per_beat)
    instrument = pretty_midi.Instrument(0)
    instrument.notes = [
        pretty_midi.Note(int(velocity), int(pitch), at, at + 0.1)
        for at, pitch, velocity in zip(
            seconds, score.notes.pitch, score.notes.velocity, strict=True
        )
    ]
    piece = pretty_midi.PrettyMIDI()
    piece.instruments = [instrument]
    tempo = piece.estimate_tempo()
    while tempo > FASTEST_FOLDED:
        tempo /= 2
    steady = pretty_midi.PrettyMIDI(initial_tempo=tempo)
    steady.instruments = [instrument]
    return steady.get_beats(steady.estimate_beat_start())


def measure(folder: Path) -> tuple[float, ...]:
    """Return tempo by annotated tempo and the F-measures: ours, of bars, pretty_midi's."""
    score = read_midi(folder / f"{folder.name}.mid")
    beats, downbeats = read_beats(folder / BEATS_FILE)
    found = estimated(score)
    bars = found.seconds[np.rint(found.beats) % 4 == 0]
    return (
        float(np.median(found.beats_per_minute) * np.median(np.diff(beats)) / 60),
        f_measure(found.seconds, beats),
        f_measure(bars, beats[downbeats]),
        f_measure(by_pretty_midi(score), beats),
        float(has_beats(score)),
    )


def main() -> None:
    """Print the agreement over every n-th song."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--every", type=int, default=5, help="measure one song in so many")
    arguments = parser.parse_args()
    songs = sorted(path for path in arguments.folder.iterdir() if path.is_dir())
    results = np.array([measure(song) for song in songs[:: arguments.every]])
    tempo = results[:, 0]
    print(
        f"{len(results)} songs; tempo right within 3 % in {(np.abs(tempo - 1) < 0.03).mean():.1%}, "
        f"half of it in {(np.abs(tempo - 0.5) < 0.015).mean():.1%}, "
        f"double in {(np.abs(tempo - 2) < 0.06).mean():.1%}"
    )
    for title, column in (("beats", 1), ("bars", 2), ("beats by pretty_midi", 3)):
        values = results[:, column]
        print(
            f"  {title:21}F {values.mean():.3f} ± {values.std():.3f} (median {np.median(values):.3f})"
        )
    print(f"  {results[:, 4].mean():.1%} of the files have usable beats of their own")


if __name__ == "__main__":
    main()
