"""Measure recognised chords against POP909's annotation: python -m tests.tools.measure.chords POP909.

The songs whose number is a multiple of five were used to fit the recogniser and are shown apart.
"""

from pathlib import Path

import numpy as np

from tests.tools.options import options
from tokenization.analysis.chords import CHORDS, NO_CHORD, QUALITIES, recognise
from tokenization.score import Marker, sustained
from training.data.sources.pop909 import read_song

NONE = CHORDS.index(NO_CHORD)
MEASURES = ("root", "root and quality", "major or minor")
# Sevenths count with their triads; diminished, augmented and suspended chords are left out, as in
# the MIREX vocabulary of major and minor.
TRIAD = dict.fromkeys(("M", "7", "M7"), 0) | dict.fromkeys(("m", "m7"), 1)


def by_beat(chords: tuple[Marker, ...], beats: int, ticks_per_beat: int) -> np.ndarray:
    """Return the index of the chord that holds at the start of each beat: (beats,)."""
    onset_ticks = [chord.onset_ticks for chord in chords]
    index = np.array([CHORDS.index(chord.text) for chord in chords] + [NONE])
    held = np.searchsorted(onset_ticks, np.arange(beats) * ticks_per_beat, side="right") - 1
    return index[held]


def agreement(found: np.ndarray, annotated: np.ndarray) -> np.ndarray:
    """Return the share of beats that agree in each of MEASURES; no chord agrees with no chord.

    NaN where a measure has no beat to judge.
    """
    roots = [chords // len(QUALITIES) for chords in (found, annotated)]
    kinds = [TRIAD.get(quality, -1) for quality in QUALITIES] * 12 + [-1]
    triads = [np.array(kinds)[chords] for chords in (found, annotated)]
    same_root = roots[0] == roots[1]
    judged = triads[1] >= 0
    major_minor = (same_root & (triads[0] == triads[1]))[judged]
    shares = (same_root, found == annotated, major_minor)
    return np.array([share.mean() if len(share) else np.nan for share in shares])


def measure(folder: Path) -> tuple[np.ndarray, int]:
    """Return the agreement of one song, and its number of beats."""
    score = read_song(folder)
    beats = -(-score.end_ticks // score.ticks_per_beat)
    found, annotated = (
        by_beat(chords, beats, score.ticks_per_beat)
        for chords in (recognise(sustained(score)), score.markers)
    )
    return agreement(found, annotated), beats


def main() -> None:
    """Print means over all beats, and mean and spread over songs."""
    songs = sorted(path for path in options(__doc__, "folder").folder.iterdir() if path.is_dir())
    results = [(int(song.name) % 5 == 0, *measure(song)) for song in songs]
    for title, fitted in (("held out", False), ("fitted on", True)):
        shares = np.array([share for fit, share, _ in results if fit == fitted])
        beats = np.array([count for fit, _, count in results if fit == fitted])
        print(f"{title}: {len(shares)} songs, {beats.sum()} beats")
        for name, share in zip(MEASURES, shares.T, strict=True):
            known = ~np.isnan(share)
            print(
                f"  {name:17}{np.average(share[known], weights=beats[known]):7.1%} of beats;"
                f" songs: mean {share[known].mean():.1%}, deviation {share[known].std():.1%},"
                f" 10th percentile {np.percentile(share[known], 10):.1%}"
            )


if __name__ == "__main__":
    main()
