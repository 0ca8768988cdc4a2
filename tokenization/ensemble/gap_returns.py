"""Guess which bars elsewhere, earlier or later, the bars of a gap return to, from both sides and from given parts.

A passage as long as the gap is compared by what surrounds it: the bars before it with those before the gap, the bars
after it with those after the gap, and, where some parts are given in the gap, these parts with the passage's.

Letters: E events, K bars, C bars to compare, P parts.
"""

from __future__ import annotations

import numpy as np

from tokenization.ensemble.likeness import contents, likeness
from tokenization.ensemble.plan import NO_LEVEL, Plan, return_levels
from tokenization.ensemble.spelling import Sheet
from tokenization.ensemble.tokens import HARMONY, STEPS_PER_SUBBEAT
from tokenization.language import suffix_stop

SIDE = 4  # bars to compare before and after a gap
FADING = 0.7  # of their weight, by bar
WITHIN = 1.0  # weight of each bar in which parts are given
# Similarity to a bar of the gap, to a bar outside the piece, and of two silent bars, which counts less.
UNKNOWN, OUTSIDE, SILENT = 0.3, 0.1, 0.4
SILENT_WEIGHT = 0.3
LIKELY = 0.5  # the likeness from which a gap returns: it is about the F1 score of the notes of both


def with_returns(
    plan: Plan | None, sheet: Sheet, start: int, stop: int, written: np.ndarray
) -> tuple[Plan, dict[int, int]]:
    """Return a plan in which the bars start … stop − 1 return to what they are likely to be like, and their sources.

    `written`: which parts are not known in these bars, (P,). Sources are as in `Goal.sources`. A plan that has returns
    stays as it is.
    """
    plan = plan or {}
    first, likeness = likeliest(sheet, start, stop, written)
    if "return" in plan or likeness < LIKELY:
        return plan, {}
    bars, ahead = len(sheet.bars), suffix_stop(stop) - stop
    levels = np.full(bars, NO_LEVEL)
    levels[start:stop] = return_levels([start - first] * (stop - start))
    sources = {}
    for bar, source in enumerate(range(first, first + stop - start), start):
        later = source - stop if source < stop + ahead else source - bars
        sources[ahead + bar] = ahead + source if source < start else later
    return {**plan, "return": levels}, sources


def likeliest(sheet: Sheet, start: int, stop: int, written: np.ndarray) -> tuple[int, float]:
    """Return the first bar of the passage that the gap is likeliest to be like, and its likeness, 0 to 1.

    Passages in which the written parts are silent are none.
    """
    bars, size = len(sheet.bars), stop - start
    first = np.arange(bars - size + 1)
    first = first[np.abs(first - start) >= size]
    metre = sheet.bars.metre
    same = [(metre[first + bar] == metre[start + bar]) for bar in range(size)]
    first = first[np.logical_and.reduce(same)] if len(first) else first
    notes = written[sheet.part] & (sheet.instrument != HARMONY)
    noted = np.append(0, np.cumsum(np.bincount(sheet.bar[notes], minlength=bars)))
    first = first[noted[first + size] > noted[first]]
    if not len(first):
        return start, 0.0
    before = np.arange(start - 1, max(start - SIDE, 0) - 1, -1)
    after = np.arange(stop, min(stop + SIDE, bars))
    within = np.arange(start, stop) if (~written).any() else np.zeros(0, np.int64)
    known = np.ones((bars, len(sheet.parts)), dtype=bool)
    known[start:stop, written] = False
    similarity, weight = _similarities(sheet, np.concatenate([before, after, within]), known)
    weights = [FADING ** np.arange(len(before)), FADING ** np.arange(len(after))]
    weights = np.concatenate([*weights, np.full(len(within), WITHIN)])
    rows = np.arange(len(weights))
    place = first[:, None] + np.concatenate([before, after, within]) - start  # (passages, C)
    inside = (place >= 0) & (place < bars)
    at = np.clip(place, 0, bars - 1)
    own = weights * np.where(inside, weight[rows, at], 1)
    likeness = (own * np.where(inside, similarity[rows, at], OUTSIDE)).sum(1)
    likeness /= np.maximum(own.sum(1), 1e-9)
    best = int(np.lexsort((np.abs(first - start), -likeness.round(6)))[0])
    return int(first[best]), float(likeness[best])


def _similarities(
    sheet: Sheet, rows: np.ndarray, known: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the similarity of some bars to every bar, a mean over the parts known in both, and weights: (C, K)."""
    bars = len(sheet.bars)
    content = contents(sheet, STEPS_PER_SUBBEAT)  # performed repeats differ in their timing
    total, count = np.zeros((len(rows), bars)), np.zeros((len(rows), bars))
    both = np.zeros((len(rows), bars), dtype=bool)
    for part in range(len(sheet.parts)):
        own = sheet.part == part
        alike, sizes = likeness(sheet.bar[own], content[own], bars, rows)
        usable = known[rows, part][:, None] & known[:, part]
        both |= usable
        sounds = usable & (sizes > 0)
        total += np.where(sounds, alike, 0)
        count += sounds
    similarity = np.where(count > 0, total / np.maximum(count, 1), np.where(both, SILENT, UNKNOWN))
    return similarity, np.where(count > 0, 1, SILENT_WEIGHT)
