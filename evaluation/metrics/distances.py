"""How far the statistics of outputs are from those of real pieces.

The distance of two distributions is Wasserstein's, of first order: the area between their cumulative distributions,
which is by how much, on average, values must move to make one out of the other. It is in the unit of the statistic,
0 for equal samples, and needs no bins and no smoothing. Beside it stands the same in standard deviations of the real
pieces, which lets statistics be compared.

Two samples of the same music are apart too, the farther the fewer they are. Where it is known which pieces belong
together, as those of a style, two more numbers say what a distance is worth:

    floor     how far apart two sets of real pieces are, on average, of as many styles as there are
    low, high its 95 % interval: Student's, by what the distance is without each style in turn (the jackknife)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evaluation.metrics.estimates import Spread, spread
from musicgen.common.intervals import jackknife_half

HALVINGS = 200
Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Distance:
    """A statistic of outputs beside that of real pieces."""

    statistic: str
    outputs: Spread
    real: Spread
    wasserstein: float | None  # None where one side has no value
    in_deviations: float | None  # of the real pieces; None where they do not differ
    groups: int | None = None  # of pieces that belong together, where that is told
    low: float | None = None  # of the interval of `wasserstein`
    high: float | None = None
    floor: float | None = None


def wasserstein(a: Sequence[float] | np.ndarray, b: Sequence[float] | np.ndarray) -> float | None:
    """Return the distance of two samples, ∫ |F_a − F_b|; None if one is empty."""
    a, b = np.sort(np.asarray(a, dtype=np.float64)), np.sort(np.asarray(b, dtype=np.float64))
    if not len(a) or not len(b):
        return None
    steps = np.sort(np.concatenate([a, b]))
    shares = [np.searchsorted(x, steps[:-1], "right") / len(x) for x in (a, b)]
    return float(np.abs(shares[0] - shares[1]) @ np.diff(steps))


def distances(outputs: Rows, real: Rows, by: str | None = None) -> list[Distance]:
    """Compare what `statistics` says of outputs and of real pieces, a statistic a row; `by` names their group."""
    names = dict.fromkeys(name for piece in (*outputs, *real) for name in piece if name != by)
    return [_distance(name, outputs, real, by) for name in names]


def _distance(name: str, outputs: Rows, real: Rows, by: str | None) -> Distance:
    ours, theirs = ([piece.get(name) for piece in pieces] for pieces in (outputs, real))
    spread_of_real = spread(theirs)
    apart = wasserstein(*([x for x in values if x is not None] for values in (ours, theirs)))
    deviation = spread_of_real.deviation
    found = Distance(
        statistic=name,
        outputs=spread(ours),
        real=spread_of_real,
        wasserstein=apart,
        in_deviations=apart / deviation if apart is not None and deviation else None,
    )
    if by is None:
        return found
    of_outputs, of_real = (_grouped(name, pieces, by) for pieces in (outputs, real))
    half = _half_interval(of_outputs, of_real)
    if apart is not None and half is not None:
        found = replace(found, low=max(0.0, apart - half), high=apart + half)
    groups = len({*of_outputs, *of_real})
    return replace(found, groups=groups, floor=floor([*of_real.values()]))


def floor(real: Sequence[Sequence[float]], seed: int = 0) -> float | None:
    """Return how far apart two sets of as many groups of real pieces are on average; None of less than two.

    Two halves of them tell, drawn again and again; they are of fewer groups, and distances of samples of the same music
    fall with the root of how many there are.
    """
    half = len(real) // 2
    if not half:
        return None
    random, found = np.random.default_rng(seed), []
    for _ in range(HALVINGS):
        order = random.permutation(len(real))
        halves = (order[:half], order[half : 2 * half])
        found.append(wasserstein(*(np.concatenate([real[i] for i in own]) for own in halves)))
    return float(np.mean(found) * np.sqrt(half / len(real)))


def _grouped(name: str, pieces: Rows, by: str) -> dict[Any, list[float]]:
    found: dict[Any, list[float]] = {}
    for piece in pieces:
        if piece.get(name) is not None:
            found.setdefault(piece[by], []).append(piece[name])
    return found


def _half_interval(
    outputs: Mapping[Any, Sequence[float]], real: Mapping[Any, Sequence[float]]
) -> float | None:
    """Return how far the distance may be off to either side; None where a group is all that there is."""
    found = []
    for group in {**outputs, **real}:
        left = (
            [x for g, values in side.items() if g != group for x in values]
            for side in (outputs, real)
        )
        apart = wasserstein(*left)
        if apart is None:
            return None
        found.append(apart)
    return jackknife_half(found)
