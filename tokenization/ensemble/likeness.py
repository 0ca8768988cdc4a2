"""How alike bars are: the Dice coefficient of what begins in them.

Letters: E events, K bars, C bars to compare.
"""

from __future__ import annotations

import numpy as np

from tokenization.ensemble.spelling import Sheet
from tokenization.ensemble.tokens import STEPS_PER_SUBBEAT

MOST_STEPS, VALUES = 1 << 10, 1 << 8  # more than a bar has, and more than all values


def contents(sheet: Sheet, grid: int = 1) -> np.ndarray:
    """Return a number for each event's part, value and place in its bar, rounded to a grid of steps: (E,)."""
    step = sheet.onset - (sheet.bars.start * STEPS_PER_SUBBEAT)[sheet.bar]
    place = (step + grid // 2) // grid
    return (sheet.part * MOST_STEPS + place) * VALUES + sheet.value


def likeness(
    bar: np.ndarray, content: np.ndarray, bars: int, rows: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return how alike some bars, by default all, are with each bar, and how much either pair contains: (C, K) each.

    `bar` and `content` are those of the events that count; twice the same content of a bar counts once.
    """
    kinds, kind = np.unique(content, return_inverse=True)
    contains = np.zeros((bars, max(len(kinds), 1)), dtype=np.float32)
    contains[bar, kind] = 1
    compared = contains if rows is None else contains[rows]
    sizes = compared.sum(1)[:, None] + contains.sum(1)
    return 2 * (compared @ contains.T) / np.maximum(sizes, 1), sizes
