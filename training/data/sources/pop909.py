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
from training.data.sources.source import (
    Found,
    Listing,
    Piece,
    Skipped,
    Source,
    joined,
    split_of,
)

# Downbeats: the annotation, corrected where the notes strongly contradict it.
#
# Bars tend to start where the bass starts low and long notes, where chords change, and where the melody starts long
# notes. Each beat is scored by the log-odds of these features, less their mean over the song. The best sequence of bars
# maximises the sum of the scores at its downbeats, with a bonus for each annotated downbeat and a penalty for each bar
# of unusual length (Viterbi algorithm). The weights come from a logistic regression on the annotated downbeats, most of
# which are right, of every fifth song. (`python -m tests.tools.measure.bars` of commit 25a5038c prints them and the
# changes to the annotation.)

ON_BEAT = 0.2  # largest distance of an onset from its beat, in beats
LONGEST_BEATS = 4.0  # longer notes count the same
DEEPEST_OCTAVES = 2.0
# Of a bass onset, octaves of the bass below its median, its log length, a chord change, the log length of the melody.
WEIGHTS = np.array([-0.61, 0.51, 0.86, 2.40, 0.33])
KEPT = 0.5  # bonus of an annotated downbeat
ODD = 8.0  # penalty of a bar of unusual length
ODD_BEATS = (2, 3, 4, 5)  # such lengths


def _longest(beats: int, at: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Return the log length of the longest note at each beat: (beats,)."""
    longest = np.zeros(beats)
    np.maximum.at(longest, at, length)
    return np.log1p(longest)


def _best_downbeats(score: np.ndarray, usual: int) -> np.ndarray:
    """Return the best downbeats, of which the first is among the first `usual` beats: (bars,)."""
    beats = len(score)
    penalties = dict.fromkeys(ODD_BEATS, ODD) | {usual: 0.0}
    best, before = np.full(beats, -np.inf), np.full(beats, -1)
    best[:usual] = score[:usual]
    for beat in range(min(penalties), beats):
        for length, penalty in penalties.items():
            total = best[beat - length] + score[beat] - penalty if beat >= length else -np.inf
            if total > best[beat]:
                best[beat], before[beat] = total, beat - length
    beat = int(max(0, beats - usual) + best[-usual:].argmax())
    path = []
    while beat >= 0:
        path.append(beat)
        beat = int(before[beat])
    return np.array(path[::-1])


# The beats and time signatures of the MIDI files are meaningless. Each line of `beat_midi.txt` is a beat: its seconds,
# and two columns that mark downbeats. In songs that count in twos the second column marks bars of four beats; in songs
# that count in threes the first column marks bars of 3/4, and the second every other one. In one song of nine most
# annotated bars start a beat off, and in others some do; `Song.bars` corrects them.

TICKS_PER_BEAT = 480
BEATS_FILE = "beat_midi.txt"
CHORDS_FILE = "chord_midi.txt"
MELODY = "MELODY"  # the name of its track
FEWEST_NOTES = 24  # for a correction of the annotation


@dataclass(frozen=True, kw_only=True, eq=False)
class Song:
    """The score and annotations of a song."""

    score: Score
    beats: BeatMap  # counted from the first annotated beat
    downbeats: np.ndarray  # (beats,) whether an annotated bar starts there
    chords: list[tuple[float, str]]

    @property
    def usual(self) -> int:
        """The most frequent number of beats in an annotated bar."""
        lengths = np.diff(np.flatnonzero(self.downbeats))
        return int(np.bincount(lengths).argmax()) if len(lengths) else 4

    def bars(self) -> np.ndarray:
        """Return the corrected downbeats: (bars,)."""
        annotated = np.flatnonzero(self.downbeats)
        if len(annotated) < 2 or len(self.score.notes) < FEWEST_NOTES:
            return annotated if len(annotated) else np.zeros(1, dtype=np.int64)
        odds = self.features() @ WEIGHTS
        return _best_downbeats(odds - odds.mean() + KEPT * self.downbeats, self.usual)

    def features(self) -> np.ndarray:
        """Return the features of each beat, in the order of WEIGHTS: (beats, 5)."""
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
        has_onset = lowest < 128
        median = np.median(lowest[has_onset]) if has_onset.any() else 0
        octaves = np.where(
            has_onset, np.clip((median - lowest) / 12, -DEEPEST_OCTAVES, DEEPEST_OCTAVES), 0
        )
        is_bass = pitch == lowest[at]
        starts = self.beats.to_beats(np.array([seconds for seconds, _ in self.chords]))
        changes = np.rint(starts).astype(np.int64)
        changed = np.zeros(beats)
        changed[changes[(changes >= 0) & (changes < beats)]] = 1
        return np.stack(
            [
                has_onset,
                octaves,
                _longest(beats, at[is_bass], length[is_bass]),
                changed,
                _longest(beats, at[is_melody], length[is_melody]),
            ],
            axis=-1,
        )


def read_song(folder: Path) -> Score:
    """Return a song's score on its corrected bars, from the bar of its first note, with chords as markers."""
    beat_seconds, downbeats = read_beats(folder / BEATS_FILE)
    chords = read_chords(folder / CHORDS_FILE)
    score = read_midi(folder / f"{folder.name}.mid")
    numbers = np.arange(len(beat_seconds))
    beats = BeatMap(beat_seconds, numbers)
    song = Song(score=score, beats=beats, downbeats=downbeats, chords=chords)
    starts = _from_first_note(song, song.bars())
    beat_map = BeatMap(beat_seconds, numbers - starts[0])
    return remap(score, beat_map, TICKS_PER_BEAT).replace(
        markers=_markers(chords, beat_map), meters=_meters(starts, song.usual)
    )


def _from_first_note(song: Song, starts: np.ndarray) -> np.ndarray:
    """Return the downbeats from the bar of the first note on, which can be before the first beat or after the last."""
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
    """Return a time signature at each change of the number of beats in a bar."""
    beats = np.append(np.diff(starts), usual)
    changes = np.flatnonzero(np.diff(beats, prepend=0))
    onset_ticks = (starts[changes] - starts[0]) * TICKS_PER_BEAT
    return Meters(onset_ticks, beats[changes], np.full(len(changes), 4))


def read_beats(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return the time of each beat in seconds, and whether it is a downbeat."""
    try:
        rows = np.array(
            path.read_text(encoding="utf-8", errors="replace").split(), dtype=np.float64
        ).reshape(-1, 3)
    except ValueError:
        raise ValueError(
            f"{path} is not a beats file: one line per beat, with its seconds and two downbeat marks"
        ) from None
    seconds = rows[:, 0]
    if len(rows) < 2 or not np.isfinite(seconds).all() or (np.diff(seconds) <= 0).any():
        raise ValueError(f"{path} needs two or more beats, each later than the one before")
    halves, bars = rows[:, 1] > 0, rows[:, 2] > 0
    gaps = np.bincount(np.diff(np.flatnonzero(halves)), minlength=1)
    return seconds, halves if gaps.argmax() == 3 else bars


def read_chords(path: Path) -> list[tuple[float, str]]:
    """Return the start in seconds and the vocabulary's name of each chord that differs from the one before."""
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
                f"line {number} of {path} is {line!r}; expected start, end and a chord such as 'Bb:min7'"
            )
        if not chords or chords[-1][1] != chord:
            chords.append((seconds, chord))
    return chords


def _markers(chords: list[tuple[float, str]], beat_map: BeatMap) -> tuple[Marker, ...]:
    """Return the chord changes as markers; the chord that sounds at beat 0 is placed there."""
    if not chords:
        return ()
    seconds, names = zip(*chords, strict=True)
    at = to_ticks(beat_map.to_beats(np.array(seconds)), TICKS_PER_BEAT).tolist()
    by_tick = dict(zip(at, names, strict=True))  # the last of several at one tick
    markers: list[Marker] = []
    for tick, name in sorted(by_tick.items()):
        if not markers or markers[-1].text != name:
            markers.append(Marker(tick, name))
    return tuple(markers)


BRIDGE = "BRIDGE"  # the track of a second melody
_SONG = re.compile(r"(?:^|.*/)((\d{3})/\2)\.mid")


class Pop909(Source):
    """One folder per song, 001 … 909, at any depth."""

    name = "pop909"
    title = "POP909"
    shape = f"one folder NNN per song, with NNN.mid, {BEATS_FILE} and {CHORDS_FILE}"
    language = "ensemble"
    languages = ("remi", "ensemble")
    licence = "MIT, copyright 2020 Music X Lab"
    style = "pop"
    by_name = True

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
                split = split_of(name, {"validation": validation})
                path = listing.path(folder)
                pieces[name] = Piece(name=name, path=path, split=split, work=name)
        return Found(pieces=list(pieces.values()), skipped=skipped)

    def scores(self, piece: Piece, language: Language) -> list[Score]:
        score = language.arrange(read_song(piece.path))
        return arrangements(score) if language.name == "ensemble" else [score]


def arrangements(score: Score) -> list[Score]:
    """Return a song with separate melodies, with the melodies as one part, and on a single piano, as users play it."""
    tracks = range(len(score.tracks))
    melodies = [index for index in tracks if score.tracks[index].name in (MELODY, BRIDGE)]
    piano = [index for index in tracks if index not in melodies]
    together = joined(score, [melodies, piano])
    return [score, *together, *joined(score, [tracks], Track("Piano", 0))]
