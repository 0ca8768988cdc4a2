"""A song of POP909 (Wang et al., ISMIR 2020) on its own beats and bars, with its chords as markers.

The beats and time signatures of these MIDI files say nothing: where a beat lies is in
`beat_midi.txt`, a line a beat: seconds, and two columns that mark downbeats. In a song that counts
in twos the second column marks the bars of four; in one that counts in threes the first marks the
bars of 3/4, and the second every other one. In one song of nine most bars begin a beat off, in
others some do: `mended` puts that right.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tokenization.analysis.beats import (
    EARLY_BEATS,
    BeatMap,
    first_seconds,
    remap,
    tempo_map,
    to_ticks,
)
from tokenization.analysis.chord_names import parse
from tokenization.midi.reading import read_midi
from tokenization.score import Marker, Meters, Score
from tokenization.wording import counted
from training.data.sources.downbeats import Onsets, mended

TICKS_PER_BEAT = 480
BEATS_FILE = "beat_midi.txt"
CHORDS_FILE = "chord_midi.txt"
MELODY = "MELODY"  # the name of its track
FEWEST_NOTES = 24  # that could say anything against the annotation


@dataclass(frozen=True, kw_only=True, eq=False)
class Song:
    """A song as its folder has it."""

    score: Score
    beat_seconds: np.ndarray  # (beats,)
    downbeats: np.ndarray  # (beats,) whether an annotated bar starts there
    chords: list[tuple[float, str]]

    @property
    def usual(self) -> int:
        """How many beats most bars have."""
        lengths = np.diff(np.flatnonzero(self.downbeats))
        return int(np.bincount(lengths).argmax()) if len(lengths) else 4

    def onsets(self) -> Onsets:
        """Return the notes in beats."""
        beats = BeatMap(self.beat_seconds, np.arange(len(self.beat_seconds)))
        seconds, notes = tempo_map(self.score), self.score.notes
        onset, end = (
            beats.to_beats(seconds.to_seconds(ticks / self.score.ticks_per_beat))
            for ticks in (notes.onset_ticks, notes.end_ticks)
        )
        melody = [i for i, track in enumerate(self.score.tracks) if track.name == MELODY]
        return Onsets(
            onset=onset,
            length=end - onset,
            pitch=notes.pitch,
            is_melody=np.isin(notes.track, melody),
        )

    def chord_changes(self) -> np.ndarray:
        """Return the beats at which the chord changes."""
        beats = BeatMap(self.beat_seconds, np.arange(len(self.beat_seconds)))
        names = [name for _, name in self.chords]
        changes = [
            seconds
            for (seconds, name), last in zip(self.chords, ["", *names], strict=False)
            if name != last
        ]
        return beats.to_beats(np.array(changes))

    def bars(self) -> np.ndarray:
        """Return the beats that start bars, as annotated or mended: (bars,)."""
        annotated = np.flatnonzero(self.downbeats)
        if len(annotated) < 2 or len(self.score.notes) < FEWEST_NOTES:
            return annotated if len(annotated) else np.zeros(1, dtype=np.int64)
        return mended(self.downbeats, self.usual, self.onsets(), self.chord_changes())


def read_song(folder: Path) -> Score:
    """Return a song's score on its own bars, as they are annotated or mended; it starts with that of its first note."""
    song = song_of(folder)
    starts = _from_first_note(song, song.bars())
    beat_map = BeatMap(song.beat_seconds, np.arange(len(song.beat_seconds)) - starts[0])
    return (
        remap(song.score, beat_map, TICKS_PER_BEAT)
        .replace(markers=_markers(song.chords, beat_map), meters=_meters(starts, song.usual))
        .remark(*_remarks(song, starts))
    )


def song_of(folder: Path) -> Song:
    """Read the files of a song."""
    folder = Path(folder)
    beat_seconds, downbeats = read_beats(folder / BEATS_FILE)
    chords = read_chords(folder / CHORDS_FILE)
    score = read_midi(folder / f"{folder.name}.mid")
    return Song(score=score, beat_seconds=beat_seconds, downbeats=downbeats, chords=chords)


def _from_first_note(song: Song, starts: np.ndarray) -> np.ndarray:
    """Return the starts of bars from the one of the first note, which may lie before all beats."""
    if not len(song.score.notes):
        return starts
    beats = BeatMap(song.beat_seconds, np.arange(len(song.beat_seconds)))
    first = float(beats.to_beats(np.array(first_seconds(song.score)))) + EARLY_BEATS
    missing = max(0, -int((first - starts[0]) // song.usual))
    front = starts[0] - song.usual * np.arange(missing, 0, -1)
    starts = np.concatenate([front, starts])
    later = song.usual * np.arange(1, max(0, int((first - starts[-1]) // song.usual)) + 1)
    starts = np.concatenate([starts, starts[-1] + later])
    return starts[np.searchsorted(starts, first, side="right") - 1 :]


def _meters(starts: np.ndarray, usual: int) -> Meters:
    """Return a time signature wherever bars have another number of beats than before."""
    beats = np.append(np.diff(starts), usual)
    changes = np.flatnonzero(np.diff(beats, prepend=0))
    onset_ticks = (starts[changes] - starts[0]) * TICKS_PER_BEAT
    return Meters(onset_ticks, beats[changes], np.full(len(changes), 4))


def read_beats(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return the seconds of each beat, and whether it starts a bar of the song's meter."""
    try:
        rows = np.array(
            path.read_text(encoding="utf-8", errors="replace").split(), dtype=np.float64
        ).reshape(-1, 3)
    except ValueError:
        raise ValueError(
            f"{path} is not a beats file, which has a line of seconds and two downbeat marks a beat"
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


def _remarks(song: Song, starts: np.ndarray) -> list[str]:
    """Say how the bars differ from bars of one length, and from the annotation."""
    if not song.downbeats.any():
        return [f"{BEATS_FILE} marks no bars; its first beat is taken for the start of one."]
    remarks = []
    lengths = np.diff(starts)
    if odd := int((lengths != song.usual).sum()):
        remarks.append(
            f"{odd} of {counted(len(lengths), 'bar')} have other than {song.usual} beats."
        )
    inside = starts[(starts >= 0) & (starts < len(song.downbeats))]
    if moved := int((~song.downbeats[inside]).sum()):
        remarks.append(
            f"{moved} of {counted(len(inside), 'bar')} begin on another beat than annotated, "
            "where bass, chords and melody say so."
        )
    return remarks
