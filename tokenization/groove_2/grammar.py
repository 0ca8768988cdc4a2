"""The rules of the second groove language: token by token over a batch, and over a whole sequence at once.

The order of events at one time is that of the first one (groove/grammar.py). Places in a bar ascend, and something
happens at each. The last bar has something in it, be it a note that sounds on: so a piece has one number of bars.

Letters: B rows of a batch, T tokens of a sequence, K = 384 keys, V tokens of the vocabulary.
"""

from __future__ import annotations

import numpy as np

from tokenization.groove.grammar import GrooveGrammar
from tokenization.groove.tokens import BAR_TICKS, BEGIN, END, MOST_UNISONS, NOTE_OFF, NOTE_ON
from tokenization.groove_2.spelling import BarReading, spell_bars
from tokenization.groove_2.tokens import AT, BAR, GOAL_START, TICK_OF, VOCABULARY

BEFORE, BEGUN, AFTER_NOTE, MOVED, ENDED = range(5)  # phases; begun is being before the first bar
PLACES = np.arange(1, BAR_TICKS)  # (47,)


def _phase_after() -> np.ndarray:
    phase = np.full(len(VOCABULARY), AFTER_NOTE)
    phase[AT.start : AT.stop] = MOVED
    phase[[BEGIN, END]] = BEGUN, ENDED
    return phase  # (V,)


PHASE_AFTER = _phase_after()


class BarGrammar(GrooveGrammar):
    """What may follow, over a batch; tokens of goals are not allowed, and taken without effect."""

    def __init__(self, batch: int, size: int = len(VOCABULARY)) -> None:
        """Stand at the start of `batch` sequences of a vocabulary's size, before the begin token."""
        super().__init__(batch)
        self._size = size
        self._bars = np.zeros(batch, dtype=np.int64)

    @property
    def bars(self) -> np.ndarray:
        """How many bars each row has begun: (B,)."""
        return self._bars

    def allowed(self) -> np.ndarray:
        """Return which tokens may come next: (B, V) bool."""
        after_note, tick = self._phase == AFTER_NOTE, self.time_ticks % BAR_TICKS
        now, leave = (after_note | (self._phase == MOVED))[:, None], self._may_leave()
        mask = np.zeros((len(tick), self._size), dtype=bool)
        np.logical_and(self._may_begin(), now, out=mask[:, NOTE_ON.start : NOTE_ON.stop])
        np.logical_and(self._may_end(), now, out=mask[:, NOTE_OFF.start : NOTE_OFF.stop])
        mask[:, AT.start : AT.stop] = (after_note & leave)[:, None] & (tick[:, None] < PLACES)
        mask[:, BEGIN] = self._phase == BEFORE
        mask[:, BAR] = (after_note & leave) | (self._phase == BEGUN)
        mask[:, END] = after_note & leave & ((self._sounding > 0) | (tick > 0))
        return mask

    def _may_leave(self) -> np.ndarray:
        """Say which rows may go on in time: (B,)."""
        return np.ones(len(self.time_ticks), dtype=bool)

    def advance(self, tokens: np.ndarray) -> None:
        """Take one more token a row: (B,) ids that `allowed` allowed, or tokens of goals."""
        tokens = np.asarray(tokens, dtype=np.int64)
        self._phase = np.where(tokens < GOAL_START, PHASE_AFTER[tokens], self._phase)
        self._bars = self._bars + (tokens == BAR)
        for block, step in ((NOTE_ON, self._begin_notes), (NOTE_OFF, self._end_notes)):
            rows = np.flatnonzero(block.holds(tokens))
            if len(rows):
                step(rows, tokens[rows] - block.start)
        rows = np.flatnonzero(TICK_OF[tokens] >= 0)
        if len(rows):
            self._shift(rows, (self._bars[rows] - 1) * BAR_TICKS + TICK_OF[tokens[rows]])

    def _shift(self, rows: np.ndarray, shifts: np.ndarray) -> None:
        """Move rows to these times."""
        moved = rows[shifts != self.time_ticks[rows]]
        self.time_ticks[rows] = shifts
        self._last_on[moved] = -1
        self._last_off[moved] = -1


def is_valid(ids: np.ndarray) -> bool:
    """Say whether a sequence, or a prefix of one, says its events as the encoder would."""
    if not len(ids) or ids[0] != BEGIN:
        return not len(ids)
    said = ids[:-1] if len(ids) > 1 and (ids[-1] == END or AT.holds(ids[-1:])[0]) else ids
    reading = BarReading(said)
    sounding, events = reading.sounding, reading.events
    if ((sounding < 0) | (sounding > MOST_UNISONS)).any() or (np.diff(events.time_ticks) < 0).any():
        return False
    spelled = spell_bars(events.sorted(), 0, reading.bars)
    if not np.array_equal(said[1:], spelled):
        return False
    if len(said) == len(ids):
        return True
    tick = int(reading.time_ticks[-1]) % BAR_TICKS
    if ids[-1] != END:
        return reading.bars > 0 and tick < int(TICK_OF[ids[-1]])
    return reading.bars > 0 and (tick > 0 or 2 * int(reading.is_on.sum()) > len(reading.said))
