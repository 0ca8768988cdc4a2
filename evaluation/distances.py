"""How far the statistics of outputs are from those of real pieces.

The distance of two distributions is Wasserstein's, of first order: the area between their cumulative distributions,
which is by how much, on average, values must move to make one out of the other. It is in the unit of the statistic,
0 for equal samples, and needs no bins and no smoothing. Beside it stands the same in standard deviations of the real
pieces, which lets statistics be compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from evaluation.bootstrap import Estimate, estimate


@dataclass(frozen=True, kw_only=True)
class Distance:
    """A statistic of outputs beside that of real pieces."""

    statistic: str
    outputs: Estimate
    real: Estimate
    wasserstein: float | None  # None where one side has no value
    in_deviations: float | None  # of the real pieces; None where they do not differ

    def plain(self) -> dict[str, object]:
        """Return it as plain data."""
        return asdict(self)


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
    return [
        _distance(name, *(_known(pieces, name) for pieces in (outputs, real))) for name in names
    ]


def _distance(name: str, outputs: list[float | None], real: list[float | None]) -> Distance:
    known = [[value for value in values if value is not None] for values in (outputs, real)]
    apart, spread = wasserstein(*known), estimate(real)
    return Distance(
        statistic=name,
        outputs=estimate(outputs),
        real=spread,
        wasserstein=apart,
        in_deviations=apart / spread.deviation if apart is not None and spread.deviation else None,
    )


def _known(pieces: Sequence[Mapping[str, float | None]], name: str) -> list[float | None]:
    return [piece.get(name) for piece in pieces]
