"""The mean of a few runs from different seeds, with the interval that it lies in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

CONFIDENCE = 0.95


def mean_interval(values: Sequence[float]) -> tuple[float, float | None]:
    """Return the mean of one value or more, and half the width of its 95 % interval (Student's); one has none."""
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return float(np.mean(values)), half_interval(deviation, len(values))


def half_interval(deviation: float | None, n: int) -> float | None:
    """Return half the width of the 95 % interval of the mean of n values; None where they have no deviation."""
    return None if deviation is None else _student(n) * deviation / float(np.sqrt(n))


def jackknife_half(values: Sequence[float]) -> float | None:
    """Return half the width of the 95 % interval of a number, of what it is without each part; one part tells none."""
    n = len(values)
    return _student(n) * float(np.std(values) * np.sqrt(n - 1)) if n > 1 else None


def _student(n: int) -> float:
    """Return how many standard errors to either side hold 95 %, as known from n values."""
    from scipy.stats import t  # takes a second to import

    return float(t.ppf((1 + CONFIDENCE) / 2, n - 1))
