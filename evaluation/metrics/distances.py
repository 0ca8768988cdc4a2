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


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Where the values of a statistic lie; None is what too few of them do not tell."""

    n: int
    missing: int  # pieces that do not have this statistic: they are in no mean
    mean: float | None
    deviation: float | None  # with n − 1


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
    ours, theirs = _known(outputs, name), _known(real, name)
    apart, spread = wasserstein(ours, theirs), _spread(theirs, len(real))
    return Distance(
        statistic=name,
        outputs=_spread(ours, len(outputs)),
        real=spread,
        wasserstein=apart,
        in_deviations=apart / spread.deviation if apart is not None and spread.deviation else None,
    )


def _known(pieces: Sequence[Mapping[str, float | None]], name: str) -> np.ndarray:
    return np.array([piece[name] for piece in pieces if piece.get(name) is not None], dtype=float)


def _spread(known: np.ndarray, pieces: int) -> Spread:
    return Spread(
        n=len(known),
        missing=pieces - len(known),
        mean=float(known.mean()) if len(known) else None,
        deviation=float(known.std(ddof=1)) if len(known) > 1 else None,
    )
