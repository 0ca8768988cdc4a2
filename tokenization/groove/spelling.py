"""The vocabulary of the groove language, and the conversion between ids, events and notes with array operations.

The tokens are those of the groove continuation experiment (Liutkus et al., "Relative Positional Encoding for
Transformers with Linear Complexity", 2021, appendix C.2): note-ons, note-offs and time shifts for three tracks, without
dynamics and bar lines.

An event is a note-on or note-off. A valid sequence is a sorted list of events with time shifts between them; the order
is that of `grammar.py`. Letters: T tokens, E events, N notes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tokenization.language import Vocabulary
from tokenization.score import Columns, Notes

TRACKS = ("Bass", "Drums", "Other")
BASS, DRUMS, OTHER = range(3)
PARTS = tuple(track.casefold() for track in TRACKS)  # names in commands and requests
PITCHES = 128
KEYS = len(TRACKS) * PITCHES  # a key is a pitch on a track: track · 128 + pitch

TICKS_PER_BEAT = 12
BAR_TICKS = 4 * TICKS_PER_BEAT
FARTHEST_BEATS = 2  # the longest time shift is by two beats, to tick 0
SHIFTS = (
    *((0, tick) for tick in range(1, TICKS_PER_BEAT)),
    *((1, tick) for tick in range(TICKS_PER_BEAT)),
    (FARTHEST_BEATS, 0),
)
MOST_UNISONS = 8  # simultaneous notes on one key

VOCABULARY = Vocabulary(
    [
        ("special", ["begin", "end"]),
        ("note_on", [f"note_on_{t}_{p}" for t in range(len(TRACKS)) for p in range(PITCHES)]),
        ("note_off", [f"note_off_{t}_{p}" for t in range(len(TRACKS)) for p in range(PITCHES)]),
        ("time_shift", [f"time_shift_{beats}_{tick}" for beats, tick in SHIFTS]),
    ]
)
BEGIN, END = VOCABULARY.id("begin"), VOCABULARY.id("end")
NOTE_ON, NOTE_OFF = VOCABULARY["note_on"], VOCABULARY["note_off"]
TIME_SHIFT = VOCABULARY["time_shift"]
LONG_SHIFT = VOCABULARY.id("time_shift_2_0")
BEATS_OF, TICK_OF = (VOCABULARY.table("time_shift", values) for values in np.array(SHIFTS).T)


def shift_id(beats: np.ndarray, tick: np.ndarray) -> np.ndarray:
    """Return the id of the time shift by 0 or 1 beats to a tick, except (0, 0)."""
    return TIME_SHIFT.start - 1 + TICKS_PER_BEAT * beats + tick


@dataclass(frozen=True, eq=False)
class Events(Columns):
    """Note-ons and note-offs."""

    time_ticks: np.ndarray
    is_on: np.ndarray  # 1 for a note-on, 0 for a note-off
    onset_ticks: np.ndarray  # of the note that begins or ends
    pitch: np.ndarray
    track: np.ndarray

    @property
    def ids(self) -> np.ndarray:
        """The token of each event: (E,)."""
        start = np.where(self.is_on == 1, NOTE_ON.start, NOTE_OFF.start)
        return start + self.track * PITCHES + self.pitch

    def sorted(self) -> Events:
        """Return the events in the order of their tokens."""
        age = (
            self.track,
            self.pitch,
            self.onset_ticks,
        )  # lexsort: the last key is the first criterion
        return self[np.lexsort((*age, self.is_on, self.time_ticks))]


def events_of(notes: Notes) -> Events:
    """Return the sorted events of notes."""
    zeros, ones = np.zeros(len(notes), np.int64), np.ones(len(notes), np.int64)
    onset, pitch, track = notes.onset_ticks, notes.pitch, notes.track
    begins = Events(onset, ones, onset, pitch, track)
    ends = Events(notes.end_ticks, zeros, onset, pitch, track)
    return Events.concatenate([begins, ends]).sorted()


def spell_events(events: Events) -> np.ndarray:
    """Return `begin` and the tokens of sorted events on the grid, with time shifts: (T,) int64."""
    beat, tick = events.time_ticks // TICKS_PER_BEAT, events.time_ticks % TICKS_PER_BEAT
    beats = np.diff(beat, prepend=0)
    long_shifts, beats = beats // FARTHEST_BEATS, beats % FARTHEST_BEATS
    short_shift = (beats > 0) | (tick > 0)
    at = np.cumsum(long_shifts + short_shift + 1)
    ids = np.full(at[-1] + 1 if len(at) else 1, LONG_SHIFT)
    ids[0] = BEGIN
    ids[at] = events.ids
    ids[at[short_shift] - 1] = shift_id(beats, tick)[short_shift]
    return ids


@dataclass(frozen=True)
class Reading:
    """The events and notes of a sequence of ids."""

    ids: np.ndarray  # (T,) int64

    @cached_property
    def time_ticks(self) -> np.ndarray:
        """The time after each token: (T,)."""
        index = np.arange(len(self.ids))
        last_shift = np.maximum.accumulate(np.where(TIME_SHIFT.holds(self.ids), index, 0))
        beat = np.cumsum(BEATS_OF[self.ids])
        return beat * TICKS_PER_BEAT + TICK_OF[self.ids[last_shift]]

    @cached_property
    def event_places(self) -> np.ndarray:
        """The positions of the events: (E,)."""
        return np.flatnonzero(NOTE_ON.holds(self.ids) | NOTE_OFF.holds(self.ids))

    @cached_property
    def is_on(self) -> np.ndarray:
        """Whether each event is a note-on: (E,)."""
        return NOTE_ON.holds(self.ids[self.event_places])

    @cached_property
    def key(self) -> np.ndarray:
        """The key of each event: (E,)."""
        return self.ids[self.event_places] - np.where(self.is_on, NOTE_ON.start, NOTE_OFF.start)

    @cached_property
    def complete(self) -> tuple[np.ndarray, np.ndarray]:
        """The indices of the events that start and end complete notes, by key and age: (N,) each."""
        on, off = np.flatnonzero(self.is_on), np.flatnonzero(~self.is_on)
        # The n-th note-off of a key ends the note of its n-th note-on.
        on_name, off_name = (
            self.key[events] * len(self.key) + earlier_equals(self.key[events])
            for events in (on, off)
        )
        _, begin, end = np.intersect1d(on_name, off_name, assume_unique=True, return_indices=True)
        return on[begin], off[end]

    @cached_property
    def notes(self) -> Notes:
        """The complete notes, without velocities."""
        time, (begin, end) = self.time_ticks[self.event_places], self.complete
        key = self.key[begin]
        return notes_of_keys(time[begin], time[end], key)

    def all_notes(self, line_ticks: int) -> Notes:
        """Return the notes that start before a tick, cut there if they are longer or incomplete."""
        onset = self.time_ticks[self.event_places]
        end = np.full_like(onset, line_ticks)
        begin, stop = self.complete
        end[begin] = np.minimum(onset[stop], line_ticks)
        kept = self.is_on & (onset < line_ticks)
        return notes_of_keys(onset[kept], end[kept], self.key[kept])


def notes_of_keys(onset_ticks: np.ndarray, end_ticks: np.ndarray, key: np.ndarray) -> Notes:
    """Return sorted notes, without velocities."""
    duration, none = end_ticks - onset_ticks, np.zeros_like(key)
    return Notes(onset_ticks, duration, key % PITCHES, none, key // PITCHES).sorted()


def earlier_equals(values: np.ndarray) -> np.ndarray:
    """Return the number of equal values before each: (N,)."""
    order = np.argsort(values, kind="stable")
    index = np.arange(len(values))
    new = np.append(True, np.diff(values[order]) != 0)[: len(values)]
    earlier = np.empty_like(index)
    earlier[order] = index - np.maximum.accumulate(np.where(new, index, 0))
    return earlier
