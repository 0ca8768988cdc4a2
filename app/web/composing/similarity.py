"""How like its prompt a continuation stays: style similarity, as a whole or quarter by quarter."""

from __future__ import annotations

from typing import Any

from evaluation.metrics.style import ALL, METRICS, profiles, quarters, similarities
from tokenization.score import Score

LEAST_BARS = 8  # of new music: with fewer, a quarter is too short to have a style


def likeness(reference: Score, output: Score, bars: int) -> list[dict[str, Any]]:
    """Return the similarity of an output of so many bars to a reference: of its quarters, or of all of it."""
    return by_quarter(reference, output) if bars >= LEAST_BARS else _rows(reference, [output])


def by_quarter(reference: Score, output: Score) -> list[dict[str, Any]]:
    """Return the similarity of each quarter of an output to a reference, a row a metric.

    A value is None where a quarter, or the reference, has nothing to compare.
    """
    return _rows(reference, quarters(output))


def _rows(reference: Score, parts: list[Score]) -> list[dict[str, Any]]:
    if not len(reference.notes):
        return []
    style = profiles(reference, ALL)
    found = [similarities(style, profiles(part, ALL)) for part in parts]
    rows = [
        {"metric": METRICS[metric], "quarters": [part[metric] for part in found]}
        for metric in style
    ]
    return [row for row in rows if any(value is not None for value in row["quarters"])]
