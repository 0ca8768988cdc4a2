"""A mean with its uncertainty: how many values, their spread, and a bootstrap interval."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import sqrt

import numpy as np

RESAMPLES = 10_000
CONFIDENCE = 0.95
AT_ONCE = 1 << 22  # values drawn at once: bounds the memory


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Where values lie; None is what too few of them do not tell."""

    n: int  # values
    missing: int  # values that there are none of: they are in no mean
    mean: float | None
    deviation: float | None  # of the values, with n − 1


@dataclass(frozen=True, kw_only=True)
class Estimate(Spread):
    """The same with the interval of the mean."""

    low: float | None
    high: float | None


def spread(values: Iterable[float | None]) -> Spread:
    """Return where the values lie that there are."""
    given = list(values)
    known = _known(given)
    return Spread(
        n=len(known),
        missing=len(given) - len(known),
        mean=float(known.mean()) if len(known) else None,
        deviation=float(known.std(ddof=1)) if len(known) > 1 else None,
    )


def estimate(values: Iterable[float | None], seed: int = 0) -> Estimate:
    """Return the mean of independent values with its 95 % percentile bootstrap interval (Efron 1979)."""
    given = list(values)
    found = spread(given)
    low, high = _interval(_known(given), seed) if found.n > 1 else (None, None)
    return Estimate(**vars(found), low=low, high=high)


def mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of the values that there are, None for none."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def standard_error(deviation: float | None, n: int) -> float | None:
    """Return that of the mean of n values; None where there is no deviation, as of one value."""
    return None if deviation is None else deviation / sqrt(n)


def _known(values: Iterable[float | None]) -> np.ndarray:
    return np.array([value for value in values if value is not None], dtype=np.float64)


def _interval(values: np.ndarray, seed: int) -> tuple[float, float]:
    random = np.random.default_rng(seed)
    step = max(1, AT_ONCE // len(values))
    means = [
        values[random.integers(len(values), size=(min(step, RESAMPLES - i), len(values)))].mean(1)
        for i in range(0, RESAMPLES, step)
    ]
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(np.concatenate(means), (tail, 1 - tail))
    return float(low), float(high)
