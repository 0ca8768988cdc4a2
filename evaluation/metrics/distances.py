"""How far the statistics of outputs are from those of real pieces.

The distance of two distributions is Wasserstein's, of first order: the area between their cumulative distributions,
which is by how much, on average, values must move to make one out of the other. It is in the unit of the statistic,
0 for equal samples, and needs no bins and no smoothing. Beside it stands the same in standard deviations of the real
pieces, which lets statistics be compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evaluation.metrics.estimates import Spread, spread


@dataclass(frozen=True, kw_only=True)
class Distance:
    """A statistic of outputs beside that of real pieces."""

    statistic: str
    outputs: Spread
    real: Spread
    wasserstein: float | None  # None where one side has no value
    in_deviations: float | None  # of the real pieces; None where they do not differ


def wasserstein(a: Sequence[float] | np.ndarray, b: Sequence[float] | np.ndarray) -> float | None:
    """Return the distance of two samples, ∫ |F_a − F_b|; None if one is empty."""
    a, b = np.sort(np.asarray(a, dtype=np.float64)), np.sort(np.asarray(b, dtype=np.float64))
    if not len(a) or not len(b):
        return None
    steps = np.sort(np.concatenate([a, b]))
    shares = [np.searchsorted(x, steps[:-1], "right") / len(x) for x in (a, b)]
    return float(np.abs(shares[0] - shares[1]) @ np.diff(steps))


def distances(
    outputs: Sequence[Mapping[str, float | None]], real: Sequence[Mapping[str, float | None]]
) -> list[Distance]:
    """Compare what `statistics` says of outputs and of real pieces, a statistic a row."""
    names = dict.fromkeys(name for piece in (*outputs, *real) for name in piece)
    return [_distance(name, outputs, real) for name in names]


def _distance(
    name: str,
    outputs: Sequence[Mapping[str, float | None]],
    real: Sequence[Mapping[str, float | None]],
) -> Distance:
    ours, theirs = ([piece.get(name) for piece in pieces] for pieces in (outputs, real))
    spread_of_real = spread(theirs)
    apart = wasserstein(*([x for x in values if x is not None] for values in (ours, theirs)))
    deviation = spread_of_real.deviation
    return Distance(
        statistic=name,
        outputs=spread(ours),
        real=spread_of_real,
        wasserstein=apart,
        in_deviations=apart / deviation if apart is not None and deviation else None,
    )
