"""From the rows of the groove experiment to its tables: means over styles with intervals, and distances."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from evaluation.continuation.references import REFERENCE_PASSAGES
from evaluation.metrics.distances import distances
from evaluation.metrics.estimates import estimate, mean
from evaluation.metrics.statistics import STATISTICS

Row = dict[str, Any]

SIMILARITY_KEY = ("output", "against", "track", "metric", "quarter")
MEASURES = ("copied_share", "tokens", "beats")


def summary(
    similarities: Iterable[Row], passages: Sequence[Row], diversities: Iterable[Row]
) -> dict[str, list[Row]]:
    """Return the tables; `values` are those of the styles, sorted by their names."""
    return {
        "similarity": by_style(similarities, SIMILARITY_KEY, "similarity"),
        "variety": _variety(passages, diversities),
        "statistics": _statistics(passages),
    }


def by_style(rows: Iterable[Row], key: Sequence[str], value: str) -> list[Row]:
    """Return a row a key, with the mean over styles of a value and its interval.

    What a passage does not have is in no style's mean; a style of which none has it is missing.
    """
    groups: dict[tuple[Any, ...], dict[str, list[float | None]]] = {}
    for row in rows:
        styles = groups.setdefault(tuple(row[name] for name in key), {})
        styles.setdefault(row["style"], []).append(row[value])
    found = []
    for group, styles in groups.items():
        values = [mean(styles[style]) for style in sorted(styles)]
        known = dict(zip(key, group, strict=True))
        found.append({**known, **asdict(estimate(values)), "values": values})
    return found


def _variety(passages: Sequence[Row], diversities: Iterable[Row]) -> list[Row]:
    tables = [(measure, by_style(passages, ["output"], measure)) for measure in MEASURES]
    tables.append(("diversity", by_style(diversities, ["output"], "diversity")))
    return [
        {"output": row.pop("output"), "measure": measure, **row}
        for measure, rows in tables
        for row in rows
    ]


def _statistics(passages: Sequence[Row]) -> list[Row]:
    """Return the distance of each output's statistics from those of the pieces' own continuations.

    Where there is one style, its pieces are what is taken for independent. Pieces of another style are left out: all
    together, they are the same pieces.
    """
    over = "style" if len({passage["style"] for passage in passages}) > 1 else "prompt"
    outputs: dict[str, list[Row]] = {}
    for passage in passages:
        known = {name: passage[name] for name in (over, *STATISTICS)}
        outputs.setdefault(passage["output"], []).append(known)
    real = outputs.pop(REFERENCE_PASSAGES["piece"], [])
    outputs.pop(REFERENCE_PASSAGES["other"], None)
    return [
        {"output": output, "unit": STATISTICS[row.statistic].unit, "over": over, **asdict(row)}
        for output, rows in outputs.items()
        for row in distances(rows, real, over)
    ]
