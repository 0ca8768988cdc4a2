"""Sequences for a model: a piece with its parts in any order, a style and a key, a plan of its bars, and goals.

    begin style? key? tempo? flat? parts  after <bars after the gap> before  (bar left? plan metre? …)* end

Training examples and prompts are built by the same functions. `plain` removes all that they add.

Letters: T tokens, K bars, P parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tokenization.analysis.chords import key as estimated_key
from tokenization.analysis.metres import FOUR_FOUR
from tokenization.ensemble.spelling import Reading, Sheet, declared, voices_of
from tokenization.ensemble.tokens import (
    AFTER,
    BAR,
    BEFORE,
    END,
    EXTRA_START,
    FLAT,
    HARMONY,
    KEY,
    LEFT_1,
    LENGTHS,
    METRE,
    PART,
    PITCHED,
    PLAN,
    RETURNS,
    SEAM_1,
    STEPS_PER_SUBBEAT,
    TEMPO,
    VOCABULARY,
    VOICE,
    velocity_of,
)
from tokenization.language import COUNTED, suffix_stop

# The upper edges of the levels of a plan; the last level has none.
DENSITY_EDGES = np.array([0, 0.75, 1.5, 2.5, 4, 6.5, 11])  # notes per beat, inclusive
REGISTER_EDGES = np.array([48, 53, 57, 61, 65, 69, 73, 77, 82])  # MIDI pitch
SIMILAR = 0.6  # the least similarity at which a bar counts as the return of another one
NO_LEVEL = -1
Plan = Mapping[str, np.ndarray]  # family → the level of each bar, or NO_LEVEL


def plain(ids: np.ndarray) -> np.ndarray:
    """Return a sequence without style, key, plan, goals and the bars after a gap: (T,) int64."""
    ids = np.asarray(ids, dtype=np.int64)
    opened, closed = np.flatnonzero(ids == AFTER), np.flatnonzero(ids == BEFORE)
    if len(opened):
        stop = closed[-1] if len(closed) else len(ids)
        ids = np.concatenate([ids[: opened[0]], ids[stop:]])
    return ids[ids < EXTRA_START]


def body_start(ids: np.ndarray) -> int:
    """Return the offset of the first bar, or the length of a sequence without bars."""
    return int(np.argmax(ids == BAR)) if (ids == BAR).any() else len(ids)


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
    reading, order = Reading(ids), np.asarray(order, dtype=np.int64)
    ended = len(ids) and ids[-1] == END
    inside = (reading.bar >= 0) & (ids != END) & ~VOICE.holds(ids)
    rank = np.full(len(reading.parts) + 1, -1)  # −1: dropped
    rank[order] = np.arange(1, len(order) + 1)
    rank[-1] = 0  # for tokens before the first part of a bar, whose index is −1
    place = rank[reading.part]
    kept = np.flatnonzero(inside & (place >= 0))
    kept = kept[np.lexsort((place[kept], reading.bar[kept]))]
    parts = reading.parts[order] if instruments is None else np.asarray(instruments)
    voices = voices_of(parts)
    body = ids[kept]
    named = np.flatnonzero(PART.holds(body))
    which = place[kept[named]] - 1
    body[named] = PART.start + parts[which]
    voice = voices[which]
    numbered = voice > 1
    body = np.insert(body, named[numbered] + 1, VOICE.start + voice[numbered] - 2)
    head = ids[1:3]
    head = head[TEMPO.holds(head) | (head == FLAT)]
    return np.concatenate([ids[:1], head, declared(parts), body, ids[-1:] if ended else ids[:0]])


def with_style_and_key(
    ids: np.ndarray, *, style: str | None = None, key: int | None = None
) -> np.ndarray:
    """Return a piece with tokens for its style and its key, if given, after the begin token."""
    added = [] if style is None else [VOCABULARY.id(f"style_{style}")]
    added += [] if key is None else [KEY.start + key]
    return np.insert(ids, 1, np.array(added, dtype=ids.dtype))


def key_of(sheet: Sheet) -> int | None:
    """Return the most probable key (0–11 major, 12–23 minor), or None without pitched notes."""
    pitched = sheet.instrument < PITCHED
    if not pitched.any():
        return None
    return estimated_key(sheet.value[pitched], LENGTHS[sheet.length[pitched]])


def plan_of(sheet: Sheet) -> dict[str, np.ndarray]:
    """Return the plan that describes the bars of a piece."""
    bars = len(sheet.bars)
    sounds = sheet.instrument != HARMONY
    pitched = sheet.instrument < PITCHED
    notes = np.bincount(sheet.bar[sounds], minlength=bars)
    beats = sheet.bars.length / 4
    density = np.searchsorted(DENSITY_EDGES, notes / beats, side="left")
    plays = np.unique(sheet.bar[sounds] * (len(sheet.parts) + 1) + sheet.part[sounds])
    players = np.bincount(plays // (len(sheet.parts) + 1), minlength=bars)
    return {
        "return": _returns(sheet, pitched if pitched.any() else sounds),
        "density": density,
        "register": _register(sheet, pitched, bars),
        "dynamics": _dynamics(sheet, sounds, notes),
        "players": np.minimum(players, len(VOCABULARY["players"])) - 1,
    }


def _register(sheet: Sheet, pitched: np.ndarray, bars: int) -> np.ndarray:
    """Return the register level of each bar, from the mean of the highest pitch at each onset."""
    bar, onset, value = sheet.bar[pitched], sheet.onset[pitched], sheet.value[pitched]
    order = np.lexsort((value, onset))
    bar, onset, value = bar[order], onset[order], value[order]
    top = np.diff(onset, append=-1) != 0
    count = np.bincount(bar[top], minlength=bars)
    mean = np.bincount(bar[top], value[top], bars) / np.maximum(count, 1)
    return np.where(count > 0, np.searchsorted(REGISTER_EDGES, mean, side="right"), NO_LEVEL)


def _dynamics(sheet: Sheet, sounds: np.ndarray, notes: np.ndarray) -> np.ndarray:
    """Return the loudness level of each bar, from its mean velocity."""
    if sheet.flat:
        return np.full(len(notes), NO_LEVEL)
    velocity = velocity_of(sheet.loudness[sounds])
    mean = np.bincount(sheet.bar[sounds], velocity, len(notes)) / np.maximum(notes, 1)
    level = (mean * len(VOCABULARY["dynamics"]) / 128).astype(np.int64)
    return np.where(notes > 0, level, NO_LEVEL)


def _returns(sheet: Sheet, chosen: np.ndarray) -> np.ndarray:
    """Return how far back the most similar earlier bar is, for each bar, as an index into RETURNS.

    Of equally similar bars, one at a distance that has a token is preferred, then the nearest.
    """
    bars = len(sheet.bars)
    start = (sheet.bars.start * STEPS_PER_SUBBEAT)[sheet.bar[chosen]]
    step, part, value = sheet.onset[chosen] - start, sheet.part[chosen], sheet.value[chosen]
    _, note = np.unique((step * 64 + part) * 256 + value, return_inverse=True)
    contains = np.zeros((bars, int(note.max(initial=0)) + 1), dtype=np.float32)
    contains[sheet.bar[chosen], note] = 1
    size = contains.sum(1)
    common = contains @ contains.T
    similarity = 2 * common / np.maximum(size[:, None] + size, 1)  # Dice coefficient: (K, K)
    similarity[np.triu_indices(bars)] = 0  # only earlier bars
    back = np.arange(bars)[:, None] - np.arange(bars)
    has_token = np.isin(back, [int(step) for step in RETURNS[1:-1]])
    best = (similarity + 1e-3 * has_token - 1e-6 * back).argmax(1)
    rows = np.arange(bars)
    distance = back[rows, best]
    level = np.full(bars, len(RETURNS) - 1)
    for number, name in enumerate(RETURNS[1:-1], 1):
        level[distance == int(name)] = number
    level[similarity[rows, best] < SIMILAR] = 0
    return np.where(size > 0, level, NO_LEVEL)


def with_plan(ids: np.ndarray, plan: Plan, first: int = 0) -> np.ndarray:
    """Return a piece with the plan of each bar, except the `first` ones, in front of its notes: (T,)."""
    bars = np.flatnonzero(ids == BAR)[first:]
    counted = np.append(ids, END)[bars + 1] >= LEFT_1  # goal tokens come before the plan
    bars = bars + counted
    at, values = [], []
    for name in PLAN:
        if name in plan:
            level = np.asarray(plan[name])[: len(bars)]
            known = np.flatnonzero(level >= 0)
            at.append(bars[known] + 1)
            values.append(VOCABULARY[name].start + level[known])
    if not at:
        return ids
    return np.insert(ids, np.concatenate(at), np.concatenate(values))


def with_countdown(ids: np.ndarray, bars: int) -> np.ndarray:
    """Return a piece whose last bars, COUNTED at most, count down to its end: (T,)."""
    starts = np.flatnonzero(ids == BAR)[-min(bars, COUNTED) :]
    return np.insert(ids, starts + 1, LEFT_1 + np.arange(len(starts))[::-1])


def gap(ids: np.ndarray, start: int, stop: int) -> np.ndarray:
    """Return an example of filling the gap start … stop − 1 of a piece, which ends with the gap: (T,)."""
    offsets = bar_offsets(ids)
    seams = SEAM_1 + np.arange(stop - start)[::-1]
    piece = np.insert(ids[: offsets[stop]], offsets[start:stop] + 1, seams)
    head = body_start(ids)
    return np.concatenate([piece[:head], bars_after_gap(ids, stop), piece[head:], [END]])


def bars_after_gap(ids: np.ndarray, stop: int) -> np.ndarray:
    """Return the bars after a gap that ends before bar `stop`, as a prompt gives them: (T,)."""
    until = suffix_stop(stop)
    offsets = bar_offsets(ids)
    last = min(until, len(offsets) - 1)
    later = ids[:0]
    if last > stop:
        later = from_bar(ids[: offsets[last]], stop)[body_start(ids) :]
    return np.concatenate([[AFTER], later, np.full(until - last, BAR), [BEFORE]])


def bar_offsets(ids: np.ndarray) -> np.ndarray:
    """Return the offset of each bar in a piece, and the end of the last one: (bars + 1,)."""
    return np.append(np.flatnonzero(ids == BAR), len(ids) - (len(ids) > 0 and ids[-1] == END))
