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
SAME = 0.75  # the likeness to the notes in the gap from which a passage is no other one


def with_returns(
    plan: Plan | None,
    sheet: Sheet,
    start: int,
    stop: int,
    written: np.ndarray,
    *,
    differs: bool = False,
) -> tuple[Plan, dict[int, int]]:
    """Return a plan in which the bars start … stop − 1 return to what they are likely to be like, and their sources.

    `written`: which parts are not known in these bars, (P,). With `differs`, they return to no passage with the notes
    that are there. Sources are as in `Goal.sources`. A plan that has returns stays as it is.
    """
    plan = plan or {}
    first, likeness = likeliest(sheet, start, stop, written, differs=differs)
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


def likeliest(
    sheet: Sheet, start: int, stop: int, written: np.ndarray, *, differs: bool = False
) -> tuple[int, float]:
    """Return the first bar of the passage that the gap is likeliest to be like, and its likeness, 0 to 1.

    Passages in which the written parts are silent are none, nor, with `differs`, those with the notes of the gap.
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
    if differs:
        first = first[~_same(sheet, notes, start, stop, first)]
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


def _same(sheet: Sheet, notes: np.ndarray, start: int, stop: int, first: np.ndarray) -> np.ndarray:
    """Return whether the passages that begin with the bars `first` have most of the notes of the gap."""
    content, each = contents(sheet, STEPS_PER_SUBBEAT)[notes], np.arange(stop - start)
    alike, sizes = likeness(sheet.bar[notes], content, len(sheet.bars), start + each)
    place = first[:, None] + each
    shared = (alike * sizes).round()[each, place].sum(1)
    return shared >= SAME * np.maximum(sizes[each, place].sum(1), 1)


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
