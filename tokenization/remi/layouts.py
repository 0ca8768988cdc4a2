"""How a piano piece is laid out for a goal: what is given before what is written, for prompts and for training alike.

So many bars after a gap come first as bring the bars before it to the same place of the period. A countdown stands
right after the bar token, before a metre.
"""

from __future__ import annotations

import numpy as np

from tokenization.goal import COUNTED, LEFT, SEAM, given_until
from tokenization.remi.tokens import BAR, BEGIN, END, METRE, VOCABULARY

LEFT_1, SEAM_1 = VOCABULARY[LEFT].start, VOCABULARY[SEAM].start
AFTER, BEFORE = VOCABULARY.id("after"), VOCABULARY.id("before")
GOAL_START = LEFT_1  # all tokens from here on belong to goals and change nothing


def ending(ids: np.ndarray, bars: int) -> np.ndarray:
    """Return a piece, or the end of one, whose last bars, COUNTED at most, count down to its end: (T,)."""
    starts = np.flatnonzero(ids == BAR)[-min(bars, COUNTED) :]
    return np.insert(ids, starts + 1, LEFT_1 + np.arange(len(starts))[::-1])


def gap(ids: np.ndarray, first: int, start: int, stop: int) -> np.ndarray:
    """Return a piece from its bar `first` on, laid out to have the bars start … stop − 1 written: (T,)."""
    ids = np.asarray(ids, dtype=np.int64)
    lines = bar_offsets(ids)
    piece = from_bar(ids[: lines[stop]], int(lines[first]))
    counted = np.flatnonzero(piece == BAR)[start - first :]
    seams = SEAM_1 + np.arange(stop - start)[::-1]
    return np.concatenate(
        [[BEGIN], beyond(ids, stop, stop - first), np.insert(piece, counted + 1, seams), [END]]
    )


def beyond(ids: np.ndarray, stop: int, bars_before: int) -> np.ndarray:
    """Return the bars of a piece from `stop` on as they are given first, so many bars standing before them: (T,)."""
    until = given_until(stop, bars_before)
    lines = bar_offsets(ids)
    there = min(until, len(lines) - 1)
    later = ids[:0]
    if there > stop:
        later = from_bar(ids[: lines[there]], int(lines[stop]))
    silent = np.full(until - there, BAR)
    return np.concatenate([[AFTER], later, silent, [BEFORE]])


def bar_offsets(ids: np.ndarray) -> np.ndarray:
    """Return where each bar starts in the tokens of a piece, and the last one ends: (bars + 1,)."""
    return np.append(np.flatnonzero(ids == BAR), len(ids) - (len(ids) > 0 and ids[-1] == END))


def from_bar(ids: np.ndarray, offset: int) -> np.ndarray:
    """Return a piece's ids from a bar on, as they would be spelled if it began there, without a begin token."""
    rest = ids[offset:]
    named = METRE.holds(rest[1:2]).any()
    metre = rest[1:2] if named else ids[:offset][METRE.holds(ids[:offset])][-1:]
    metre = metre[metre != METRE.start]  # 4/4 need not be said
    return np.concatenate([rest[:1], metre, rest[1 + int(named) :]])


def plain(ids: np.ndarray) -> np.ndarray:
    """Return a sequence without what a goal added to it: countdowns, and bars that were given beforehand."""
    ids = np.asarray(ids, dtype=np.int64)
    given = np.flatnonzero(ids == BEFORE)
    if len(given):
        ids = np.concatenate([ids[:1], ids[given[-1] + 1 :]])
    return ids[ids < GOAL_START]
