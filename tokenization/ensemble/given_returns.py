"""Which bars of given parts return to earlier ones: by their notes and chords, in phrases rather than bar by bar.

K bars.
"""

from __future__ import annotations

import numpy as np

from tokenization.ensemble.likeness import contents, likeness
from tokenization.ensemble.spelling import Sheet
from tokenization.ensemble.tokens import BARS_BACK, HARMONY, STEPS_PER_SUBBEAT

LEAST_ALIKE = 0.6  # similarity above which a bar counts for a return
BREAK = 0.5  # what a phrase that returns has to gain: two equal bars in a row are enough
PREFERRED = 0.01  # what a bar gains whose distance the plan can name
MOST_BARS = 1024  # whose returns are sought; the cost grows with their square


def returns_of(sheet: Sheet) -> np.ndarray:
    """Return how many bars back each bar's source is, or 0: (K,).

    The sources are those for which the similarities above LEAST_ALIKE, summed over all bars, minus BREAK wherever the
    source of the next bar is not the next one, are greatest.
    """
    bars = min(len(sheet.bars), MOST_BARS)
    back = np.arange(bars)[:, None] - np.arange(bars)
    gain = _similarity(sheet, bars) - LEAST_ALIKE
    gain += PREFERRED * np.isin(back, BARS_BACK)
    # The best sum up to each bar if its source is each earlier bar, and without one in the last column: (K, K + 1).
    best = np.full((bars, bars + 1), -np.inf)
    came = np.zeros((bars, bars + 1), dtype=np.int64)  # the column of the bar before
    for bar in range(bars):
        last = best[bar - 1] if bar else np.append(np.full(bars, -np.inf), 0)
        any_before = int(last.argmax()) if bar else bars
        begun = last[any_before] - BREAK
        goes_on = np.append(-np.inf, last[: bar - 1] if bar else [])[:bar]
        came[bar, :bar] = np.where(goes_on >= begun, np.arange(bar) - 1, any_before)
        best[bar, :bar] = np.maximum(goes_on, begun) + gain[bar, :bar]
        best[bar, bars], came[bar, bars] = last[any_before], any_before
    found = np.zeros(len(sheet.bars), dtype=np.int64)
    column = int(best[-1].argmax()) if bars else 0
    for bar in reversed(range(bars)):
        found[bar] = bar - column if column < bars else 0
        column = int(came[bar, column])
    return found


def _similarity(sheet: Sheet, bars: int) -> np.ndarray:
    """Return the similarity of each two bars of one metre, 0 to 1, where they have anything to compare: (K, K).

    It is the mean of that of the notes (Dice coefficient) and that of the chords, of those that there are.
    """
    inside = sheet.bar < bars
    harmony = sheet.instrument == HARMONY
    content = contents(sheet, STEPS_PER_SUBBEAT)  # performed repeats differ in their timing
    total, parts = np.zeros((bars, bars)), np.zeros((bars, bars))
    for chosen in (inside & ~harmony, inside & harmony):
        alike, sizes = likeness(sheet.bar[chosen], content[chosen], bars)
        total += alike
        parts += sizes > 0
    metre = sheet.bars.metre[:bars]
    same = (metre[:, None] == metre) & (parts > 0)
    return np.where(same, total / np.maximum(parts, 1), 0)
