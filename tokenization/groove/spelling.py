"""The groove language's vocabulary, its conversion between ids, events and notes, and its grammar for generation.

The tokens are those of the groove continuation experiment (Liutkus et al., "Relative Positional Encoding for
Transformers with Linear Complexity", 2021, appendix C.2): note-ons, note-offs and time shifts for three tracks, without
dynamics and bar lines.

An event is a note-on or note-off. The tokens of a score are its sorted events with time shifts between them: note-offs
first, sorted by the age of the note, then note-ons, by pitch and track. As in the published encoder, every event has a
time shift of its own to its tick, except on beats, because there is no shift (0, 0). Letters: T tokens, E events, N
notes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tokenization.grammar import Grammar
from tokenization.language import Vocabulary
from tokenization.score import Notes

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


def spelled(notes: Notes) -> np.ndarray:
    """Return `begin` and the tokens of notes on the grid: (T,) int64."""
    is_on = np.repeat([1, 0], len(notes))
    time = np.append(notes.onset_ticks, notes.end_ticks)
    onset, pitch, track = (np.tile(c, 2) for c in (notes.onset_ticks, notes.pitch, notes.track))
    order = np.lexsort((track, pitch, onset, is_on, time))  # the last key is the first criterion
    events = np.where(is_on == 1, NOTE_ON.start, NOTE_OFF.start) + track * PITCHES + pitch
    beat, tick = np.divmod(time[order], TICKS_PER_BEAT)
    beats = np.diff(beat, prepend=0)
    long_shifts, beats = beats // FARTHEST_BEATS, beats % FARTHEST_BEATS
    short_shift = (beats > 0) | (tick > 0)
    at = np.cumsum(long_shifts + short_shift + 1)
    ids = np.full(at[-1] + 1 if len(at) else 1, LONG_SHIFT)
    ids[0] = BEGIN
    ids[at] = events[order]
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


# The grammar of generation.
#
# In the tokens of a score, simultaneous note-offs come first, and note-ons ascend. A mask for this order would push an
# uncertain model into unwanted notes. So the grammar allows any order, and `Groove.close` sorts the events.
#
# Four rules apply after a prompt:
# - No note starts in the last bar of the prompt, which stays unchanged.
# - No two notes start on the same key at the same time. In the groove data one note in a hundred does, but a model that
#   once repeated a note in this way went on to eight.
# - A note ends after the longest duration of its track in the prompt, within a beat and two bars. If a model forgets a
#   note-off, the note would otherwise hang, and with it all later notes on this key, because a note-off ends the oldest
#   one. A time shift past such an end is cut short there (`instead`), and only the note-off can follow. Masking the
#   shift instead made the first groove model write a third more notes.
# - A track has no more simultaneous notes than any training data or the prompt. A model that exceeds this is outside
#   its training data and does not recover: after a dense prompt, two of forty takes of 16 bars had notes at one time
#   for more than ten thousand tokens.
#
# Letters: B rows of a batch, K = 384 keys, V = 794 tokens.

BEFORE, AFTER_NOTE, SHIFTED, WAITING, ENDED = range(5)  # phases; WAITING: after a long shift
FAR_TICKS = 1 << 40  # later than the end of any piece
LONGEST_TICKS = (2 * BAR_TICKS,) * len(TRACKS)  # of each track, unless a prompt has shorter notes
# The most simultaneous notes of bass, drums and other in 750 pieces of three data sets.
MOST_SOUNDING = (2, 6, 10)


def _phase_after() -> np.ndarray:
    phase = np.full(len(VOCABULARY), AFTER_NOTE)
    phase[TIME_SHIFT.start : TIME_SHIFT.stop] = SHIFTED
    phase[LONG_SHIFT] = WAITING
    phase[END] = ENDED
    return phase  # (V,)


def _shifts_allowed() -> np.ndarray:
    allowed = np.zeros((ENDED + 1, TICKS_PER_BEAT, len(TIME_SHIFT)), dtype=bool)
    on = BEATS_OF[SHIFT_IDS] > 0
    allowed[AFTER_NOTE] = on | (np.arange(TICKS_PER_BEAT)[:, None] <= TICK_OF[SHIFT_IDS])
    allowed[WAITING] = True
    return allowed  # (phase, tick, shift)


SHIFT_IDS = np.arange(TIME_SHIFT.start, TIME_SHIFT.stop)  # (24,)
PHASE_AFTER = _phase_after()
SHIFTS_ALLOWED = _shifts_allowed()


class GrooveGrammar(Grammar):
    """The grammar for generation: no note-off without a note, no step back in time, and the rules above."""

    def __init__(
        self,
        *,
        prompt_tokens: int = 0,
        start_ticks: int = 0,
        longest_ticks: Sequence[int] = LONGEST_TICKS,
    ) -> None:
        """Start one sequence, before the begin token.

        The rules above do not apply to the first `prompt_tokens`. After these, no note starts before `start_ticks` or
        lasts longer than the `longest_ticks` of its track.
        """
        self._phase = np.full(1, BEFORE)
        self.time_ticks = np.zeros(1, dtype=np.int64)  # current time
        self._notes = np.zeros(1, dtype=np.int64)  # number of notes so far
        self._before = np.zeros(1, dtype=np.int64)  # number of notes before the current time
        self._sounding = np.zeros((1, len(TRACKS)), dtype=np.int64)  # number of notes per track
        self._most = np.array([MOST_SOUNDING])
        # The numbers of the sounding notes on each key, the oldest first, padded with −1.
        self._ages = np.full((1, MOST_UNISONS, KEYS), -1)
        # When they must end, in the same order; and the earliest of these times.
        self._due = np.full((1, MOST_UNISONS, KEYS), FAR_TICKS)
        self._next_due = np.array([FAR_TICKS])
        self._longest = np.repeat([longest_ticks], PITCHES, axis=1)  # (B, K)
        self._prompt = np.array([prompt_tokens])  # remaining tokens of the prompt
        self._start = np.array([start_ticks])

    @property
    def bars(self) -> np.ndarray:
        """The number of bars so far, including the current one: (B,)."""
        return np.where(self._phase == BEFORE, 0, self.time_ticks // BAR_TICKS + 1)

    def allowed(self) -> np.ndarray:
        """Return the mask of the tokens that can come next: (B, V) bool."""
        tick = self.time_ticks % TICKS_PER_BEAT
        after_note = self._phase == AFTER_NOTE
        on, off = self._may_begin(), self._may_end()  # (B, K) each
        now = (self._phase == SHIFTED) | (self._phase == WAITING) | (after_note & (tick == 0))
        mask = np.empty((len(tick), len(VOCABULARY)), dtype=bool)
        np.logical_and(on, now[:, None], out=mask[:, NOTE_ON.start : NOTE_ON.stop])
        np.logical_and(off, now[:, None], out=mask[:, NOTE_OFF.start : NOTE_OFF.stop])
        shifts = mask[:, TIME_SHIFT.start : TIME_SHIFT.stop]
        shifts[:] = self._may_shift()
        stay = np.flatnonzero(after_note & (tick > 0))
        shifts[stay, tick[stay] - 1] = (on[stay] | off[stay]).any(axis=1)
        mask[:, BEGIN] = self._phase == BEFORE
        mask[:, END] = after_note & ~self._sounding.any(axis=1) & (self._notes > 0)
        return mask  # (B, V)

    def instead(self, tokens: np.ndarray) -> np.ndarray:
        """Return the tokens, with a time shift past the required end of a note cut short there."""
        rows = np.flatnonzero(TIME_SHIFT.holds(tokens) & (self._next_due > self.time_ticks))
        past = _shifted(self.time_ticks[rows], tokens[rows])
        rows = rows[past > self._next_due[rows]]
        if not len(rows):
            return tokens
        due, replaced = self._next_due[rows], tokens.copy()
        beats = due // TICKS_PER_BEAT - self.time_ticks[rows] // TICKS_PER_BEAT
        to_due = shift_id(beats, due % TICKS_PER_BEAT)
        replaced[rows] = np.where(beats < FARTHEST_BEATS, to_due, LONG_SHIFT)
        return replaced

    def advance(self, tokens: np.ndarray) -> None:
        """Append one token to each row: (B,) allowed ids."""
        tokens = np.asarray(tokens, dtype=np.int64)
        self._phase = PHASE_AFTER[tokens]
        for block, step in ((NOTE_ON, self._begin_notes), (NOTE_OFF, self._end_notes)):
            rows = np.flatnonzero(block.holds(tokens))
            if len(rows):
                step(rows, tokens[rows] - block.start)
        rows = np.flatnonzero(TIME_SHIFT.holds(tokens))
        if len(rows):
            self._move(rows, _shifted(self.time_ticks[rows], tokens[rows]))
        self._prompt = np.maximum(self._prompt - 1, 0)

    def _may_begin(self) -> np.ndarray:
        """Return the mask of the keys on which a note can start: (B, K)."""
        prompt = self._prompt > 0
        late_enough = prompt | (self.time_ticks >= self._start)
        once = prompt[:, None] | (self._ages.max(axis=1) < self._before[:, None])
        room = np.repeat(prompt[:, None] | (self._sounding < self._most), PITCHES, axis=1)
        return (self._ages[:, -1] < 0) & once & room & (late_enough & ~self._must_end())[:, None]

    def _may_end(self) -> np.ndarray:
        """Return the mask of the keys whose oldest note can end: (B, K)."""
        oldest = self._ages[:, 0]
        may = (oldest >= 0) & (oldest < self._before[:, None])
        rows = np.flatnonzero(self._must_end())
        may[rows] &= self._due[rows, 0] <= self.time_ticks[rows, None]
        return may

    def _may_shift(self) -> np.ndarray:
        """Return the mask of the time shifts, except the one to the current time: (B, shifts)."""
        may = SHIFTS_ALLOWED[self._phase, self.time_ticks % TICKS_PER_BEAT]
        may = may & ~self._must_end()[:, None]
        idle = (self._prompt == 0) & (self.time_ticks < self._start) & ~self._sounding.any(axis=1)
        rows = np.flatnonzero(idle)
        reached = _shifted(self.time_ticks[rows, None], SHIFT_IDS)
        may[rows] &= (SHIFT_IDS == LONG_SHIFT) | (reached >= self._start[rows, None])
        return may

    def _must_end(self) -> np.ndarray:
        """Return the mask of the rows in which a note has to end now: (B,)."""
        return (self._next_due <= self.time_ticks) & (self._prompt == 0)

    def _begin_notes(self, rows: np.ndarray, keys: np.ndarray) -> None:
        place = (self._ages[rows, :, keys] >= 0).sum(axis=1)
        self._ages[rows, place, keys] = self._notes[rows]
        self._notes[rows] += 1
        due = np.maximum(self.time_ticks[rows] + self._longest[rows, keys], self._start[rows])
        older = np.where(place > 0, self._due[rows, place - 1, keys], 0)
        due = np.maximum(due, older)  # the older note on the key has to end first
        self._due[rows, place, keys] = due
        self._next_due[rows] = np.minimum(self._next_due[rows], due)
        self._sounding[rows, keys // PITCHES] += 1
        as_given = rows[self._prompt[rows] > 0]
        self._most[as_given] = np.maximum(self._most[as_given], self._sounding[as_given])

    def _end_notes(self, rows: np.ndarray, keys: np.ndarray) -> None:
        for of_notes, silent in ((self._ages, -1), (self._due, FAR_TICKS)):
            of_notes[rows, :-1, keys] = of_notes[rows, 1:, keys]
            of_notes[rows, -1, keys] = silent
        self._next_due[rows] = self._due[rows, 0].min(axis=1)
        self._sounding[rows, keys // PITCHES] -= 1

    def _move(self, rows: np.ndarray, ticks: np.ndarray) -> None:
        """Move rows to the given times."""
        moved = rows[ticks != self.time_ticks[rows]]
        self.time_ticks[rows] = ticks
        self._before[moved] = self._notes[moved]


def _shifted(ticks: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """Return the times after time shifts."""
    return (ticks // TICKS_PER_BEAT + BEATS_OF[tokens]) * TICKS_PER_BEAT + TICK_OF[tokens]
