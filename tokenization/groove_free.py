"""The rules of the groove language to generate by: events of one time come in any order.

The one valid order is strict: behind a note-on nothing at that time may end, and what begins must be higher. A model
that is not sure of it would be pushed, by a mask of that order, into notes that nobody wants. So the order is left to
`Groove.close`, which spells the same music anew.
"""

from __future__ import annotations

import numpy as np

from tokenization.groove_grammar import GrooveGrammar


class FreeGrooveGrammar(GrooveGrammar):
    """What may follow when only the music counts: no note-off for a silent note, no step back in time."""

    def __init__(self, batch: int) -> None:
        """Stand at the start of `batch` sequences, before the begin token."""
        super().__init__(batch)
        self._before = np.zeros(batch, dtype=np.int64)  # notes that had begun before this time

    def _may_begin(self) -> np.ndarray:
        """Say which keys may begin a note: those that sound fewer times than is possible."""
        return self._ages[:, -1] < 0

    def _may_end(self) -> np.ndarray:
        """Say which keys may end a note: those whose oldest began before this time."""
        oldest = self._ages[:, 0]
        return (oldest >= 0) & (oldest < self._before[:, None])

    def _shift(self, rows: np.ndarray, shifts: np.ndarray) -> None:
        before = self._time[rows]
        super()._shift(rows, shifts)
        moved = rows[self._time[rows] != before]
        self._before[moved] = self._notes[moved]
