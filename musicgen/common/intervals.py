"""Means of a few runs with different seeds, and their confidence intervals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

CONFIDENCE = 0.95


def mean_interval(values: Sequence[float]) -> tuple[float, float | None]:
    """Return the mean of values and half the width of its 95 % interval (Student's t); the latter is None if n < 2."""
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return float(np.mean(values)), half_interval(deviation, len(values))


def half_interval(deviation: float | None, n: int) -> float | None:
    """Return half the width of the 95 % interval of the mean of n values, given their standard deviation."""
    if deviation is None:
        return None
    from scipy.stats import t  # imported here because it takes a second

    return float(t.ppf((1 + CONFIDENCE) / 2, n - 1)) * deviation / float(np.sqrt(n))
