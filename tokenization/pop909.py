"""A song of POP909 (Wang et al., ISMIR 2020) on its own beats, with its chords as markers.

The beats and time signatures of these MIDI files say nothing: where a beat lies is in
`beat_midi.txt`, a line a beat: seconds, and two columns that mark downbeats. In a song that counts
in twos the second column marks the bars of four; in one that counts in threes the first marks the
bars of 3/4, and the second every other one.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tokenization.beats import BEATS_PER_BAR, BeatMap, annotated, first_seconds, remap, to_ticks
from tokenization.chord_names import parse
from tokenization.grid import FOUR_FOUR
from tokenization.midi import read_midi
from tokenization.score import Marker, Score

TICKS_PER_BEAT = 480
BEATS_FILE = "beat_midi.txt"
CHORDS_FILE = "chord_midi.txt"


def read_song(folder: Path) -> Score:
    """Return a song's score on the 4/4 grid; beat 0 starts the bar of its first note."""
    folder = Path(folder)
    beat_seconds, downbeats = read_beats(folder / BEATS_FILE)
    chords = read_chords(folder / CHORDS_FILE)
    score = read_midi(folder / f"{folder.name}.mid")
    beat_map = annotated(beat_seconds, downbeats)
    if len(score.notes):
        beat_map = beat_map.from_bar_of(first_seconds(score))
    return (
        remap(score, beat_map, TICKS_PER_BEAT)
        .replace(markers=_markers(chords, beat_map), meters=FOUR_FOUR)
        .remark(*_bar_remarks(beat_map, downbeats))
    )


def read_beats(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return the seconds of each beat, and whether it starts a bar of the song's meter."""
    try:
        rows = np.array(
            path.read_text(encoding="utf-8", errors="replace").split(), dtype=np.float64
        ).reshape(-1, 3)
    except ValueError:
        raise ValueError(
            f"{path} is no beats file, which has a line of seconds and two downbeat marks a beat"
        ) from None
    seconds = rows[:, 0]
    if len(rows) < 2 or not np.isfinite(seconds).all() or (np.diff(seconds) <= 0).any():
        raise ValueError(f"{path} needs two or more beats, each later than the one before")
    halves, bars = rows[:, 1] > 0, rows[:, 2] > 0
    gaps = np.bincount(np.diff(np.flatnonzero(halves)), minlength=1)
    return seconds, halves if gaps.argmax() == 3 else bars


def read_chords(path: Path) -> list[tuple[float, str]]:
    """Return start (seconds) and name of each annotated chord, as our vocabulary names it."""
    chords = []
    for number, line in enumerate(
        path.read_text(encoding="utf-8", errors="replace").splitlines(), 1
    ):
        try:
            start, _, name = line.split()
            chord = parse(name)
            chords.append((float(start), chord))
        except ValueError:
            chord = None
        if chord is None:
            raise ValueError(
                f"line {number} of {path} is {line!r}; start, end and a chord such as 'Bb:min7' "
                "would be read"
            )
    return chords


def _markers(chords: list[tuple[float, str]], beat_map: BeatMap) -> tuple[Marker, ...]:
    """Return the chords as markers where they change; what sounds at beat 0 stands there."""
    if not chords:
        return ()
    seconds, names = zip(*chords, strict=True)
    at = to_ticks(beat_map.to_beats(np.array(seconds)), TICKS_PER_BEAT).tolist()
    at_once = dict(zip(at, names, strict=True))  # of several on a tick the last holds
    markers: list[Marker] = []
    for tick, name in sorted(at_once.items()):
        if not markers or markers[-1].text != name:
            markers.append(Marker(tick, name))
    return tuple(markers)


def _bar_remarks(beat_map: BeatMap, downbeats: np.ndarray) -> list[str]:
    """Say how the annotated bars fit the bars of the grid."""
    starts = np.flatnonzero(downbeats)
    lengths = np.diff(starts)
    if not len(lengths):
        return [f"{BEATS_FILE} marks no bars; its first beat is taken for the start of one."]
    if np.bincount(lengths).argmax() == 3:
        return [
            "The song is in 3/4; it is laid on the 4/4 grid beat by beat, "
            "so bar lines fall elsewhere than in the song."
        ]
    odd = int((lengths != BEATS_PER_BAR).sum())
    if not odd:
        return []
    aligned = int((np.rint(beat_map.beats[starts]) % BEATS_PER_BAR == 0).sum())
    return [
        f"{odd} of {len(lengths)} bars have other than 4 beats; beats are laid end to end, "
        f"and {aligned} of {len(starts)} bars start with a bar of the grid."
    ]
