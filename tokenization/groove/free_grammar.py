"""The rules of the groove language to generate by: what counts is the music, not the one way to spell it.

The one valid order of events at one time is strict: after a note-on nothing at that time may end, and what begins
must be higher. A model that is not sure of it would be pushed, by a mask of that order, into notes that nobody wants.
So the order is left to `Groove.close`, which spells the same music anew.

Four things are not free after a prompt. No note begins in its last bar, which stays as it was written. No two notes
of one key begin together: in the groove data one in a hundred does, and a model that had begun to repeat a note so went
on to eight. And a note ends when it has sounded as long as notes of its track do in the data that the model learned
from. A model that forgets a note-off would otherwise leave the note hanging, and every later one of its key too, since
the first note-off ends the oldest note. A shift past such an end is cut short there (`instead`) and the note-off is all
that may follow. A mask that forbids the shift would push: measured with the first groove model it made a third more
notes. And no more notes of a track sound at once than in any data, or than in the prompt: a model that has begun one
too many finds itself where no training was, and does not come back (two of forty takes of 16 bars after a dense prompt
went on with notes at one time for ten thousand tokens and more).

What is written to other parts has no prompt to say how long its notes are, and what no data exceeds is bars: one missed
note-off is a drone. There a part says it itself (`own_lengths`): a note lasts no longer than a beat, or than twice what
three of four of the part's last notes kept to that ended by themselves. Of real parts of the groove data that cuts one
note in eighty to two hundred, and a fiftieth of their sounding time.
"""

from __future__ import annotations

import numpy as np

from tokenization.groove.grammar import GrooveGrammar
from tokenization.groove.tokens import (
    FARTHEST_BEATS,
    KEYS,
    LONG_SHIFT,
    MOST_UNISONS,
    PITCHES,
    SHIFT_BEATS,
    SHIFT_TICK,
    TICKS_PER_BEAT,
    TIME_SHIFT,
    TRACKS,
    shift_id,
)

FAR_TICKS = 1 << 40  # no piece gets there
# Notes of bass, drums and other at once: the most in 750 pieces of three data sets.
MOST_SOUNDING = (2, 6, 10)
LAST_NOTES, FEWEST_NOTES = 32, 4  # of a part, that say how long its notes last
_IS_LONG = np.arange(TIME_SHIFT.start, TIME_SHIFT.stop) == LONG_SHIFT  # (24,)


class FreeGrooveGrammar(GrooveGrammar):
    """What may follow when only the music counts: no note-off for a silent note, no step back in time."""

    def __init__(
        self,
        *,
        prompt_tokens: int,
        start_ticks: int,
        longest_ticks: tuple[int, ...] | None,
        own_lengths: bool = False,
    ) -> None:
        """Stand at the start of one sequence, before the begin token.

        It begins with `prompt_tokens` of a prompt, to which only the music's own rules apply. After them no note
        begins before `start_ticks`, and none sounds longer than its track's `longest_ticks`, which its
        `own_lengths` may shorten.
        """
        super().__init__(1)
        longest = (FAR_TICKS,) * len(TRACKS) if longest_ticks is None else longest_ticks
        self._longest = np.repeat([longest], PITCHES, axis=1)  # (B, K)
        self._prompt = np.array([prompt_tokens])  # tokens of it that are still to come
        self._start = np.array([start_ticks])
        self._before = np.zeros(1, dtype=np.int64)  # notes that had begun before this time
        # When the notes that sound on each key must end, in the order of `_ages`; and the first of all.
        self._due = np.full((1, MOST_UNISONS, KEYS), FAR_TICKS)
        self._next_due = np.array([FAR_TICKS])
        self._sounding_of = np.zeros((1, len(TRACKS)), dtype=np.int64)  # by track: (B, 3)
        self._most = np.array([MOST_SOUNDING])
        self._own_lengths = own_lengths
        self._began = np.zeros((1, MOST_UNISONS, KEYS), dtype=np.int64)  # in the order of `_ages`
        self._lengths = np.zeros((1, len(TRACKS), LAST_NOTES), dtype=np.int64)  # by track, in turn
        # How many notes of each track have ended by themselves, and how long notes last by these: (B, 3) each.
        self._ended = np.zeros((1, len(TRACKS)), dtype=np.int64)
        self._usual = np.full((1, len(TRACKS)), FAR_TICKS)

    def instead(self, tokens: np.ndarray) -> np.ndarray:
        """Return tokens after the prompt; of a shift past the end that a note must have, the part up to there."""
        rows = np.flatnonzero(TIME_SHIFT.holds(tokens) & (self._next_due > self.time_ticks))
        past = self._reached(rows)[np.arange(len(rows)), tokens[rows] - TIME_SHIFT.start]
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
        super().advance(tokens)
        self._prompt = np.maximum(self._prompt - 1, 0)

    def _may_begin(self) -> np.ndarray:
        """Say which keys may begin a note: not those that begin now, nor of tracks with all the notes there are."""
        prompt = self._prompt > 0
        late_enough = prompt | (self.time_ticks >= self._start)
        once = prompt[:, None] | (self._ages.max(axis=1) < self._before[:, None])
        room = np.repeat(prompt[:, None] | (self._sounding_of < self._most), PITCHES, axis=1)
        return (self._ages[:, -1] < 0) & once & room & (late_enough & ~self._must_end())[:, None]

    def _may_end(self) -> np.ndarray:
        """Say which keys may end a note: those whose oldest began before this time, or those that must."""
        oldest = self._ages[:, 0]
        may = (oldest >= 0) & (oldest < self._before[:, None])
        rows = np.flatnonzero(self._must_end())
        may[rows] &= self._due[rows, 0] <= self.time_ticks[rows, None]
        return may

    def _may_shift(self) -> np.ndarray:
        """Say which shifts may come: none past a note that must end, none to where nothing can happen."""
        may = super()._may_shift() & ~self._must_end()[:, None]
        idle = (self._prompt == 0) & (self.time_ticks < self._start) & (self._sounding == 0)
        rows = np.flatnonzero(idle)
        may[rows] &= _IS_LONG | (self._reached(rows) >= self._start[rows, None])
        return may

    def _must_end(self) -> np.ndarray:
        """Say where a note must end now, before anything else: (B,)."""
        return (self._next_due <= self.time_ticks) & (self._prompt == 0)

    def _reached(self, rows: np.ndarray) -> np.ndarray:
        """Return the time after each shift: (rows, 24)."""
        beats = self.time_ticks[rows, None] // TICKS_PER_BEAT + SHIFT_BEATS
        return beats * TICKS_PER_BEAT + SHIFT_TICK

    def _begin_notes(self, rows: np.ndarray, keys: np.ndarray) -> None:
        place = (self._ages[rows, :, keys] >= 0).sum(axis=1)
        super()._begin_notes(rows, keys)
        longest, usual = self._longest[rows, keys], self._usual[rows, keys // PITCHES]
        longest = np.where(longest < FAR_TICKS, np.minimum(longest, usual), longest)
        due = np.maximum(self.time_ticks[rows] + longest, self._start[rows])
        older = np.where(place > 0, self._due[rows, place - 1, keys], 0)
        due = np.maximum(due, older)  # a note-off ends the oldest note of a key
        self._began[rows, place, keys] = self.time_ticks[rows]
        self._due[rows, place, keys] = due
        self._next_due[rows] = np.minimum(self._next_due[rows], due)
        self._sounding_of[rows, keys // PITCHES] += 1
        as_given = rows[self._prompt[rows] > 0]
        self._most[as_given] = np.maximum(self._most[as_given], self._sounding_of[as_given])

    def _end_notes(self, rows: np.ndarray, keys: np.ndarray) -> None:
        super()._end_notes(rows, keys)
        if self._own_lengths:
            by_themselves = np.flatnonzero(self._due[rows, 0, keys] > self.time_ticks[rows])
            for row, key in zip(rows[by_themselves], keys[by_themselves], strict=True):
                self._take_length(
                    row, key // PITCHES, self.time_ticks[row] - self._began[row, 0, key]
                )
        self._began[rows, :-1, keys] = self._began[rows, 1:, keys]
        self._due[rows, :-1, keys] = self._due[rows, 1:, keys]
        self._due[rows, -1, keys] = FAR_TICKS
        self._next_due[rows] = self._due[rows, 0].min(axis=1)
        self._sounding_of[rows, keys // PITCHES] -= 1

    def _take_length(self, row: int, track: int, ticks: int) -> None:
        """Learn from a note that ended by itself how long those of its track last."""
        ended = self._ended[row, track]
        self._lengths[row, track, ended % LAST_NOTES] = ticks
        self._ended[row, track] = ended = ended + 1
        if ended >= FEWEST_NOTES:
            known = np.sort(self._lengths[row, track, :ended])
            self._usual[row, track] = max(TICKS_PER_BEAT, 2 * known[3 * (len(known) - 1) // 4])

    def _shift(self, rows: np.ndarray, shifts: np.ndarray) -> None:
        before = self.time_ticks[rows]
        super()._shift(rows, shifts)
        moved = rows[self.time_ticks[rows] != before]
        self._before[moved] = self._notes[moved]
