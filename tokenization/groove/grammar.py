"""The rules of the groove language: those to generate by, and those of the one spelling (`SpellingGrammar`).

The one valid order of events at one time is strict: after a note-on nothing at that time may end, and what begins must
be higher. A model that is not sure of it would be pushed, by a mask of that order, into notes that nobody wants. So the
order is left to `Groove.close`, which spells the same music again.

Four things are not free after a prompt. No note begins in its last bar, which stays as it was written. No two notes
of one key begin together: in the groove data one in a hundred does, and a model that had begun to repeat a note so went
on to eight. And a note ends when it has sounded as long as notes of its track do in the data that the model learned
from. A model that forgets a note-off would otherwise leave the note hanging, and every later one of its key too, since
the first note-off ends the oldest note. A shift past such an end is cut short there (`instead`) and the note-off is all
that may follow. A mask that forbids the shift would push: measured with the first groove model it made a third more
notes. And no more notes of a track sound at once than in any data, or than in the prompt: a model that has begun one
too many finds itself where no training was, and does not come back (two of forty takes of 16 bars after a dense prompt
went on with notes at one time for ten thousand tokens and more).

Letters: B rows of a batch, K = 384 keys, V = 794 tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tokenization.grammar import Grammar
from tokenization.groove.spelling import (
    BAR_TICKS,
    BEATS_OF,
    BEGIN,
    END,
    FARTHEST_BEATS,
    KEYS,
    LONG_SHIFT,
    MOST_UNISONS,
    NOTE_OFF,
    NOTE_ON,
    PITCHES,
    TICK_OF,
    TICKS_PER_BEAT,
    TIME_SHIFT,
    TRACKS,
    VOCABULARY,
    shift_id,
)

BEFORE, AFTER_NOTE, SHIFTED, WAITING, ENDED = range(5)  # phases; waiting is being in a long shift
FAR_TICKS = 1 << 40  # no piece gets there
# The order of note-ons at one time in the one spelling: (K,).
RANK = np.arange(KEYS) % PITCHES * len(TRACKS) + np.arange(KEYS) // PITCHES
# Notes of bass, drums and other at once: the most in 750 pieces of three data sets.
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
    """What may follow when only the music counts: no note-off for a silent note, no step back in time."""

    def __init__(
        self,
        *,
        prompt_tokens: int = 0,
        start_ticks: int = 0,
        longest_ticks: Sequence[int] | None = None,
    ) -> None:
        """Stand at the start of one sequence, before the begin token.

        It begins with `prompt_tokens` of a prompt, to which only the music's own rules apply. After them no note
        begins before `start_ticks`, and none sounds longer than its track's `longest_ticks`.
        """
        self._phase = np.full(1, BEFORE)
        self.time_ticks = np.zeros(1, dtype=np.int64)  # that each row has reached
        self._notes = np.zeros(1, dtype=np.int64)  # begun so far
        self._before = np.zeros(1, dtype=np.int64)  # notes that had begun before this time
        self._sounding = np.zeros((1, len(TRACKS)), dtype=np.int64)  # by track: (B, 3)
        self._most = np.array([MOST_SOUNDING])
        # The numbers of the notes that sound on each key, the oldest first, filled up with −1.
        self._ages = np.full((1, MOST_UNISONS, KEYS), -1)
        # When they must end, in the same order; and the first end of all.
        self._due = np.full((1, MOST_UNISONS, KEYS), FAR_TICKS)
        self._next_due = np.array([FAR_TICKS])
        longest = (FAR_TICKS,) * len(TRACKS) if longest_ticks is None else longest_ticks
        if len(longest) != len(TRACKS) or not 1 <= min(longest) <= max(longest) <= FAR_TICKS:
            raise ValueError(
                f"the longest notes are {[*longest[:9]]}, not a tick or more for each of {', '.join(TRACKS)}"
            )
        self._longest = np.repeat([longest], PITCHES, axis=1)  # (B, K)
        self._prompt = np.array([prompt_tokens])  # tokens of it that are still to come
        self._start = np.array([start_ticks])

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
        mask[:, END] = after_note & ~self._sounding.any(axis=1) & (self._notes > 0)
        return mask  # (B, V)

    def instead(self, tokens: np.ndarray) -> np.ndarray:
        """Return tokens after the prompt; of a shift past the end that a note must have, the part up to there."""
        rows = np.flatnonzero(TIME_SHIFT.holds(tokens) & (self._next_due > self.time_ticks))
        past = _shifted(self.time_ticks[rows], tokens[rows])
        rows = rows[past > self._next_due[rows]]
        if not len(rows):
            return tokens
        due, taken = self._next_due[rows], tokens.copy()
        beats = due // TICKS_PER_BEAT - self.time_ticks[rows] // TICKS_PER_BEAT
        to_due = shift_id(beats, due % TICKS_PER_BEAT)
        taken[rows] = np.where(beats < FARTHEST_BEATS, to_due, LONG_SHIFT)
        return taken

    def advance(self, tokens: np.ndarray) -> None:
        """Take one more token a row: (B,) ids that `allowed` allowed."""
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
        """Say which keys may begin a note: not those that begin now, nor of tracks with all the notes there are."""
        prompt = self._prompt > 0
        late_enough = prompt | (self.time_ticks >= self._start)
        once = prompt[:, None] | (self._ages.max(axis=1) < self._before[:, None])
        room = np.repeat(prompt[:, None] | (self._sounding < self._most), PITCHES, axis=1)
        return (self._ages[:, -1] < 0) & once & room & (late_enough & ~self._must_end())[:, None]

    def _may_end(self) -> np.ndarray:
        """Say which keys may end a note: those whose oldest began before this time, or those that must."""
        oldest = self._ages[:, 0]
        may = (oldest >= 0) & (oldest < self._before[:, None])
        rows = np.flatnonzero(self._must_end())
        may[rows] &= self._due[rows, 0] <= self.time_ticks[rows, None]
        return may

    def _may_shift(self) -> np.ndarray:
        """Say which shifts may come, but that to where time is: none past a note that must end, or to an idle time."""
        may = SHIFTS_ALLOWED[self._phase, self.time_ticks % TICKS_PER_BEAT]
        may = may & ~self._must_end()[:, None]
        idle = (self._prompt == 0) & (self.time_ticks < self._start) & ~self._sounding.any(axis=1)
        rows = np.flatnonzero(idle)
        reached = _shifted(self.time_ticks[rows, None], SHIFT_IDS)
        may[rows] &= (SHIFT_IDS == LONG_SHIFT) | (reached >= self._start[rows, None])
        return may

    def _must_end(self) -> np.ndarray:
        """Say where a note must end now, before anything else: (B,)."""
        return (self._next_due <= self.time_ticks) & (self._prompt == 0)

    def _begin_notes(self, rows: np.ndarray, keys: np.ndarray) -> None:
        place = (self._ages[rows, :, keys] >= 0).sum(axis=1)
        self._ages[rows, place, keys] = self._notes[rows]
        self._notes[rows] += 1
        due = np.maximum(self.time_ticks[rows] + self._longest[rows, keys], self._start[rows])
        older = np.where(place > 0, self._due[rows, place - 1, keys], 0)
        due = np.maximum(due, older)  # a note-off ends the oldest note of a key
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
        """Let rows reach these times."""
        moved = rows[ticks != self.time_ticks[rows]]
        self.time_ticks[rows] = ticks
        self._before[moved] = self._notes[moved]


class SpellingGrammar(GrooveGrammar):
    """The rules of the one valid spelling: those of music in a prompt, and the order of events at one time.

    Note-offs come first, the oldest note first; then the note-ons, by pitch, and within a pitch by track. Every event
    that does not lie on a beat has a shift of its own, to its tick: there is no shift of (0, 0), and the published
    encoder puts one wherever there could be one.
    """

    def __init__(self) -> None:
        """Stand at the start of one sequence, before the begin token."""
        super().__init__(prompt_tokens=FAR_TICKS)
        self._last_on = np.full(1, -1)  # rank of the last note-on at this time
        self._last_off = np.full(1, -1)  # number of the note that ended last at this time

    def _may_begin(self) -> np.ndarray:
        return super()._may_begin() & (self._last_on[:, None] <= RANK)

    def _may_end(self) -> np.ndarray:
        return self._ages[:, 0] > self._last_off[:, None]

    def _begin_notes(self, rows: np.ndarray, keys: np.ndarray) -> None:
        super()._begin_notes(rows, keys)
        self._last_on[rows] = RANK[keys]
        self._last_off[rows] = np.iinfo(np.int64).max  # no note-off after a note-on

    def _end_notes(self, rows: np.ndarray, keys: np.ndarray) -> None:
        self._last_off[rows] = self._ages[rows, 0, keys]
        super()._end_notes(rows, keys)

    def _move(self, rows: np.ndarray, ticks: np.ndarray) -> None:
        moved = rows[ticks != self.time_ticks[rows]]
        super()._move(rows, ticks)
        self._last_on[moved] = -1
        self._last_off[moved] = -1


def _shifted(ticks: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """Return the times after shifts from these."""
    return (ticks // TICKS_PER_BEAT + BEATS_OF[tokens]) * TICKS_PER_BEAT + TICK_OF[tokens]
