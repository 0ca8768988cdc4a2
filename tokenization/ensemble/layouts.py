"""How a piece of the ensemble language is laid out for a model: its parts in any order, its plan, its goals.

    begin style? key? tempo? flat? parts  after <bars after the gap> before  (bar left? plan metre? …)* end

All this is drawn for training and given for generation by the same functions; `plain` takes it away again.

Letters: T tokens, K bars, P parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tokenization.analysis.chords import key as likeliest_key
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
from tokenization.language import COUNTED, given_until

# The upper edges of the levels of a plan; the last level has none.
DENSITY_EDGES = np.array([0, 0.75, 1.5, 2.5, 4, 6.5, 11])  # notes a beat, inclusive
REGISTER_EDGES = np.array([48, 53, 57, 61, 65, 69, 73, 77, 82])  # MIDI pitch
LIKE = 0.6  # the share of common notes from which a bar is like another one
NO_LEVEL = -1
Plan = Mapping[str, np.ndarray]  # a level for each bar, or NO_LEVEL, by the name of its family


def plain(ids: np.ndarray) -> np.ndarray:
    """Return a sequence without what is said about the piece, its plan and its goals: (T,) int64."""
    ids = np.asarray(ids, dtype=np.int64)
    opened, closed = np.flatnonzero(ids == AFTER), np.flatnonzero(ids == BEFORE)
    if len(opened):
        stop = closed[-1] if len(closed) else len(ids)
        ids = np.concatenate([ids[: opened[0]], ids[stop:]])
    return ids[ids < EXTRA_START]


def body_start(ids: np.ndarray) -> int:
    """Return where the first bar begins."""
    return int(np.argmax(ids == BAR)) if (ids == BAR).any() else len(ids)


def from_bar(ids: np.ndarray, bar: int) -> np.ndarray:
    """Return a plain piece from a bar on, as it would be spelled if it began there: (T,)."""
    starts = np.flatnonzero(ids == BAR)
    if not bar:
        return ids
    offset = int(starts[bar])
    metres = ids[:offset][METRE.holds(ids[:offset])]
    rest = ids[offset:]
    in_force = metres[-1:] if not METRE.holds(rest[1:2]).any() else rest[1:2]
    in_force = in_force[in_force != METRE.start + FOUR_FOUR]
    skipped = 1 + int(METRE.holds(rest[1:2]).any())
    return np.concatenate([ids[: starts[0]], rest[:1], in_force, rest[skipped:]])


def with_parts(
    ids: np.ndarray, order: Sequence[int] | np.ndarray, instruments: np.ndarray | None = None
) -> np.ndarray:
    """Return a plain piece with only these of its parts, by their index, and in this order: (T,).

    They may be played by other instruments, one for each part in this order.
    """
    reading, order = Reading(ids), np.asarray(order, dtype=np.int64)
    ended = len(ids) and ids[-1] == END
    inside = (reading.bar >= 0) & (ids != END) & ~VOICE.holds(ids)
    rank = np.full(len(reading.parts) + 1, -1)  # of no part: the last entry
    rank[order] = np.arange(1, len(order) + 1)
    rank[-1] = 0
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


def about(ids: np.ndarray, *, style: str | None = None, key: int | None = None) -> np.ndarray:
    """Return a piece that says its style and its key right after its begin token, as far as they are given."""
    said = [] if style is None else [VOCABULARY.id(f"style_{style}")]
    said += [] if key is None else [KEY.start + key]
    return np.insert(ids, 1, np.array(said, dtype=ids.dtype))


def key_of(sheet: Sheet) -> int | None:
    """Return the number of the likeliest key, major before minor; None without pitched notes."""
    pitched = sheet.instrument < PITCHED
    if not pitched.any():
        return None
    return likeliest_key(sheet.value[pitched], LENGTHS[sheet.length[pitched]])


def plan_of(sheet: Sheet) -> dict[str, np.ndarray]:
    """Return the plan that describes each bar of a piece."""
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
    """Return the level of the mean of the highest notes of each bar's onsets."""
    bar, onset, value = sheet.bar[pitched], sheet.onset[pitched], sheet.value[pitched]
    order = np.lexsort((value, onset))
    bar, onset, value = bar[order], onset[order], value[order]
    top = np.diff(onset, append=-1) != 0
    count = np.bincount(bar[top], minlength=bars)
    mean = np.bincount(bar[top], value[top], bars) / np.maximum(count, 1)
    return np.where(count > 0, np.searchsorted(REGISTER_EDGES, mean, side="right"), NO_LEVEL)


def _dynamics(sheet: Sheet, sounds: np.ndarray, notes: np.ndarray) -> np.ndarray:
    """Return the level of the mean velocity of each bar."""
    if sheet.flat:
        return np.full(len(notes), NO_LEVEL)
    velocity = velocity_of(sheet.loudness[sounds])
    mean = np.bincount(sheet.bar[sounds], velocity, len(notes)) / np.maximum(notes, 1)
    level = (mean * len(VOCABULARY["dynamics"]) / 128).astype(np.int64)
    return np.where(notes > 0, level, NO_LEVEL)


def _returns(sheet: Sheet, chosen: np.ndarray) -> np.ndarray:
    """Return which earlier bar each bar is like, as an index into RETURNS: the most alike, the nearest if equal."""
    bars = len(sheet.bars)
    start = (sheet.bars.start * STEPS_PER_SUBBEAT)[sheet.bar[chosen]]
    step, part, value = sheet.onset[chosen] - start, sheet.part[chosen], sheet.value[chosen]
    _, what = np.unique((step * 64 + part) * 256 + value, return_inverse=True)
    holds = np.zeros((bars, int(what.max(initial=0)) + 1), dtype=np.float32)
    holds[sheet.bar[chosen], what] = 1
    size = holds.sum(1)
    common = holds @ holds.T
    likeness = 2 * common / np.maximum(size[:, None] + size, 1)  # Dice's coefficient: (K, K)
    likeness[np.triu_indices(bars)] = 0  # only earlier bars
    back = np.arange(bars)[:, None] - np.arange(bars)
    plain_steps = np.isin(back, [int(step) for step in RETURNS[1:-1]])
    ranked = likeness + 1e-3 * plain_steps - 1e-6 * back  # a distance with a name, then the nearest
    best = ranked.argmax(1)
    rows = np.arange(bars)
    distance = back[rows, best]
    level = np.full(bars, len(RETURNS) - 1)
    for number, step_name in enumerate(RETURNS[1:-1], 1):
        level[distance == int(step_name)] = number
    level[likeness[rows, best] < LIKE] = 0
    return np.where(size > 0, level, NO_LEVEL)


def planned(ids: np.ndarray, plan: Plan, first: int = 0) -> np.ndarray:
    """Return a piece whose bars, all after so many first ones, say their plan after their bar tokens: (T,)."""
    bars = np.flatnonzero(ids == BAR)[first:]
    counted = np.append(ids, END)[bars + 1] >= LEFT_1  # goals stand before the plan
    bars = bars + counted
    at, values = [], []
    for name in PLAN:
        if name in plan:
            level = np.asarray(plan[name])[: len(bars)]
            said = np.flatnonzero(level >= 0)
            at.append(bars[said] + 1)
            values.append(VOCABULARY[name].start + level[said])
    if not at:
        return ids
    return np.insert(ids, np.concatenate(at), np.concatenate(values))


def ending(ids: np.ndarray, bars: int) -> np.ndarray:
    """Return a piece, or the end of one, whose last bars, COUNTED at most, count down to its end: (T,)."""
    starts = np.flatnonzero(ids == BAR)[-min(bars, COUNTED) :]
    return np.insert(ids, starts + 1, LEFT_1 + np.arange(len(starts))[::-1])


def gap(ids: np.ndarray, start: int, stop: int) -> np.ndarray:
    """Return a piece, laid out to have the bars start … stop − 1 written, up to the end of the gap: (T,)."""
    lines = bar_offsets(ids)
    piece = ids[: lines[stop]]
    counted = lines[start:stop]
    piece = np.insert(piece, counted + 1, SEAM_1 + np.arange(stop - start)[::-1])
    head = body_start(ids)
    return np.concatenate([piece[:head], beyond(ids, stop, stop), piece[head:], [END]])


def beyond(ids: np.ndarray, stop: int, bars_before: int) -> np.ndarray:
    """Return the bars of a piece from `stop` on as they are given first, so many bars standing before them: (T,)."""
    until = given_until(stop, bars_before)
    lines = bar_offsets(ids)
    there = min(until, len(lines) - 1)
    later = ids[:0]
    if there > stop:
        later = from_bar(ids[: lines[there]], stop)[body_start(ids) :]
    return np.concatenate([[AFTER], later, np.full(until - there, BAR), [BEFORE]])


def bar_offsets(ids: np.ndarray) -> np.ndarray:
    """Return where each bar starts in the tokens of a piece, and the last one ends: (bars + 1,)."""
    return np.append(np.flatnonzero(ids == BAR), len(ids) - (len(ids) > 0 and ids[-1] == END))
