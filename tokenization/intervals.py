"""Means of a few runs with different seeds, and their confidence intervals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

CONFIDENCE = 0.95


def mean_interval(values: Sequence[float]) -> tuple[float, float | None]:
    """Return the mean of values and half the width of its 95 % interval (Student's t); the latter is None if n < 2."""
    mean, n = float(np.mean(values)), len(values)
    if n < 2:
        return mean, None
    from scipy.stats import t  # imported here because it takes a second

    error = float(np.std(values, ddof=1)) / float(np.sqrt(n))
    return mean, float(t.ppf((1 + CONFIDENCE) / 2, n - 1)) * error
