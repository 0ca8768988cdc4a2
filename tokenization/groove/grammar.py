"""The rules of the groove language: token by token over a batch, and over a whole sequence at once.

Of all ways to say the same music one is valid:

- A shift moves time to where an event follows: by two beats as often as that fits, then by what
  is left. Every event that does not lie on a beat has a shift of its own, to its tick: there is no
  shift of (0, 0), and the published encoder puts one wherever there could be one.
- At one time the note-offs come first, the oldest note first; then the note-ons, by pitch, and
  within a pitch by track. Notes that begin together are as old as their note-ons' order says.
- A note lasts a tick or more, and of the notes that sound on one key the first one ends first.

Letters: B rows of a batch, T tokens of a sequence, K = 384 keys, V = 794 tokens.
"""

from __future__ import annotations

import numpy as np

from tokenization.grammar import Grammar
from tokenization.groove.events import Reading, spell_events
from tokenization.groove.tokens import (
    BAR_TICKS,
    BEGIN,
    END,
    KEYS,
    LONG_SHIFT,
    MOST_UNISONS,
    NOTE_OFF,
    NOTE_ON,
    PITCHES,
    SHIFT_BEATS,
    SHIFT_TICK,
    TICKS_PER_BEAT,
    TIME_SHIFT,
    TRACKS,
    VOCABULARY,
)

BEFORE, AFTER_NOTE, SHIFTED, WAITING, ENDED = range(5)  # phases; waiting is being in a long shift
NEVER = np.iinfo(np.int64).max

# The order of note-ons at one time.
RANK = np.arange(KEYS) % PITCHES * len(TRACKS) + np.arange(KEYS) // PITCHES  # (K,)


def _phase_after() -> np.ndarray:
    phase = np.full(len(VOCABULARY), AFTER_NOTE)
    phase[TIME_SHIFT.start : TIME_SHIFT.stop] = SHIFTED
    phase[LONG_SHIFT] = WAITING
    phase[END] = ENDED
    return phase  # (V,)


def _shifts_allowed() -> np.ndarray:
    allowed = np.zeros((ENDED + 1, TICKS_PER_BEAT, len(TIME_SHIFT)), dtype=bool)
    on = SHIFT_BEATS > 0
    allowed[AFTER_NOTE] = on | (np.arange(TICKS_PER_BEAT)[:, None] <= SHIFT_TICK)
    allowed[WAITING] = True
    return allowed  # (phase, tick, shift)


PHASE_AFTER = _phase_after()
SHIFTS_ALLOWED = _shifts_allowed()


class GrooveGrammar(Grammar):
    """What may follow, over a batch; after `end` nothing may."""

    def __init__(self, batch: int) -> None:
        """Stand at the start of `batch` sequences, before the begin token."""
        self._phase = np.full(batch, BEFORE)
        self.time_ticks = np.zeros(batch, dtype=np.int64)  # that each row has reached
        self._notes = np.zeros(batch, dtype=np.int64)  # begun so far
        self._sounding = np.zeros(batch, dtype=np.int64)
        # The numbers of the notes that sound on each key, the oldest first, filled up with −1.
        self._ages = np.full((batch, MOST_UNISONS, KEYS), -1)
        self._last_on = np.full(batch, -1)  # rank of the last note-on at this time
        self._last_off = np.full(batch, -1)  # number of the note that ended last at this time

    @property
    def bars(self) -> np.ndarray:
        """How many bars each row has begun: (B,); the first one begins with the piece."""
        return np.where(self._phase == BEFORE, 0, self.time_ticks // BAR_TICKS + 1)

    def allowed(self) -> np.ndarray:
        """Return which tokens may come next: (B, V) bool."""
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
        mask[:, END] = after_note & (self._sounding == 0) & (self._notes > 0)
        return mask  # (B, V)

    def _may_shift(self) -> np.ndarray:
        """Say which shifts may come, but that to where time is: (B, 24)."""
        return SHIFTS_ALLOWED[self._phase, self.time_ticks % TICKS_PER_BEAT]

    def _may_begin(self) -> np.ndarray:
        """Say which keys may still begin a note at this time, after a shift or not: (B, K)."""
        return (self._last_on[:, None] <= RANK) & (self._ages[:, -1] < 0)

    def _may_end(self) -> np.ndarray:
        """Say which keys may still end a note at this time: (B, K)."""
        return self._ages[:, 0] > self._last_off[:, None]

    def advance(self, tokens: np.ndarray) -> None:
        """Take one more token a row: (B,) ids that `allowed` allowed."""
        tokens = np.asarray(tokens, dtype=np.int64)
        self._phase = PHASE_AFTER[tokens]
        for block, step in (
            (NOTE_ON, self._begin_notes),
            (NOTE_OFF, self._end_notes),
            (TIME_SHIFT, self._shift),
        ):
            rows = np.flatnonzero(block.holds(tokens))
            if len(rows):
                step(rows, tokens[rows] - block.start)

    def _begin_notes(self, rows: np.ndarray, keys: np.ndarray) -> None:
        place = (self._ages[rows, :, keys] >= 0).sum(axis=1)
        self._ages[rows, place, keys] = self._notes[rows]
        self._notes[rows] += 1
        self._sounding[rows] += 1
        self._last_on[rows] = RANK[keys]
        self._last_off[rows] = NEVER  # no note-off after a note-on

    def _end_notes(self, rows: np.ndarray, keys: np.ndarray) -> None:
        self._last_off[rows] = self._ages[rows, 0, keys]
        self._ages[rows, :-1, keys] = self._ages[rows, 1:, keys]
        self._ages[rows, -1, keys] = -1
        self._sounding[rows] -= 1

    def _shift(self, rows: np.ndarray, shifts: np.ndarray) -> None:
        before = self.time_ticks[rows]
        time = (before // TICKS_PER_BEAT + SHIFT_BEATS[shifts]) * TICKS_PER_BEAT
        time += SHIFT_TICK[shifts]
        self.time_ticks[rows] = time
        moved = rows[time != before]
        self._last_on[moved] = -1
        self._last_off[moved] = -1


def is_valid(ids: np.ndarray) -> bool:
    """Say whether a sequence, or a prefix of one, says its events as the encoder would."""
    if not len(ids):
        return True
    reading = Reading(ids)
    sounding, events = reading.sounding, reading.events
    if ((sounding < 0) | (sounding > MOST_UNISONS)).any() or (np.diff(events.time_ticks) < 0).any():
        return False
    spelled = spell_events(events.sorted())
    return np.array_equal(ids[: len(spelled)], spelled) and _may_close(reading, len(spelled))


def _may_close(reading: Reading, start: int) -> bool:
    """Say whether what follows the last event, from `start` on, may follow it."""
    rest, on = reading.ids[start:], reading.is_on
    if not len(rest):
        return True
    if rest[0] == END:
        return len(rest) == 1 and len(on) > 0 and 2 * on.sum() == len(on)
    if (rest[:-1] != LONG_SHIFT).any() or not TIME_SHIFT.holds(rest[-1]):
        return False
    before, after = reading.time_ticks[start - 1], reading.time_ticks[-1]
    if after != before or not on[-1]:
        return bool(after >= before)
    # A shift to where time is already needs a note-on that can follow it.
    sounding = np.bincount(reading.key, weights=np.where(on, 1, -1), minlength=KEYS)
    may_follow = RANK[reading.key[-1]] <= RANK
    return bool((sounding[may_follow] < MOST_UNISONS).any())
