"""Drums keep to a pattern that they have held: what would break it is drawn less often.

Drums repeat their bars after one, two, four or eight of them. Where the last bars have most of their hits in common
with those so many bars before, the next bar is expected to have the hits of the bar that it would repeat. The returns
of a plan do not do this: they are those of whole bars, which differ as soon as the chords do.

A hit is one number, of its place in the bar and its drum; the hits of a bar are an array of them, in order.
"""

from __future__ import annotations

import numpy as np

from musicgen.recall import BAR, NOTE, PART, PLACE, VALUES, Recollection

BROKEN = 3.0  # nats by which a token that breaks the pattern is less likely
PERIODS = (1, 2, 4, 8)  # bars
COMPARED = 8  # last bars, at most, that are compared with those a period before
HELD = 0.7  # of their hits have to be the same on average …
MORE = 0.02  # … and so many more than with a shorter period
NOTHING = np.zeros(0, np.int64)


def breaking(sequence: Recollection) -> np.ndarray | None:
    """Return which tokens would break the pattern of the drums that play now, (V,); None where there is none."""
    if sequence.drums < 0 or sequence.part() != sequence.drums or not sequence.bars():
        return None
    expected = _expected(sequence)
    if not len(expected):
        return None
    size, (kinds, values) = sequence.kinds.shape[1], sequence.kinds
    ids = sequence.said_in(sequence.bars()[-1])
    ids = ids[np.flatnonzero(kinds[ids] == PART)[-1] :]  # of the part that plays now
    kind = kinds[ids]
    places = np.flatnonzero(kind == PLACE)
    now = int(values[ids[places[-1]]]) if len(places) else -1
    here = expected[expected // size == now] % size
    left = np.setdiff1d(here, ids[places[-1] :]) if len(places) else NOTHING
    later = expected[expected >= (now + 1) * size] // size
    broken = np.zeros(size, bool)
    if kind[-1] in (PART, NOTE) and not len(left):  # to the next place, or to the end of the part
        broken |= (kinds == PLACE) & (values != later[0] if len(later) else True)
        if kind[-1] == NOTE and len(here):
            broken |= (kinds == NOTE) | (kinds >= VALUES)
    if kind[-1] == NOTE and (len(left) or len(later)):
        broken |= (kinds == PART) | (kinds == BAR)
    if len(left):
        broken |= kinds == NOTE
        broken[left] = False
        if kind[-1] == NOTE:
            broken |= kinds == PLACE
    return broken


def _expected(sequence: Recollection) -> np.ndarray:
    """Return the hits that the bar which has begun is expected to have; none where no pattern is held."""
    *past, now = sequence.bars()
    if sequence.expected[0] != now:
        hits = [_hits(sequence, bar) for bar in past[-COMPARED - PERIODS[-1] :]]
        sequence.expected = now, pattern(hits)
    return sequence.expected[1]


def _hits(sequence: Recollection, bar: int) -> np.ndarray:
    ids = sequence.said_in(bar)
    kind, value = sequence.kinds[:, ids]
    positions = np.arange(len(ids))
    part, place = (
        np.maximum.accumulate(np.where(kind == one, positions, -1)) for one in (PART, PLACE)
    )
    hit = (kind == NOTE) & (part >= 0) & (place > part) & (ids[part] == sequence.drums)
    return np.unique(value[place[hit]] * sequence.kinds.shape[1] + ids[hit])


def pattern(bars: list[np.ndarray]) -> np.ndarray:
    """Return the hits that are expected after bars of hits: those of the bar a period before, if a period is held."""
    best, chosen = HELD - MORE, 0
    for period in PERIODS:
        compared = range(max(period, len(bars) - COMPARED), len(bars))
        pairs = [(bars[bar], bars[bar - period]) for bar in compared]
        shares = [_common(*pair) for pair in pairs if len(pair[0]) or len(pair[1])]
        if shares and np.mean(shares) > best + MORE:
            best, chosen = float(np.mean(shares)), period
    return bars[-chosen] if chosen else NOTHING


def _common(hits: np.ndarray, others: np.ndarray) -> float:
    both = len(np.intersect1d(hits, others, assume_unique=True))
    return both / (len(hits) + len(others) - both)
