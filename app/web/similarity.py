"""How like its prompt a continuation stays: style similarity, quarter by quarter."""

from __future__ import annotations

from typing import Any

from evaluation.style import ALL, METRICS, profiles, quarters, similarities
from tokenization.score import Score


def by_quarter(reference: Score, output: Score) -> list[dict[str, Any]]:
    """Return the similarity of each quarter of an output to a reference, a row a metric.

    A value is None where a quarter, or the reference, has nothing to compare.
    """
    if not len(reference.notes):
        return []
    style = profiles(reference, ALL)
    found = [similarities(style, profiles(part, ALL)) for part in quarters(output)]
    rows = [
        {"metric": METRICS[metric], "quarters": [quarter[metric] for quarter in found]}
        for metric in style
    ]
    return [row for row in rows if any(value is not None for value in row["quarters"])]
