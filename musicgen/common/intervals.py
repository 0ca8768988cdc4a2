"""The mean of a few runs from different seeds, with the interval that it lies in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

CONFIDENCE = 0.95


def mean_interval(values: Sequence[float]) -> tuple[float, float | None]:
    """Return the mean of one value or more, and half the width of its 95 % interval (Student's); one has none."""
    mean = float(np.mean(values))
    if len(values) < 2:
        return mean, None
    from scipy.stats import t  # takes a second to import

    error = np.std(values, ddof=1) / np.sqrt(len(values))
    return mean, float(t.ppf((1 + CONFIDENCE) / 2, len(values) - 1) * error)
