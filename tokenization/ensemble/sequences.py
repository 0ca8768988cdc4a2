"""Sequences for a model: a piece with its parts in any order, a style and a key, a plan of its bars, and goals.

    begin style? key? tempo? flat? parts  after <bars after the gap> before  (bar left? plan metre? …)* end

Training examples and prompts are built by the same functions. `plain` removes all that they add.

Letters: T tokens, P parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tokenization.analysis.metres import FOUR_FOUR
from tokenization.ensemble.spelling import Reading, Setting, closed, score_of, spell
from tokenization.ensemble.tokens import (
    AFTER,
    BAR,
    BEFORE,
    END,
    EXTRA_START,
    LEFT_1,
    METRE,
    SEAM_1,
)
from tokenization.language import COUNTED, suffix_stop
from tokenization.score import Score, cut_at_next_strike


def plain(ids: np.ndarray) -> np.ndarray:
    """Return a sequence without style, key, plan, goals and the bars after a gap: (T,) int64."""
    ids = np.asarray(ids, dtype=np.int64)
    opens, closes = np.flatnonzero(ids == AFTER), np.flatnonzero(ids == BEFORE)
    if len(opens):
        stop = closes[-1] if len(closes) else len(ids)
        ids = np.concatenate([ids[: opens[0]], ids[stop:]])
    return ids[ids < EXTRA_START]


def decoded(ids: np.ndarray, setting: Setting | None = None) -> Score:
    """Return the score that a valid sequence encodes, without an incomplete event at its end."""
    return cut_at_next_strike(score_of(Reading(closed(plain(ids))).sheet(), setting or Setting()))


def from_bar(ids: np.ndarray, bar: int) -> np.ndarray:
    """Return the plain piece that starts at a bar of another one: (T,)."""
    starts = np.flatnonzero(ids == BAR)
    if not bar:
        return ids
    offset = int(starts[bar])
    metres = ids[:offset][METRE.holds(ids[:offset])]
    rest = ids[offset:]
    names_metre = bool(METRE.holds(rest[1:2]).any())
    metre = rest[1:2] if names_metre else metres[-1:]
    metre = metre[metre != METRE.start + FOUR_FOUR]
    return np.concatenate([ids[: starts[0]], rest[:1], metre, rest[1 + names_metre :]])


def with_parts(
    ids: np.ndarray, order: Sequence[int] | np.ndarray, instruments: np.ndarray | None = None
) -> np.ndarray:
    """Return a plain piece reduced to the parts with these indices, in this order: (T,).

    `instruments`, one for each of them, replace those of the piece.
    """
    sheet, order = Reading(ids).sheet(), np.asarray(order, dtype=np.int64)
    place = np.full(len(sheet.parts), -1)  # −1: dropped
    place[order] = np.arange(len(order))
    part = place[sheet.part]
    columns = (sheet.bar, part, sheet.onset, sheet.length, sheet.loudness, sheet.value)
    events = np.stack(columns)[:, part >= 0]
    bar, part, onset, length, loudness, value = events[:, np.lexsort(events[::-1])]
    parts = sheet.parts[order] if instruments is None else np.asarray(instruments)
    reduced = replace(
        sheet, parts=parts, bar=bar, part=part, onset=onset, length=length, loudness=loudness, value=value
    )  # fmt: skip
    spelled = spell(reduced)
    return spelled if len(ids) and ids[-1] == END else spelled[:-1]


def with_countdown(ids: np.ndarray, bars: int) -> np.ndarray:
    """Return a piece whose last bars, COUNTED at most, count down to its end: (T,)."""
    starts = np.flatnonzero(ids == BAR)[-min(bars, COUNTED) :]
    return np.insert(ids, starts + 1, LEFT_1 + np.arange(len(starts))[::-1])


def gap(ids: np.ndarray, start: int, stop: int) -> np.ndarray:
    """Return an example of filling the gap start … stop − 1 of a piece, which ends with the gap: (T,)."""
    offsets = bar_offsets(ids)
    seams = SEAM_1 + np.arange(stop - start)[::-1]
    piece = np.insert(ids[: offsets[stop]], offsets[start:stop] + 1, seams)
    head = offsets[0]
    return np.concatenate([piece[:head], bars_after_gap(ids, stop), piece[head:], [END]])


def bars_after_gap(ids: np.ndarray, stop: int) -> np.ndarray:
    """Return the bars after a gap that ends before bar `stop`, as a prompt gives them: (T,)."""
    until = suffix_stop(stop)
    offsets = bar_offsets(ids)
    last = min(until, len(offsets) - 1)
    later = from_bar(ids[: offsets[last]], stop)[offsets[0] :] if last > stop else ids[:0]
    return np.concatenate([[AFTER], later, np.full(until - last, BAR), [BEFORE]])


def bar_offsets(ids: np.ndarray) -> np.ndarray:
    """Return the offset of each bar in a piece, and the end of the last one: (bars + 1,)."""
    return np.append(np.flatnonzero(ids == BAR), len(ids) - (len(ids) > 0 and ids[-1] == END))
