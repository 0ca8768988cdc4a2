"""A user's changes of a file as plain data, and the reading of the file in whose ticks and tracks they are stated.

`changed` in formats.py applies a list of changes in order, each to the result of those before it. A change alters what
it names and nothing else: every other event of a MIDI file keeps its tick and its bytes, every other element of a score
its place. A project therefore keeps the original file and the list, and undo removes the last one.

In JSON, a change is an object with its name and its values:

    {"change": "notes", "rows": [[before, after], …]}     a row is [onset, duration, pitch, velocity, track]; null as
                                                          `before` inserts a note, and as `after` deletes it
    {"change": "transpose", "semitones": 2}               with all pitched tracks, chord symbols and key signatures too
    {"change": "velocity", "times": 0.8, "plus": 5}
    {"change": "delete"}                                  notes
    {"change": "tempo", "bpm": 96}                        a constant tempo, in quarter notes per minute, or
    {"change": "tempo", "times": 1.5}                     the tempos there, faster
    {"change": "key", "fifths": -3, "minor": false}
    {"change": "metre", "beats": 3, "unit": 4}
    {"change": "chords", "ticks": [0], "symbols": ["F♯m"], "guesses": [0]}
                                                          in place of the chord symbols in the span
    {"change": "program", "track": 0, "program": 40}      counted from 0
    {"change": "volume", "track": 0, "volume": 90}
    {"change": "controllers", "track": 0, "events": [[120, 64, 127], [240, 128, -512]]}
                                                          ticks, controllers and values to add; 128 is the pitch bend
    {"change": "name", "track": 0, "name": "Viola"}
    {"change": "order", "tracks": [2, 0, 1]}              later changes number the tracks in this order
    {"change": "drop", "tracks": [1]}                     whole tracks; the later ones move up
    {"change": "cut", "start": 3840, "stop": 7680}        removes this time; what follows moves forward

"start" and "stop" limit a change to notes and signs from a tick to before another, by default the whole piece, and
"tracks" (of transpose, velocity and delete) to some tracks. What is set for a span returns to its old value after it.

The page sends {"edits": {"reading": …, "changes": […]}} in the JSON of any request that brings the file along, and who
answers changes the file before anything else is done with it (`Desk` in app/web/desk.py). The reading comes with the
opened piece or the finished take and goes back as it came, so that ticks and tracks are those that the page shows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import inf
from typing import Any, Protocol, TypeVar

import numpy as np

from tokenization.analysis.beats import interpolate
from tokenization.analysis.chords import parse
from tokenization.edit import NotKept
from tokenization.records import from_plain
from tokenization.score import Score

Row = tuple[Any, ...]  # onset and duration, which can be fractions of ticks; pitch, velocity, track
WIDTH = 5
BEND = 128  # in place of a controller, the pitch bend
NEAR_STEPS = 1.5  # by which the onset of a note can differ from that in the file, if no nearer one has its pitch


@dataclass(frozen=True, kw_only=True)
class Change:
    """A change within a span of time."""

    start: int = 0
    stop: int | None = None

    def __post_init__(self) -> None:
        if self.start < 0 or (self.stop is not None and self.stop <= self.start):
            raise ValueError(f"it is from tick {self.start} to {self.stop}; it must be later")


@dataclass(frozen=True, kw_only=True)
class OfTracks(Change):
    """A change of the notes of all or some tracks."""

    tracks: tuple[int, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class ChangeNotes(Change):
    """Insert, delete, move, lengthen, transpose notes or change their velocity."""

    rows: tuple[tuple[Row | None, ...], ...]

    def __post_init__(self) -> None:
        for pair in self.rows:
            rows = [row for row in pair if row is not None]
            if len(pair) != 2 or not rows or any(len(row) != WIDTH for row in rows):
                raise ValueError("rows must be pairs of a note before and after, of 5 numbers each")
            for row in rows:
                times, whole = row[:2], row[2:]
                is_note = all(isinstance(one, int | float) and 0 <= one < inf for one in times)
                is_note = is_note and all(isinstance(one, int) for one in whole) and times[1] > 0
                if not is_note or not 0 <= whole[0] < 128 or not 0 < whole[1] < 128:
                    raise ValueError(f"a note with the numbers {rows} cannot be in a file")


@dataclass(frozen=True, kw_only=True)
class Transpose(OfTracks):
    """Transpose pitched notes."""

    semitones: int

    def __post_init__(self) -> None:
        super().__post_init__()
        _check("semitones", self.semitones, -127, 127)


@dataclass(frozen=True, kw_only=True)
class Velocity(OfTracks):
    """Multiply velocities and add to them, within 1 … 127."""

    times: float = 1.0
    plus: int = 0

    def of(self, velocity: int) -> int:
        """Return the changed velocity."""
        return min(127, max(1, round(velocity * self.times) + self.plus))


@dataclass(frozen=True, kw_only=True)
class Delete(OfTracks):
    """Delete notes."""


@dataclass(frozen=True, kw_only=True)
class Tempo(Change):
    """Set a constant tempo in quarter notes per minute, or scale those of the file."""

    bpm: float | None = None
    times: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.bpm is None) == (self.times is None):
            raise ValueError("a tempo needs either bpm or times")
        if self.bpm is not None:
            _check("bpm", self.bpm, 10, 500)
        if self.times is not None:
            _check("times", self.times, 0.1, 10)


@dataclass(frozen=True, kw_only=True)
class Key(Change):
    """Set the key signature."""

    fifths: int  # sharps, or flats if negative
    minor: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        _check("fifths", self.fifths, -7, 7)


@dataclass(frozen=True, kw_only=True)
class Metre(Change):
    """Set the time signature."""

    beats: int
    unit: int

    def __post_init__(self) -> None:
        super().__post_init__()
        _check("beats", self.beats, 1, 64)
        if self.unit not in (1, 2, 4, 8, 16, 32):
            raise ValueError(f"unit is {self.unit}; the lower number of a metre is 1, 2, 4, 8, …")


@dataclass(frozen=True, kw_only=True)
class Chords(Change):
    """Write chord symbols."""

    ticks: tuple[int, ...]
    symbols: tuple[str, ...]
    guesses: tuple[int, ...]  # 1 for a chord that was inferred from the notes

    def __post_init__(self) -> None:
        super().__post_init__()
        if not len(self.ticks) == len(self.symbols) == len(self.guesses):
            raise ValueError("ticks, symbols and guesses must be equally many")
        if unknown := [text for text in self.symbols if parse(text) is None]:
            raise ValueError(f"{unknown[0]!r} is not a chord")


@dataclass(frozen=True, kw_only=True)
class OfTrack(Change):
    """A change of a whole track."""

    track: int


@dataclass(frozen=True, kw_only=True)
class Program(OfTrack):
    """Give a track another instrument of General MIDI."""

    program: int

    def __post_init__(self) -> None:
        super().__post_init__()
        _check("program", self.program, 0, 127)


@dataclass(frozen=True, kw_only=True)
class Volume(OfTrack):
    """Set the volume of a track; changes of it within the piece are scaled."""

    volume: int

    def __post_init__(self) -> None:
        super().__post_init__()
        _check("volume", self.volume, 0, 127)


@dataclass(frozen=True, kw_only=True)
class Controllers(OfTrack):
    """Add controllers and pitch bends, as a performer moves them."""

    events: tuple[tuple[float, ...], ...]  # tick, controller or BEND, value

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(len(event) != 3 for event in self.events):
            raise ValueError("an event must be a tick, a controller and a value")
        for tick, controller, value in self.events:
            _check("the tick of an event", tick, 0, inf)
            _check("a controller", controller, 0, BEND)
            least, most = (-8192, 8191) if controller == BEND else (0, 127)
            _check("the value of a controller", value, least, most)


@dataclass(frozen=True, kw_only=True)
class Name(OfTrack):
    """Name a track."""

    name: str


@dataclass(frozen=True, kw_only=True)
class Order(Change):
    """Reorder the tracks."""

    tracks: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Drop(Change):
    """Delete whole tracks."""

    tracks: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Cut(Change):
    """Remove a span of time, so that what follows moves forward."""


def edits_from(plain: Any) -> tuple[list[Change], Reading | None]:
    """Return the changes and the reading that the page sends; raises ValueError if they are wrong."""
    if not isinstance(plain, Mapping):
        raise ValueError("edits must be an object with a reading and changes")
    reading = plain.get("reading")
    known = None if reading is None else from_plain(Reading, reading, "the reading")
    return changes_from(plain.get("changes")), known


KINDS: dict[str, type[Change]] = {
    "notes": ChangeNotes, "transpose": Transpose, "velocity": Velocity, "delete": Delete, "tempo": Tempo, "key": Key,
    "metre": Metre, "chords": Chords, "program": Program, "volume": Volume, "controllers": Controllers, "name": Name,
    "order": Order, "drop": Drop, "cut": Cut,
}  # fmt: skip
MOST_CHANGES = 10_000


def changes_from(plain: Any) -> list[Change]:
    """Return the changes in a list of plain data; raises ValueError for what is no change."""
    if not isinstance(plain, list) or len(plain) > MOST_CHANGES:
        raise ValueError(f"changes must be a list of at most {MOST_CHANGES:,} changes")
    return [_change(one, f"change {number}") for number, one in enumerate(plain, 1)]


def _change(plain: Any, where: str) -> Change:
    if not isinstance(plain, Mapping) or plain.get("change") not in KINDS:
        raise ValueError(f'{where} must have as its "change" one of {", ".join(KINDS)}')
    values = {name: value for name, value in plain.items() if name != "change"}
    return from_plain(KINDS[plain["change"]], values, where)


def plain_of(changes: Sequence[Change]) -> list[dict[str, Any]]:
    """Return changes as plain data."""
    names = {kind: name for name, kind in KINDS.items()}
    return [{"change": names[type(change)], **asdict(change)} for change in changes]


def _check(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise ValueError(f"{name} is {value:g}; it must be in {least:g} … {most:g}")


class Played(Protocol):
    """A note of a file."""

    source: int  # the track of the file's score

    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def pitch(self) -> int: ...
    @property
    def velocity(self) -> int: ...


N = TypeVar("N", bound=Played)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The ticks and tracks of a piece in terms of its file: of the file itself, or as a language reads it."""

    ticks_per_beat: int
    sources: tuple[
        tuple[int, ...], ...
    ]  # of each track, the tracks of the score read from the file
    beats: tuple[float, ...] = (0.0, 1.0)  # beats of the piece, and their ticks in the file
    file_ticks: tuple[float, ...]
    steps: int = 0  # per beat, to which onsets were rounded; 0: they are those of the file

    def __post_init__(self) -> None:
        columns = np.array(self.beats), np.array(self.file_ticks)
        if (
            len(self.beats) < 2
            or len(self.beats) != len(self.file_ticks)
            or self.ticks_per_beat < 1
        ):
            raise ValueError("beats and file_ticks must be two or more pairs")
        if any((np.diff(column) <= 0).any() for column in columns):
            raise ValueError("beats and file_ticks must increase")

    @classmethod
    def of(cls, score: Score, steps: int = 0) -> Reading:
        """Return the reading of a score that was read from a file; `steps` are those of its language."""
        beats, ticks = (tuple(column.tolist()) for column in score.file_times.columns)
        if not beats:
            raise ValueError("the score was not read from a file")
        return cls(
            ticks_per_beat=score.ticks_per_beat,
            sources=tuple(track.sources for track in score.tracks),
            beats=beats,
            file_ticks=ticks,
            steps=steps,
        )

    @property
    def half_step(self) -> float:
        """The ticks by which an onset can have been rounded."""
        return self.ticks_per_beat / (2 * self.steps) if self.steps else 0.0

    def in_file(self, ticks: Any) -> Any:
        """Return the file's ticks of ticks, not rounded."""
        at = np.asarray(ticks, dtype=np.float64) / self.ticks_per_beat
        return interpolate(at, np.array(self.beats), np.array(self.file_ticks))

    def tick_in_file(self, tick: float) -> int:
        """Return the nearest tick of the file, at least 0."""
        return max(0, int(np.floor(self.in_file(tick) + 0.5)))

    def span(self, change: Change) -> tuple[int, float]:
        """Return the file's ticks between which a change applies, for signs."""
        stop = change.stop
        return self.tick_in_file(change.start), inf if stop is None else self.tick_in_file(stop)

    def heard(self, file_ticks: Any) -> Any:
        """Return the ticks of ticks of the file, not rounded."""
        at = np.asarray(file_ticks, dtype=np.float64)
        return (
            interpolate(at, np.array(self.file_ticks), np.array(self.beats)) * self.ticks_per_beat
        )

    def onset(self, file_ticks: Any) -> Any:
        """Return the ticks at which notes of the file start, at least 0: a language hears earlier ones there."""
        return np.maximum(self.heard(file_ticks), 0)

    def notes_of(self, rows: Sequence[Row], played: Iterable[N]) -> list[list[N]]:
        """Return the notes of the file, of those that are played, for which each row of the piece stands.

        A language can hear several notes of one pitch as one, and onsets as rounded. Raises NotKept if one is missing.
        """
        self.check([row[4] for row in rows])
        tracks: dict[int, list[int]] = defaultdict(list)
        for track in {row[4] for row in rows}:
            for source in self.sources[track]:
                tracks[source].append(track)
        known: dict[tuple[int, int], list[N]] = defaultdict(list)
        for note in played:
            for track in tracks.get(note.source, ()):
                known[track, note.pitch].append(note)
        keys = {(row[4], row[2]) for row in rows}
        heard = {key: self.onset([note.start for note in known[key]]) for key in keys}
        step, used = 2 * self.half_step, set[int]()
        near = step / 2 + 1e-3 if step else 0.5
        found: list[list[N]] = []
        for row in rows:
            key = row[4], row[2]
            away = np.abs(heard[key] - row[0])
            free = [(away[n], note) for n, note in enumerate(known[key]) if id(note) not in used]
            here = [note for distance, note in free if distance <= near]
            if not step and len(here) > 1:  # each row is one note
                here = sorted(here, key=lambda note: self._unlike(note, row))[:1]
            if not here:
                far = min(free, key=lambda one: one[0], default=None)
                here = [far[1]] if far is not None and far[0] <= NEAR_STEPS * step else []
            if not here:
                raise NotKept("it lacks a note that was changed")
            used |= {id(note) for note in here}
            found.append(here)
        return found

    def _unlike(self, note: Played, row: Row) -> tuple[float, int]:
        start, end = self.heard([note.start, note.end])
        return round(abs(float(end - start) - row[1]), 3), abs(note.velocity - row[3])

    @property
    def keeps_beats(self) -> bool:
        """Whether the beats are those of the file, rather than found in its notes."""
        slopes = np.diff(self.file_ticks) / np.diff(self.beats)
        return bool(np.allclose(slopes, slopes[0], rtol=1e-6))

    def without(self, start: int, stop: int) -> Reading:
        """Return the reading after the time from a tick to another is removed."""
        first, last = start / self.ticks_per_beat, stop / self.ticks_per_beat
        at, end = (float(self.in_file(tick)) for tick in (start, stop))
        known = sorted({*self.beats, last + 1})
        ticks = {beat: float(self.in_file(beat * self.ticks_per_beat)) for beat in known}
        pairs = [(beat, ticks[beat]) for beat in known if beat < first]
        pairs.append((first, at))
        pairs += [(beat - last + first, ticks[beat] - end + at) for beat in known if beat > last]
        beats, file_ticks = zip(*pairs, strict=True)
        return replace(self, beats=beats, file_ticks=file_ticks)

    def with_tracks(self, tracks: Sequence[int]) -> Reading:
        """Return the reading with these of its tracks, in this order."""
        return replace(self, sources=tuple(self.sources[track] for track in tracks))

    def renumbered(self, sources: Sequence[int]) -> Reading:
        """Return the reading when the tracks of the file's score are these, in their new order."""
        places = {source: number for number, source in enumerate(sources)}
        return replace(
            self,
            sources=tuple(tuple(places[n] for n in some if n in places) for some in self.sources),
        )

    def later(self, file_ticks: float) -> Reading:
        """Return the reading after time is inserted at the start of the file."""
        return replace(self, file_ticks=tuple(tick + file_ticks for tick in self.file_ticks))

    def check(self, tracks: Sequence[int]) -> None:
        """Raise ValueError if the piece lacks one of some tracks."""
        for track in tracks:
            if not 0 <= track < len(self.sources):
                raise ValueError(f"there is no track {track}; the piece has {len(self.sources)}")
