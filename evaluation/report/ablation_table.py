"""What models rely on, as a table of the report and as rows of a CSV file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evaluation.report.html import table
from evaluation.report.texts import TABLES, filled

Result = Mapping[str, Any]
NONE = "–"


def ablation_table(result: Result) -> str:
    """Return by how much the loss changes without each part of each model."""
    rows = [
        [
            row["model"],
            row["part"],
            *(_change(row[part], *row["interval"][part]) for part in ("within", "past")),
            str(row["pieces"]["within"]),
        ]
        for row in result["models"]
    ]
    head = ["model", "without", "within the trained length", "past it", "pieces"]
    return table(head, rows, filled(TABLES["ablation"]))


def _change(mean: float | None, low: float | None, high: float | None) -> str:
    if mean is None:
        return NONE
    return f"{mean:+.4f}" + ("" if low is None else f" [{low:+.4f}, {high:+.4f}]")


def ablation_rows(results: Result) -> list[dict[str, Any]]:
    """Return a row a model and part that was taken away."""
    weights = {model["label"]: model["sha256"] for model in results["models"]}
    rows = []
    for result in results.get("ablation", []):
        for one in result["models"]:
            row: dict[str, Any] = {
                "model": one["model"],
                "sha256": weights.get(one["model"]),
                "part": one["part"],
            }
            for place in ("within", "past"):
                low, high = one["interval"][place]
                row |= {place: one[place], f"{place}_low": low, f"{place}_high": high}
                row[f"{place}_n"] = one["pieces"][place]
            rows.append(row)
    return rows
