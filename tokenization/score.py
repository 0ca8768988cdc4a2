"""The project's music type: an immutable score of numpy columns.

Times are in ticks, with `ticks_per_beat` ticks to the quarter note. Columns are read-only arrays;
integer columns are int64, so that arithmetic on pitches or ticks cannot wrap around.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Self, TypeVar

import numpy as np


def steps_of(ticks: np.ndarray, ticks_per_beat: int, steps_per_beat: int) -> np.ndarray:
    """Convert ticks to the nearest whole number of steps, rounding halves up."""
    return (2 * steps_per_beat * ticks + ticks_per_beat) // (2 * ticks_per_beat)


@cache
def _dtypes(columns: type) -> dict[str, type]:
    """Return the dtype of each column of a class."""
    return {f.name: np.float64 if f.metadata.get("float") else np.int64 for f in fields(columns)}


@dataclass(frozen=True, eq=False)
class Columns:
    """Read-only arrays of equal length, one per field; indexing selects rows from all of them."""

    def __post_init__(self) -> None:
        own, lengths = vars(self), list[int]()
        for name, dtype in _dtypes(type(self)).items():
            own[name] = values = np.array(own[name], dtype=dtype, ndmin=1)
            values.setflags(write=False)
            lengths.append(len(values))
        if len({*lengths}) > 1:
            found = dict(zip(_dtypes(type(self)), lengths, strict=True))
            raise ValueError(f"{type(self).__name__} needs columns of equal length, not {found}")

    @property
    def columns(self) -> tuple[np.ndarray, ...]:
        """The arrays in field order."""
        return tuple(map(vars(self).__getitem__, _dtypes(type(self))))

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
        """Return a copy with some columns replaced."""
        kept = dict(zip(_dtypes(type(self)), self.columns, strict=True))
        return type(self)(**{**kept, **columns})

    @classmethod
    def empty(cls) -> Self:
        """Return an instance without rows."""
        return cls(*([] for _ in fields(cls)))

    @classmethod
    def concatenate(cls, parts: Iterable[Self]) -> Self:
        """Concatenate the rows of all parts."""
        columns = [part.columns for part in parts]
        if not columns:
            return cls.empty()
        return cls(*(np.concatenate(values) for values in zip(*columns, strict=True)))


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
        """Return the notes in canonical order: by onset, track, pitch, duration, velocity."""
        first = self.onset_ticks, self.track, self.pitch
        order = np.lexsort(first[::-1])
        # The other two columns only break ties, which are rare.
        if np.logical_and.reduce([np.diff(column[order]) == 0 for column in first]).any():
            order = np.lexsort((self.velocity, self.duration_ticks, *first[::-1]))
        return self[order]

    def merged(self) -> Notes:
        """Sort the notes and merge those of equal onset, track and pitch: longest duration, highest velocity."""
        notes = self.sorted()
        place = notes.onset_ticks, notes.track, notes.pitch
        first = np.flatnonzero(np.any([np.diff(column, prepend=-1) != 0 for column in place], 0))
        longest, loudest = (
            np.maximum.reduceat(column, first) for column in (notes.duration_ticks, notes.velocity)
        )
        return notes[first].replace(duration_ticks=longest, velocity=loudest)

    def ended_by(self, stop_ticks: int, which: np.ndarray | bool = True) -> Self:
        """Return the notes, of which these end at a tick at the latest."""
        shorter = np.minimum(self.duration_ticks, stop_ticks - self.onset_ticks)
        return self.replace(duration_ticks=np.where(which, shorter, self.duration_ticks))

    @property
    def next_strike_ticks(self) -> np.ndarray:
        """The tick at which each note's key is next struck on its track; the largest int64 if it never is."""
        order = np.lexsort((self.onset_ticks, self.pitch, self.track))
        onset, pitch, track = self.onset_ticks[order], self.pitch[order], self.track[order]
        # Notes of one key and onset are one strike; the next strike is the onset of the following group.
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
    """Tempo changes, in quarter notes per minute."""

    onset_ticks: np.ndarray
    beats_per_minute: np.ndarray = field(metadata={"float": True})


@dataclass(frozen=True, eq=False)
class Meters(Columns):
    """Time signatures."""

    onset_ticks: np.ndarray
    numerator: np.ndarray
    denominator: np.ndarray


@dataclass(frozen=True, eq=False)
class KeyChanges(Columns):
    """Key signatures: sharps, or flats if negative, and 1 where they say minor."""

    onset_ticks: np.ndarray
    sharps: np.ndarray
    minor: np.ndarray


@dataclass(frozen=True, eq=False)
class FileTimes(Columns):
    """Beats of a score and their ticks in its file, to interpolate and extrapolate linearly."""

    beats: np.ndarray = field(metadata={"float": True})
    file_ticks: np.ndarray = field(metadata={"float": True})

    def later(self, beats: float) -> FileTimes:
        """Shift the beats of the score by a number of beats."""
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
    """A text at a tick, such as a chord, a section or a comment."""

    onset_ticks: int
    text: str
    is_guess: bool = field(default=False, compare=False)  # a chord inferred from the notes
    symbol: str = field(default="", compare=False)  # the chord as written, if that says more

    def at(self, onset_ticks: int) -> Marker:
        """Return a copy at another tick."""
        return Marker(onset_ticks, self.text, self.is_guess, self.symbol)  # faster than `replace`


@dataclass(frozen=True)
class Lyric:
    """A syllable at the onset of a note."""

    onset_ticks: int
    text: str
    source: int  # the track of the score that was read from the file
    continues: bool = False  # whether the next syllable is of the same word


@dataclass(frozen=True)
class Texts:
    """What a file says to readers."""

    title: str = ""
    composer: str = ""
    lyrics: tuple[Lyric, ...] = ()


@dataclass(frozen=True)
class Track:
    """An instrument; programs count from 0, as in MIDI files."""

    name: str = ""
    program: int = 0
    is_drum: bool = False
    # The tracks of the score read from a file whose notes this track plays.
    sources: tuple[int, ...] = field(default=(), compare=False)


@dataclass(frozen=True, kw_only=True)
class Score:
    """A piece of music; `remarks` are sentences about what was repaired, dropped or assumed."""

    ticks_per_beat: int
    notes: Notes = field(default_factory=Notes.empty)
    tracks: tuple[Track, ...] = ()
    tempos: Tempos = field(default_factory=Tempos.empty)
    meters: Meters = field(default_factory=Meters.empty)
    pedals: Pedals = field(default_factory=Pedals.empty)
    markers: tuple[Marker, ...] = ()
    beats_known: bool = False  # the beats are those of the notation, whatever the notes suggest
    remarks: tuple[str, ...] = ()
    file_times: FileTimes = field(default_factory=FileTimes.empty, compare=False)  # can be empty
    # The first key signature of the file: sharps, or flats if negative, and whether it says minor.
    key_signature: tuple[int, bool] | None = field(default=None, compare=False)
    key_changes: KeyChanges = field(
        default_factory=KeyChanges.empty, compare=False
    )  # after the first
    texts: Texts = field(default_factory=Texts, compare=False)
    # Where the first written bar starts, after the rest that completes a pickup, and where the last one ends, which can
    # be a rest; None if the file does not say.
    extent: tuple[int, int] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.ticks_per_beat < 1:
            raise ValueError(
                f"a beat needs at least one tick, but ticks_per_beat is {self.ticks_per_beat}"
            )
        track = self.notes.track
        if invalid := track[(track < 0) | (track >= len(self.tracks))].tolist():
            raise ValueError(
                f"a note refers to track {invalid[0]}, but the score has {len(self.tracks)} tracks"
            )

    @property
    def end_ticks(self) -> int:
        """The tick at which the last note ends; 0 if there are no notes."""
        return int(self.notes.end_ticks.max()) if len(self.notes) else 0

    @property
    def on_drums(self) -> np.ndarray:
        """Whether each note is played on drums: (N,) bool."""
        return np.array([track.is_drum for track in self.tracks], dtype=bool)[self.notes.track]

    @property
    def pitched(self) -> Notes:
        """The notes of pitched instruments."""
        return self.notes[~self.on_drums]

    def replace(self, **changes: object) -> Score:
        """Return a copy with some fields replaced."""
        return replace(self, **changes)  # type: ignore[arg-type]

    def rescaled(self, ticks_per_beat: int) -> Score:
        """Convert to another resolution, rounding to its ticks; positive durations stay positive."""
        if ticks_per_beat == self.ticks_per_beat:
            return self

        def scaled(ticks: np.ndarray) -> np.ndarray:
            return steps_of(ticks, self.ticks_per_beat, ticks_per_beat)

        return self.timed(scaled, ticks_per_beat=ticks_per_beat, file_times=self.file_times)

    def timed(self, tick_of: Callable[[np.ndarray], np.ndarray], **changes: object) -> Score:
        """Map every time through `tick_of` and replace some fields; positive durations stay positive.

        `file_times` becomes empty unless it is among the changes.
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
            "key_changes": self.key_changes.replace(
                onset_ticks=tick_of(self.key_changes.onset_ticks)
            ),
            "texts": self._sung(tick_of),
            "extent": self.extent and (*tick_of(np.array(self.extent)).tolist(),),
        }
        return self.replace(**{**moved, **changes})

    def _sung(self, tick_of: Callable[[np.ndarray], np.ndarray]) -> Texts:
        lyrics = self.texts.lyrics
        if not lyrics:
            return self.texts
        ticks = tick_of(np.array([one.onset_ticks for one in lyrics], dtype=np.int64)).tolist()
        moved = (replace(one, onset_ticks=at) for one, at in zip(lyrics, ticks, strict=True))
        return replace(self.texts, lyrics=tuple(moved))

    def remark(self, *sentences: str) -> Score:
        """Return a copy with more remarks."""
        return replace(self, remarks=self.remarks + sentences)


# Excerpts of a score.


def excerpt(score: Score, start_ticks: int, stop_ticks: int | None = None) -> Score:
    """Return the notes that begin in start … stop − 1, shifted so that `start_ticks` becomes 0.

    The tempo, the meter and the last marker at or before the start are kept at tick 0.
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
        key_signature=_key_at(score, start_ticks),
        key_changes=_later(score.key_changes, start_ticks, stop),
        texts=replace(
            score.texts,
            lyrics=tuple(
                replace(one, onset_ticks=one.onset_ticks - start_ticks)
                for one in score.texts.lyrics
                if start_ticks <= one.onset_ticks < stop
            ),
        ),
        extent=score.extent
        and (max(0, score.extent[0] - start_ticks), int(min(score.extent[1], stop)) - start_ticks),
        file_times=score.file_times.later(-start_ticks / score.ticks_per_beat),
    )


def _in_force(changes: Columns, start: int, stop: float) -> Columns:
    """Return the changes in start … stop − 1, preceded by the one in force at the start."""
    onsets: np.ndarray = changes.columns[0]
    before = np.flatnonzero(onsets <= start)[-1:]
    inside = np.flatnonzero((onsets > start) & (onsets < stop))
    chosen = changes[np.concatenate([before, inside])]
    return chosen.replace(onset_ticks=np.maximum(chosen.columns[0] - start, 0))


def _key_at(score: Score, tick: int) -> tuple[int, bool] | None:
    """Return the key signature in force at a tick."""
    changes = score.key_changes[score.key_changes.onset_ticks <= tick]
    if not len(changes):
        return score.key_signature
    return int(changes.sharps[-1]), bool(changes.minor[-1])


def _later(changes: KeyChanges, start: int, stop: float) -> KeyChanges:
    """Return the changes after the start, counted from it."""
    inside = changes[(changes.onset_ticks > start) & (changes.onset_ticks < stop)]
    return inside.replace(onset_ticks=inside.onset_ticks - start)


def _markers_in_force(markers: tuple[Marker, ...], start: int, stop: float) -> tuple[Marker, ...]:
    inside = [marker for marker in markers if start <= marker.onset_ticks < stop]
    if not any(marker.onset_ticks == start for marker in inside):
        inside = [marker for marker in markers if marker.onset_ticks < start][-1:] + inside
    return tuple(m.at(max(0, m.onset_ticks - start)) for m in inside)


def notes_in_steps(score: Score, onset_steps: int, steps_per_beat: int) -> Notes:
    """Return the notes with times rounded to steps, and onsets to `onset_steps` per beat; durations stay positive."""
    onset = steps_of(score.notes.onset_ticks, score.ticks_per_beat, onset_steps)
    if onset.min(initial=0) < 0:
        raise ValueError(
            "the first note is before the first bar; move the score to start at tick 0"
        )
    steps = steps_of(score.notes.duration_ticks, score.ticks_per_beat, steps_per_beat)
    return score.notes.replace(
        onset_ticks=onset * (steps_per_beat // onset_steps), duration_ticks=np.maximum(steps, 1)
    )


# How long notes sound: the sustain pedal, and keys that are struck again.


def sustained(score: Score) -> Score:
    """Apply the sustain pedal: lengthen notes whose key is released while their track's pedal is down.

    They last until the pedal is released or the same key of the track is struck again. Drums are
    unchanged. The result has no pedals.
    """
    notes = score.notes
    if not len(score.pedals) or not len(notes):
        return score.replace(pedals=Pedals.empty())
    reach_ticks = 1 + int(
        max(notes.end_ticks.max(), (score.pedals.onset_ticks + score.pedals.duration_ticks).max())
    )
    # Tracks follow each other on one time line, so that one search serves all of them.
    offset = notes.track * reach_ticks
    pressed = score.pedals.onset_ticks + score.pedals.track * reach_ticks
    down, up = merged_spans(pressed, pressed + score.pedals.duration_ticks)
    end = notes.end_ticks + offset
    span = np.searchsorted(down, end, side="left") - 1  # the last press before the key's release
    held = (span >= 0) & (up[span] > end)
    held &= ~score.on_drums
    sounding = np.minimum(up[span] - offset, notes.next_strike_ticks)
    end_ticks = np.where(held, np.maximum(sounding, notes.end_ticks), notes.end_ticks)
    return score.replace(
        notes=notes.replace(duration_ticks=end_ticks - notes.onset_ticks), pedals=Pedals.empty()
    )


def cut_at_next_strike(score: Score) -> Score:
    """End each note where the same key of its track is next struck."""
    notes = score.notes
    if not len(notes):
        return score
    duration = np.minimum(notes.duration_ticks, notes.next_strike_ticks - notes.onset_ticks)
    return score.replace(notes=notes.replace(duration_ticks=duration))


def merged_spans(start: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sort the spans of a pedal and merge overlapping ones; return their starts and ends.

    Spans that only touch stay apart: the pedal was released and pressed again on that tick.
    """
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum.accumulate(end[order])
    first = np.append(True, start[1:] >= end[:-1])[: len(start)]
    return start[first], end[np.append(first[1:], True)[: len(start)]]
