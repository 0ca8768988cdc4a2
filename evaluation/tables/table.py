"""What a table of results is, and how its numbers are written: with their spread, and with n."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evaluation.metrics.estimates import standard_error

Result = Mapping[str, Any]
NONE = "–"


@dataclass(frozen=True, kw_only=True)
class Table:
    """Cells under titles, which may have several lines, and what is to be known of them."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str
    best: Sequence[tuple[int, int]] = ()  # the places (row, column) of what is to stand out


def number(value: float | None) -> str:
    """Return a number with three digits after the point, or with one where it is large."""
    if value is None:
        return NONE
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"


def estimated(row: Result | None) -> str:
    """Return a mean, the interval of it, and over how many."""
    if row is None or row["mean"] is None:
        return NONE
    between = "" if row["low"] is None else f" [{number(row['low'])}, {number(row['high'])}]"
    return f"{number(row['mean'])}{between} ({row['n']})"


def described(row: Result) -> str:
    """Return the mean of values, their deviation, and how many they are."""
    if row["mean"] is None:
        return NONE
    deviation = "" if row["deviation"] is None else f" ± {number(row['deviation'])}"
    return f"{number(row['mean'])}{deviation} ({row['n']})"


def spread(row: Result | None) -> str:
    """Return a mean over pieces, their deviation, and how many they are."""
    if row is None:
        return NONE
    deviation = "" if row["deviation"] is None else f" ± {row['deviation']:.3f}"
    return f"{row['mean']:.3f}{deviation} ({row['pieces']})"


def signed(row: Result | None) -> str:
    """Return a mean change over pieces with its standard error, which one piece does not have."""
    if row is None:
        return NONE
    error = standard_error(row["deviation"], row["pieces"])
    return f"{row['mean']:+.3f}{'' if error is None else f' ± {error:.3f}'}".replace("-", "−")


def with_error(value: float | None, error: float | None) -> str:
    """Return a number and its standard error, if it has one."""
    if value is None:
        return NONE
    return f"{value:.3f}" if error is None else f"{value:.3f} ± {error:.3f}"


def lowest(values: Sequence[float | None], column: int) -> list[tuple[int, int]]:
    """Return the places of the lowest values of a column, as far as three digits tell them apart."""
    shown = [None if value is None else round(value, 3) for value in values]
    least = min((value for value in shown if value is not None), default=None)
    return [(i, column) for i, value in enumerate(shown) if value is not None and value == least]


def named(model: Result) -> dict[str, Any]:
    """Return what a row of a CSV file says of its model."""
    return {
        key: model[key] for key in ("model", "sha256", "encoding", "language", "trained_length")
    }
