"""Keep drums to their pattern: tokens that would break it become less probable.

Drums repeat themselves after one, two, four or eight bars. Where most hits of the last bars recur at such a period, the
next bar is expected to have the hits of the bar one period before. The returns of a plan cannot do this: they are
returns of whole bars, which differ as soon as the chords do.

A hit is an onset in the bar and a drum, packed into one integer; the hits of a bar are a sorted array of them.
"""

from __future__ import annotations

import numpy as np

from musicgen.recall import BAR, NOTE, ONSET, PART, VALUES, Recollection

PENALTY = 3.0  # nats by which tokens that break the pattern become less probable
PERIODS = (1, 2, 4, 8)  # bars
COMPARED = 8  # last bars that are compared with those one period before
MIN_SHARED = 0.7  # mean fraction of hits that these pairs of bars must share
MARGIN = 0.02  # by which a longer period must exceed the shorter ones
NO_HITS = np.zeros(0, np.int64)


def breaking(sequence: Recollection) -> np.ndarray | None:
    """Return which tokens would break the drums' pattern, (V,) bool, or None outside drums or without a pattern."""
    if sequence.drums < 0 or sequence.current_part() != sequence.drums or not sequence.bars():
        return None
    expected = _expected(sequence)
    if not len(expected):
        return None
    size, (kinds, values) = sequence.kinds.shape[1], sequence.kinds
    ids = sequence.tokens_of(sequence.bars()[-1])
    ids = ids[np.flatnonzero(kinds[ids] == PART)[-1] :]  # of the current part
    kind = kinds[ids]
    onsets = np.flatnonzero(kind == ONSET)
    now = int(values[ids[onsets[-1]]]) if len(onsets) else -1
    here = expected[expected // size == now] % size  # drums expected at this onset
    missing = np.setdiff1d(here, ids[onsets[-1] :]) if len(onsets) else NO_HITS
    later = expected[expected >= (now + 1) * size] // size  # onsets
    broken = np.zeros(size, bool)
    if kind[-1] in (PART, NOTE) and not len(missing):  # the onset is complete
        broken |= (kinds == ONSET) & (values != later[0] if len(later) else True)
        if kind[-1] == NOTE and len(here):
            broken |= (kinds == NOTE) | (kinds >= VALUES)
    if kind[-1] == NOTE and (len(missing) or len(later)):
        broken |= (kinds == PART) | (kinds == BAR)
    if len(missing):
        broken |= kinds == NOTE
        broken[missing] = False
        if kind[-1] == NOTE:
            broken |= kinds == ONSET
    return broken


def _expected(sequence: Recollection) -> np.ndarray:
    """Return the expected hits of the current bar, computed once per bar; empty without a pattern."""
    *past, now = sequence.bars()
    if sequence.expected[0] != now:
        hits = [_hits(sequence, bar) for bar in past[-COMPARED - PERIODS[-1] :]]
        sequence.expected = now, pattern(hits)
    return sequence.expected[1]


def _hits(sequence: Recollection, bar: int) -> np.ndarray:
    """Return the hits of a bar."""
    ids = sequence.tokens_of(bar)
    kind, value = sequence.kinds[:, ids]
    indices = np.arange(len(ids))
    part, onset = (
        np.maximum.accumulate(np.where(kind == one, indices, -1)) for one in (PART, ONSET)
    )
    hit = (kind == NOTE) & (part >= 0) & (onset > part) & (ids[part] == sequence.drums)
    return np.unique(value[onset[hit]] * sequence.kinds.shape[1] + ids[hit])


def pattern(bars: list[np.ndarray]) -> np.ndarray:
    """Return the hits expected after these bars: those of the bar one period before, or none without a period."""
    best, chosen = MIN_SHARED - MARGIN, 0
    for period in PERIODS:
        compared = range(max(period, len(bars) - COMPARED), len(bars))
        pairs = [(bars[bar], bars[bar - period]) for bar in compared]
        shared = [_shared(*pair) for pair in pairs if len(pair[0]) or len(pair[1])]
        if shared and np.mean(shared) > best + MARGIN:
            best, chosen = float(np.mean(shared)), period
    return bars[-chosen] if chosen else NO_HITS


def _shared(hits: np.ndarray, others: np.ndarray) -> float:
    """Return the fraction of all hits of two bars that both have."""
    both = len(np.intersect1d(hits, others, assume_unique=True))
    return both / (len(hits) + len(others) - both)
