"""Measures of whole pieces as tables of the report and as rows of a CSV file: form, gaps filled in, accompaniments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evaluation.report.html import table
from evaluation.report.texts import TABLES, filled

Result = Mapping[str, Any]
KINDS = {
    "form": "Form of continuations, and endings",
    "infilling": "Gaps filled in",
    "accompaniment": "Parts written to others",
}
# What stands side by side in a table of each kind, and what it is called there.
SIDES = {
    "form": {"written": "written", "real": "the real piece", "middle": "where nothing ends"},
    "infilling": {
        "written": "written",
        "real": "the real piece",
        "alone": "without the bars after",
    },
    "accompaniment": {
        "written": "written",
        "next": "its next bars",
        "same": "another piece",
        "other": "another style",
    },
}
NONE = "–"


def whole_pieces_table(kind: str, result: Result) -> str:
    """Return a row a model and measure: what was written beside what stands for good and for bad."""
    sides = SIDES[kind]
    rows = [
        [
            model["model"],
            _measure(row),
            *(_value(row.get(side)) for side in sides),
            str(row["written"]["n"]),
        ]
        for model in result["models"]
        for row in model["table"]
    ]
    return table(["model", "measure", *sides.values(), "n"], rows, filled(TABLES[kind]))


def whole_pieces_rows(results: Result) -> list[dict[str, Any]]:
    """Return a row a model, measure and side."""
    return [
        {
            "kind": result["kind"],
            "data": result["data"],
            "model": model["model"],
            "measure": _measure(row),
            "side": side,
            **row[side],
        }
        for result in results.get("whole_pieces", [])
        for model in result["models"]
        for row in model["table"]
        for side in SIDES[result["kind"]]
        if row.get(side) is not None
    ]


def _measure(row: Result) -> str:
    if "part" not in row:
        return row["measure"]
    return f"{row['part']}: {row['metric'].replace('_', '–')}"


def _value(found: Result | None) -> str:
    if found is None or found["mean"] is None:
        return NONE
    between = "" if found["low"] is None else f" [{found['low']:.2f}, {found['high']:.2f}]"
    return f"{found['mean']:.2f}{between}"
