"""The rules of the groove language's one spelling, token by token: what a look at a whole sequence is held to.

They are those by which a model writes, as within a prompt, and the order of events at one time: note-offs come first,
the oldest note first; then the note-ons, by pitch, and within a pitch by track.
"""

import numpy as np

from tokenization.groove.grammar import FAR_TICKS, RANK, GrooveGrammar

NEVER = np.iinfo(np.int64).max


class StrictGrammar(GrooveGrammar):
    """What may follow where music is spelled in the one valid way."""

    def __init__(self) -> None:
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
        self._last_off[rows] = NEVER  # no note-off after a note-on

    def _end_notes(self, rows: np.ndarray, keys: np.ndarray) -> None:
        self._last_off[rows] = self._ages[rows, 0, keys]
        super()._end_notes(rows, keys)

    def _move(self, rows: np.ndarray, ticks: np.ndarray) -> None:
        moved = rows[ticks != self.time_ticks[rows]]
        super()._move(rows, ticks)
        self._last_on[moved] = -1
        self._last_off[moved] = -1
