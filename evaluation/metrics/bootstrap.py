"""A mean with its uncertainty: how many values, their spread, and a bootstrap interval."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

RESAMPLES = 10_000
CONFIDENCE = 0.95
AT_ONCE = 1 << 22  # values drawn at once: bounds the memory


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What is known of a mean; None is what too few values do not tell."""

    n: int  # values
    missing: int  # values that there are none of: they are in no mean
    mean: float | None
    deviation: float | None  # of the values, with n − 1
    low: float | None  # the interval of the mean
    high: float | None


def estimate(values: Iterable[float | None], seed: int = 0) -> Estimate:
    """Return the mean of independent values with its 95 % percentile bootstrap interval (Efron 1979)."""
    given = list(values)
    known = np.array([value for value in given if value is not None], dtype=np.float64)
    n, spread = len(known), len(known) > 1
    low, high = _interval(known, seed) if spread else (None, None)
    return Estimate(
        n=n,
        missing=len(given) - n,
        mean=float(known.mean()) if n else None,
        deviation=float(known.std(ddof=1)) if spread else None,
        low=low,
        high=high,
    )


def mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of the values that there are, None for none."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


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
