"""The one music type of the project: an immutable score of numpy columns.

Times are ticks, `ticks_per_beat` of them a beat (a quarter note). Every column is a read-only
array; integer columns are int64, so that arithmetic on pitches or ticks cannot wrap around.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Self, TypeVar

import numpy as np


def steps_of(ticks: np.ndarray, ticks_per_beat: int, steps_per_beat: int) -> np.ndarray:
    """Return ticks in steps, the nearest whole number of them; a half goes up."""
    return (2 * steps_per_beat * ticks + ticks_per_beat) // (2 * ticks_per_beat)


@cache
def _kinds(columns: type) -> dict[str, type]:
    """Return the number type of each column of a class."""
    return {f.name: np.float64 if f.metadata.get("float") else np.int64 for f in fields(columns)}


@dataclass(frozen=True, eq=False)
class Columns:
    """Equally long read-only arrays, one a field; indexing selects rows of all of them."""

    def __post_init__(self) -> None:
        for name, kind in _kinds(type(self)).items():
            values = np.array(getattr(self, name), dtype=kind, ndmin=1)
            values.setflags(write=False)
            object.__setattr__(self, name, values)
        lengths = [len(values) for values in self.columns]
        if len(set(lengths)) > 1:
            found = dict(zip(_kinds(type(self)), lengths, strict=True))
            raise ValueError(f"{type(self).__name__} needs columns of one length, but got {found}")

    @property
    def columns(self) -> tuple[np.ndarray, ...]:
        """The arrays, in the order of the fields."""
        return tuple(getattr(self, name) for name in _kinds(type(self)))

    def __len__(self) -> int:
        return len(self.columns[0])

    def __getitem__(self, rows: slice | np.ndarray) -> Self:
        return type(self)(*(values[rows] for values in self.columns))

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(np.array_equal(a, b) for a, b in zip(self.columns, other.columns, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def replace(self, **columns: np.ndarray) -> Self:
        """Return a copy with some columns exchanged."""
        return replace(self, **columns)

    @classmethod
    def empty(cls) -> Self:
        """Return no rows."""
        return cls(*([] for _ in fields(cls)))

    @classmethod
    def concatenate(cls, parts: Iterable[Self]) -> Self:
        """Return the rows of all parts, one after the other."""
        columns = [part.columns for part in parts]
        return (
            cls(*(np.concatenate(values) for values in zip(*columns, strict=True)))
            if columns
            else cls.empty()
        )


@dataclass(frozen=True, eq=False)
class Notes(Columns):
    """Notes; `track` is an index into the score's tracks."""

    onset_ticks: np.ndarray
    duration_ticks: np.ndarray
    pitch: np.ndarray
    velocity: np.ndarray
    track: np.ndarray

    @property
    def end_ticks(self) -> np.ndarray:
        """The tick at which each note ends."""
        return self.onset_ticks + self.duration_ticks

    def sorted(self) -> Notes:
        """Return the notes in the one canonical order: onset, track, pitch, duration, velocity."""
        first = self.onset_ticks, self.track, self.pitch
        order = np.lexsort(first[::-1])
        # The other two matter only where these three are equal, which is rare.
        if np.logical_and.reduce([np.diff(column[order]) == 0 for column in first]).any():
            order = np.lexsort((self.velocity, self.duration_ticks, *first[::-1]))
        return self[order]

    def merged(self) -> Notes:
        """Return the notes in order; those of one onset, track and pitch as one, as long and loud as the most are."""
        notes = self.sorted()
        place = notes.onset_ticks, notes.track, notes.pitch
        first = np.flatnonzero(np.any([np.diff(column, prepend=-1) != 0 for column in place], 0))
        longest, loudest = (
            np.maximum.reduceat(column, first) for column in (notes.duration_ticks, notes.velocity)
        )
        return notes[first].replace(duration_ticks=longest, velocity=loudest)

    @property
    def next_strike_ticks(self) -> np.ndarray:
        """The tick at which each note's key is next struck on its track, or one after all ends."""
        order = np.lexsort((self.onset_ticks, self.pitch, self.track))
        onset, pitch, track = self.onset_ticks[order], self.pitch[order], self.track[order]
        # Equal onsets of a key are one strike; the next one is where the following group starts.
        key_changes = (np.diff(pitch) != 0) | (np.diff(track) != 0)
        group = np.append(0, np.cumsum(key_changes | (np.diff(onset) != 0)))
        first = np.append(0, np.flatnonzero(np.diff(group)) + 1)
        after = np.append(first[1:], -1)[group]  # the first note of the next group, of any key
        same_key = (after >= 0) & (pitch[after] == pitch) & (track[after] == track)
        result = np.empty_like(onset)
        result[order] = np.where(same_key, onset[after], np.iinfo(np.int64).max)
        return result


@dataclass(frozen=True, eq=False)
class Tempos(Columns):
    """Tempo changes, in quarter notes a minute."""

    onset_ticks: np.ndarray
    beats_per_minute: np.ndarray = field(metadata={"float": True})


@dataclass(frozen=True, eq=False)
class Meters(Columns):
    """Time signatures."""

    onset_ticks: np.ndarray
    numerator: np.ndarray
    denominator: np.ndarray


@dataclass(frozen=True, eq=False)
class FileTimes(Columns):
    """Beats of a score whose ticks in its file are known; straight lines between and beyond them."""

    beats: np.ndarray = field(metadata={"float": True})
    file_ticks: np.ndarray = field(metadata={"float": True})

    def later(self, beats: float) -> FileTimes:
        """Return the times of a score that begins so many beats later."""
        return self.replace(beats=self.beats + beats)


@dataclass(frozen=True, eq=False)
class Pedals(Columns):
    """Spans in which a track's sustain pedal is down."""

    onset_ticks: np.ndarray
    duration_ticks: np.ndarray
    track: np.ndarray


Rows = TypeVar("Rows", Notes, Pedals)


@dataclass(frozen=True)
class Marker:
    """A text at a time: a chord, a section, a comment."""

    onset_ticks: int
    text: str
    is_guess: bool = field(default=False, compare=False)  # a chord that the notes alone tell of

    def at(self, onset_ticks: int) -> Marker:
        """Return it at another tick."""
        return Marker(onset_ticks, self.text, self.is_guess)  # a file may have 100,000


@dataclass(frozen=True)
class Track:
    """An instrument; programs count from 0 as in the file format."""

    name: str = ""
    program: int = 0
    is_drum: bool = False
    # The tracks of a file's score that it plays.
    sources: tuple[int, ...] = field(default=(), compare=False)


@dataclass(frozen=True, kw_only=True)
class Score:
    """A piece of music; `remarks` are sentences on what was repaired, dropped or assumed."""

    ticks_per_beat: int
    notes: Notes = field(default_factory=Notes.empty)
    tracks: tuple[Track, ...] = ()
    tempos: Tempos = field(default_factory=Tempos.empty)
    meters: Meters = field(default_factory=Meters.empty)
    pedals: Pedals = field(default_factory=Pedals.empty)
    markers: tuple[Marker, ...] = ()
    beats_known: bool = False  # its beats are where they are written, however the notes lie on them
    remarks: tuple[str, ...] = ()
    file_times: FileTimes = field(default_factory=FileTimes.empty, compare=False)  # none: unknown

    def __post_init__(self) -> None:
        if self.ticks_per_beat < 1:
            raise ValueError(
                f"a beat needs at least one tick, but ticks_per_beat is {self.ticks_per_beat}"
            )
        named = self.notes.track
        if strangers := named[(named < 0) | (named >= len(self.tracks))].tolist():
            raise ValueError(f"notes name track {strangers[0]}, of {len(self.tracks)} tracks")

    @property
    def end_ticks(self) -> int:
        """The tick at which the last note ends; 0 without notes."""
        return int(self.notes.end_ticks.max()) if len(self.notes) else 0

    @property
    def on_drums(self) -> np.ndarray:
        """Which notes are played on drums: (N,) bool."""
        return np.array([track.is_drum for track in self.tracks], dtype=bool)[self.notes.track]

    @property
    def pitched(self) -> Notes:
        """The notes that are not played on drums."""
        return self.notes[~self.on_drums]

    def replace(self, **changes: object) -> Score:
        """Return a copy with some fields exchanged."""
        return replace(self, **changes)  # type: ignore[arg-type]

    def rescaled(self, ticks_per_beat: int) -> Score:
        """Return the music at another resolution, rounded to its ticks; no length becomes zero."""
        if ticks_per_beat == self.ticks_per_beat:
            return self

        def scaled(ticks: np.ndarray) -> np.ndarray:
            return steps_of(ticks, self.ticks_per_beat, ticks_per_beat)

        return self.timed(scaled, ticks_per_beat=ticks_per_beat, file_times=self.file_times)

    def timed(self, tick_of: Callable[[np.ndarray], np.ndarray], **changes: object) -> Score:
        """Return the music with every time moved to another, and some fields exchanged; no length becomes zero.

        The times of its file are forgotten unless they are among those fields.
        """

        def spans(rows: Rows) -> Rows:
            onset_ticks, duration_ticks = rows.columns[:2]
            start, end = tick_of(onset_ticks), tick_of(onset_ticks + duration_ticks)
            shortest = np.minimum(duration_ticks, 1)
            return rows.replace(onset_ticks=start, duration_ticks=np.maximum(end - start, shortest))

        marked = tick_of(np.array([marker.onset_ticks for marker in self.markers], dtype=np.int64))
        moved = {
            "notes": spans(self.notes),
            "tempos": self.tempos.replace(onset_ticks=tick_of(self.tempos.onset_ticks)),
            "meters": self.meters.replace(onset_ticks=tick_of(self.meters.onset_ticks)),
            "pedals": spans(self.pedals),
            "file_times": FileTimes.empty(),
            "markers": tuple(
                marker.at(at) for at, marker in zip(marked.tolist(), self.markers, strict=True)
            ),
        }
        return self.replace(**{**moved, **changes})

    def remark(self, *sentences: str) -> Score:
        """Return a copy with sentences added to its remarks."""
        return replace(self, remarks=self.remarks + sentences)


# A part of a score, with what is in force where it begins.


def excerpt(score: Score, start_ticks: int, stop_ticks: int | None = None) -> Score:
    """Return the notes that begin in start … stop − 1, moved to begin at 0.

    The tempo, the meter and the last marker before the start hold at the new beginning.
    """
    stop = np.inf if stop_ticks is None else stop_ticks
    notes = score.notes[(score.notes.onset_ticks >= start_ticks) & (score.notes.onset_ticks < stop)]
    ends = np.minimum(score.pedals.onset_ticks + score.pedals.duration_ticks, stop)
    starts = np.maximum(score.pedals.onset_ticks, start_ticks)
    held = ends > starts
    pedals = Pedals(starts[held] - start_ticks, (ends - starts)[held], score.pedals.track[held])
    return score.replace(
        notes=notes.replace(onset_ticks=notes.onset_ticks - start_ticks),
        tempos=_in_force(score.tempos, start_ticks, stop),
        meters=_in_force(score.meters, start_ticks, stop),
        pedals=pedals,
        markers=_markers_in_force(score.markers, start_ticks, stop),
        file_times=score.file_times.later(-start_ticks / score.ticks_per_beat),
    )


def _in_force(changes: Columns, start: int, stop: float) -> Columns:
    """Return the changes in start … stop − 1, and the last before them at 0."""
    onsets: np.ndarray = changes.columns[0]
    before = np.flatnonzero(onsets <= start)[-1:]
    inside = np.flatnonzero((onsets > start) & (onsets < stop))
    chosen = changes[np.concatenate([before, inside])]
    return chosen.replace(onset_ticks=np.maximum(chosen.columns[0] - start, 0))


def _markers_in_force(markers: tuple[Marker, ...], start: int, stop: float) -> tuple[Marker, ...]:
    before = [marker for marker in markers if marker.onset_ticks <= start][-1:]
    inside = [marker for marker in markers if start < marker.onset_ticks < stop]
    return tuple(m.at(max(0, m.onset_ticks - start)) for m in before + inside)


# The sustain pedal: notes made as long as they sound.


def sustained(score: Score) -> Score:
    """Lengthen notes whose key is let go while their track's pedal is down.

    They last until the pedal comes up, or until the same key of the track is struck again. Drums
    stay as they are. The pedals are spent: the result has none.
    """
    notes = score.notes
    if not len(score.pedals) or not len(notes):
        return score.replace(pedals=Pedals.empty())
    reach_ticks = 1 + int(
        max(notes.end_ticks.max(), (score.pedals.onset_ticks + score.pedals.duration_ticks).max())
    )
    # One time line for all tracks, one after the other: a note is sought in the spans of all.
    offset = notes.track * reach_ticks
    pressed = score.pedals.onset_ticks + score.pedals.track * reach_ticks
    down, up = united(pressed, pressed + score.pedals.duration_ticks)
    end = notes.end_ticks + offset
    span = np.searchsorted(down, end, side="left") - 1  # the last pressed before the key's release
    held = (span >= 0) & (up[span] > end)
    held &= ~score.on_drums
    sounding = np.minimum(up[span] - offset, notes.next_strike_ticks)
    end_ticks = np.where(held, np.maximum(sounding, notes.end_ticks), notes.end_ticks)
    return score.replace(
        notes=notes.replace(duration_ticks=end_ticks - notes.onset_ticks), pedals=Pedals.empty()
    )


def struck_again(score: Score) -> Score:
    """Return a score whose notes end where the same key of their track is struck again."""
    notes = score.notes
    if not len(notes):
        return score
    lasts = np.minimum(notes.duration_ticks, notes.next_strike_ticks - notes.onset_ticks)
    return score.replace(notes=notes.replace(duration_ticks=lasts))


def united(start: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where the spans of a pedal start and end, in order, overlapping ones as one.

    A pedal lifted and pressed again on one tick has been up.
    """
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum.accumulate(end[order])
    first = np.append(True, start[1:] >= end[:-1])[: len(start)]
    return start[first], end[np.append(first[1:], True)[: len(start)]]
