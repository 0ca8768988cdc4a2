"""POP909 (Wang et al., ISMIR 2020): pop songs as piano arrangements, with beats and chords."""

from __future__ import annotations

import re
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
from tokenization.analysis.chords import parse
from tokenization.language import Language
from tokenization.midi.reading import read_midi
from tokenization.score import Marker, Meters, Score, Track
from tokenization.wording import counted
from training.data.sources.source import (
    Found,
    Listing,
    Piece,
    Skipped,
    Source,
    joined,
    split_by_name,
)

# Which beats of a song start a bar: an annotation, mended where the notes say otherwise.
#
# Bars start where the bass starts low and long notes, where chords change, and where the melody starts long notes.
# Each beat gets the log-odds that these give it, less their mean over the song; the best path through the beats goes
# by whole bars, earns for each annotated downbeat that it keeps, and pays for every bar of another length than most
# (the Viterbi algorithm). So the annotation stays wherever the evidence against it is small. The weights are those of
# a logistic regression on the annotated downbeats of every fifth song of POP909, most of which are right. (`python -m
# tests.tools.measure.bars` of commit 25a5038c prints them, and what the path changes.)

ON_BEAT = 0.2  # beats from it
LONGEST_BEATS = 4.0  # what a note says more by being long
DEEPEST_OCTAVES = 2.0
# Of the bass: that it starts here, octaves below its median, log length; a change of chord; log length of the melody.
WEIGHTS = np.array([-0.61, 0.51, 0.86, 2.40, 0.33])
KEPT = 0.5  # for an annotated downbeat
ODD = 8.0  # for a bar of another length
ODD_BEATS = (2, 3, 4, 5)  # that bars may have besides the usual number


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


# A song of POP909 (Wang et al., ISMIR 2020) on its own beats and bars, with its chords as markers.
#
# The beats and time signatures of these MIDI files say nothing: where a beat lies is in `beat_midi.txt`, a line a
# beat: seconds, and two columns that mark downbeats. In a song that counts in twos the second column marks the bars
# of four; in one that counts in threes the first marks the bars of 3/4, and the second every other one. In one song
# of nine most bars begin a beat off, in others some do: `bars` puts that right.

TICKS_PER_BEAT = 480
BEATS_FILE = "beat_midi.txt"
CHORDS_FILE = "chord_midi.txt"
MELODY = "MELODY"  # the name of its track
FEWEST_NOTES = 24  # that could say anything against the annotation


@dataclass(frozen=True, kw_only=True, eq=False)
class Song:
    """A song as its folder has it."""

    score: Score
    beats: BeatMap  # counted from the first annotated one
    downbeats: np.ndarray  # (beats,) whether an annotated bar starts there
    chords: list[tuple[float, str]]

    @property
    def usual(self) -> int:
        """How many beats most bars have."""
        lengths = np.diff(np.flatnonzero(self.downbeats))
        return int(np.bincount(lengths).argmax()) if len(lengths) else 4

    def bars(self) -> np.ndarray:
        """Return the beats that start bars, as annotated or mended: (bars,)."""
        annotated = np.flatnonzero(self.downbeats)
        if len(annotated) < 2 or len(self.score.notes) < FEWEST_NOTES:
            return annotated if len(annotated) else np.zeros(1, dtype=np.int64)
        evidence = self.features() @ WEIGHTS
        return _path(evidence - evidence.mean() + KEPT * self.downbeats, self.usual)

    def features(self) -> np.ndarray:
        """Return what each beat has of a downbeat: (beats, 5)."""
        beats, notes = len(self.downbeats), self.score.notes
        seconds = tempo_map(self.score)
        onset, end = (
            self.beats.to_beats(seconds.to_seconds(ticks / self.score.ticks_per_beat))
            for ticks in (notes.onset_ticks, notes.end_ticks)
        )
        at = np.rint(onset).astype(np.int64)
        near = (np.abs(onset - at) < ON_BEAT) & (at >= 0) & (at < beats)
        at, pitch = at[near], notes.pitch[near]
        length = np.clip((end - onset)[near], 0, LONGEST_BEATS)
        melody = [i for i, track in enumerate(self.score.tracks) if track.name == MELODY]
        is_melody = np.isin(notes.track[near], melody)
        lowest = np.full(beats, 128)
        np.minimum.at(lowest, at, pitch)
        struck = lowest < 128
        median = np.median(lowest[struck]) if struck.any() else 0
        octaves = np.where(
            struck, np.clip((median - lowest) / 12, -DEEPEST_OCTAVES, DEEPEST_OCTAVES), 0
        )
        is_bass = pitch == lowest[at]
        starts = self.beats.to_beats(np.array([seconds for seconds, _ in self.chords]))
        changes = np.rint(starts).astype(np.int64)
        changed = np.zeros(beats)
        changed[changes[(changes >= 0) & (changes < beats)]] = 1
        return np.stack(
            [
                struck,
                octaves,
                _longest(beats, at[is_bass], length[is_bass]),
                changed,
                _longest(beats, at[is_melody], length[is_melody]),
            ],
            axis=-1,
        )


def read_song(folder: Path) -> Score:
    """Return a song's score on its own bars, as they are annotated or mended; it starts with that of its first note."""
    beat_seconds, downbeats = read_beats(folder / BEATS_FILE)
    chords = read_chords(folder / CHORDS_FILE)
    score = read_midi(folder / f"{folder.name}.mid")
    numbers = np.arange(len(beat_seconds))
    beats = BeatMap(beat_seconds, numbers)
    song = Song(score=score, beats=beats, downbeats=downbeats, chords=chords)
    starts = _from_first_note(song, song.bars())
    beat_map = BeatMap(beat_seconds, numbers - starts[0])
    return (
        remap(song.score, beat_map, TICKS_PER_BEAT)
        .replace(markers=_markers(song.chords, beat_map), meters=_meters(starts, song.usual))
        .remark(*_remarks(song, starts))
    )


def _from_first_note(song: Song, starts: np.ndarray) -> np.ndarray:
    """Return the starts of bars from the one of the first note, which may lie before all beats."""
    if not len(song.score.notes):
        return starts
    first = float(song.beats.to_beats(np.array(first_seconds(song.score)))) + EARLY_BEATS
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
    """Return start (seconds) and name of each annotated chord that is another than before, as our vocabulary has it."""
    chords: list[tuple[float, str]] = []
    for number, line in enumerate(
        path.read_text(encoding="utf-8", errors="replace").splitlines(), 1
    ):
        try:
            start, _, name = line.split()
            seconds, chord = float(start), parse(name)
        except ValueError:
            seconds, chord = 0.0, None
        if chord is None:
            raise ValueError(
                f"line {number} of {path} is {line!r}; start, end and a chord such as 'Bb:min7' "
                "would be read"
            )
        if not chords or chords[-1][1] != chord:
            chords.append((seconds, chord))
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


BRIDGE = "BRIDGE"  # the name of the track of a second melody
_SONG = re.compile(r"(?:^|.*/)((\d{3})/\2)\.mid")


class Pop909(Source):
    """A folder a song, 001 … 909, at any depth."""

    name = "pop909"
    title = "POP909"
    shape = f"a folder NNN a song, with NNN.mid, {BEATS_FILE} and {CHORDS_FILE}"
    language = "ensemble"
    languages = ("remi", "ensemble")
    licence = "MIT, copyright 2020 Music X Lab"
    style = "pop"
    by_name = True

    def fits(self, listing: Listing) -> bool:
        files = {*listing.files}
        songs = (file.rpartition("/")[0] for file in files if _SONG.fullmatch(file))
        return any(f"{song}/{BEATS_FILE}" in files for song in songs)

    def find(self, listing: Listing, validation: float) -> Found:
        files = {*listing.files}
        pieces: dict[str, Piece] = {}
        skipped = []
        for file in listing.files:
            if not (song := _SONG.fullmatch(file)):
                continue
            folder, name = file.rpartition("/")[0], song[2]
            missing = [
                part for part in (BEATS_FILE, CHORDS_FILE) if f"{folder}/{part}" not in files
            ]
            if missing:
                skipped.append(Skipped(folder, f"{' and '.join(missing)} is missing"))
            elif name in pieces:
                skipped.append(Skipped(folder, f"another folder holds song {name}, too"))
            else:
                split = split_by_name(name, validation=validation)
                path = listing.path(folder)
                pieces[name] = Piece(name=name, path=path, split=split, work=name)
        return Found(pieces=list(pieces.values()), skipped=skipped)

    def scores(self, piece: Piece, language: Language) -> list[Score]:
        score = language.arrange(read_song(piece.path))
        return in_three_ways(score) if language.name == "ensemble" else [score]


def in_three_ways(score: Score) -> list[Score]:
    """Return a song with its melodies apart, as one part, and all on one piano, as users play it."""
    tracks = range(len(score.tracks))
    melodies = [index for index in tracks if score.tracks[index].name in (MELODY, BRIDGE)]
    piano = [index for index in tracks if index not in melodies]
    together = joined(score, [melodies, piano])
    return [score, *together, *joined(score, [tracks], Track("Piano", 0))]
