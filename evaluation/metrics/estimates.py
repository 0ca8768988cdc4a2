"""A mean with its uncertainty: how many values, their spread, and the 95 % interval of the mean.

It is Student's, which of normal values holds the true mean as often as it says from two of them on; one by resampling
(the percentile bootstrap) of 3 values holds it 73 times in 100, of 6 values 90. A share of things that are so or are
not, values of 0 and 1, has Wilson's (1927), which is as wide as it should be where all are so or none is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from musicgen.common.intervals import CONFIDENCE, half_interval

Row = Mapping[str, Any]


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
    known = np.array([value for value in given if value is not None], dtype=np.float64)
    return Spread(
        n=len(known),
        missing=len(given) - len(known),
        mean=float(known.mean()) if len(known) else None,
        deviation=float(known.std(ddof=1)) if len(known) > 1 else None,
    )


def estimate(values: Iterable[float | None], *, shares: bool = False) -> Estimate:
    """Return the mean of independent values with its 95 % interval; of `shares`, 1 is what is so and 0 what is not.

    The caller says so, since all values of anything, semitones for one, may be 0 or 1 by chance.
    """
    found = spread(values)
    half = half_interval(found.deviation, found.n)
    if found.mean is None or half is None:
        return Estimate(**vars(found), low=None, high=None)
    low, high = found.mean - half, found.mean + half
    if shares:  # Wilson's
        from scipy.stats import binomtest  # takes a second to import

        count = round(found.mean * found.n)
        low, high = binomtest(count, found.n).proportion_ci(CONFIDENCE, method="wilson")
        low, high = float(low), float(high)
    return Estimate(**vars(found), low=low, high=high)


def mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of the values that there are, None for none."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def grouped(rows: Iterable[Row], *columns: str) -> dict[tuple[Any, ...], list[Row]]:
    """Return the rows by what they have in some columns."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[column] for column in columns), []).append(row)
    return groups


def means(rows: Iterable[Row], over: str, value: str) -> list[float | None]:
    """Return the mean of a value in the rows of each group, the groups in the order of what they have in `over`."""
    groups = grouped(rows, over)
    names = sorted(groups, key=lambda group: str(*group))
    return [mean(row.get(value) for row in groups[name]) for name in names]
