"""Means with their uncertainty: n, standard deviation, and the 95 % interval of the mean.

Intervals are Student's t, whose coverage for normal values is exact from n = 2 on; the percentile bootstrap covers the
mean 73 times in 100 for n = 3 and 90 times for n = 6. Proportions, the means of values 0 and 1, have Wilson's interval
(1927), which has a sensible width even where all values are equal. The interval of a measure ends at its bounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tokenization.intervals import CONFIDENCE, mean_interval

Row = Mapping[str, Any]
Bounds = tuple[float, float]
FRACTION: Bounds = (0.0, 1.0)
CORRELATION: Bounds = (-1.0, 1.0)
FRACTIONS = (
    *("returns", "phrases", "repeats", "loudness", "downbeat"),  # of form
    *("f1", "likeness", "note F1", "onset F1", "notes at once", "notes overlap"),  # of gaps
    *("similarity to the best passage", "similarity to what was there", "return"),
    *("playing parts go on", "silent parts enter", "notes by part"),
    *("onset–duration", "time–pitch", "onset–drum", "copied from the prompt"),  # of style
    *("diversity of samples", "in harmony", "consonant", "unsupported"),
    *("closest passage", "most of it alike", "the same"),
)
# Bounds of the measures that have them, by what follows the last colon of their names.
BOUNDS = dict.fromkeys(FRACTIONS, FRACTION)
BOUNDS_OF_PLANS = dict.fromkeys(("density", "register", "loudness"), CORRELATION)


def bounds_of(kind: str, measure: str) -> Bounds | None:
    """Return the bounds of a measure of a kind of experiment, None if it has none."""
    name = measure.rpartition(": ")[2]
    return (BOUNDS | BOUNDS_OF_PLANS if kind == "plan" else BOUNDS).get(name)


Estimate = dict[str, Any]
"""The mean and deviation (with n − 1) of n values, without the missing ones, and low and high of the 95 % interval."""


def estimate(
    values: Iterable[float | None], *, shares: bool = False, bounds: Bounds | None = None
) -> Estimate:
    """Return the mean of independent values with its 95 % interval, within the `bounds` of the measure.

    `shares` marks values, 0 or 1, of a proportion. The caller must say so, because values of any measure, such as
    semitones, can all be 0 or 1 by chance. What cannot be computed, because there are too few values, is None.
    """
    given = list(values)
    known = [value for value in given if value is not None]
    n = len(known)
    average, half = mean_interval(known) if known else (None, None)
    found: Estimate = {"n": n, "missing": len(given) - n, "mean": average}
    if average is None or half is None:
        return {**found, "deviation": None, "low": None, "high": None}
    low, high = average - half, average + half
    if bounds is not None:
        low, high = max(low, bounds[0]), min(high, bounds[1])
    if shares:
        from scipy.stats import binomtest  # takes a second to import

        low, high = binomtest(round(average * n), n).proportion_ci(CONFIDENCE, method="wilson")
    deviation = float(np.std(known, ddof=1))
    return {**found, "deviation": deviation, "low": float(low), "high": float(high)}


def mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of the values that are not None; None if there are none."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def grouped(rows: Iterable[Row], *columns: str) -> dict[tuple[Any, ...], list[Row]]:
    """Group rows by their values in some columns."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[column] for column in columns), []).append(row)
    return groups


def means(rows: Iterable[Row], over: str, value: str) -> list[float | None]:
    """Return the mean of `value` in each group of rows by the column `over`, in the order of the groups' names."""
    groups = grouped(rows, over)
    names = sorted(groups, key=lambda group: str(*group))
    return [mean(row.get(value) for row in groups[name]) for name in names]
