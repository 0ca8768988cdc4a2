"""The rules of a gap in a piano piece: its bars keep their metres, and its notes end before a given one is struck."""

from __future__ import annotations

import numpy as np

from tokenization.remi.grammar import AFTER_BAR, AFTER_METRE, AFTER_VOLUME, KIND, RemiGrammar
from tokenization.remi.tokens import DURATION_IDS, METRE, TICKS_OF

FAR_TICKS = np.iinfo(np.int64).max // 2


class GapGrammar(RemiGrammar):
    """What may follow in a gap that begins with bar `start`; before it, what may in any piece."""

    def __init__(self, start: int, metres: np.ndarray, free_until: np.ndarray) -> None:
        """Take the metre of each bar of the gap, and the tick at which each key is struck after it: (88,)."""
        super().__init__()
        self._start = np.full(1, start)
        self._metres = metres[None]
        self._free_until = free_until[None]

    def allowed(self) -> np.ndarray:
        """Return which tokens may come next: (B, V) bool."""
        mask = super().allowed()
        bar = self._bars - 1 - self._start
        kind = self.kind
        for row in np.flatnonzero((bar >= 0) & np.isin(kind, (AFTER_BAR, AFTER_VOLUME))):
            if kind[row] == AFTER_VOLUME:
                room = self._free_until[row, self._key[row]] - self._now()[row]
                mask[row, DURATION_IDS] &= TICKS_OF[DURATION_IDS] <= room
            elif bar[row] < self._metres.shape[1]:
                metre = self._metres[row, bar[row]]
                if metre == self._metre[row]:
                    mask[row] &= KIND != AFTER_METRE
                else:
                    mask[row] = False
                    mask[row, METRE.start + metre] = True
        return mask
