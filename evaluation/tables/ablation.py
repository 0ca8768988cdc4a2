"""The table of what models rely on: by how much the loss changes without each part of them."""

from __future__ import annotations

from typing import Any

from evaluation.tables.table import NONE, Result, Table

CAPTION = "Change of the loss in nats a token, mean [95 % interval] over pieces."


def ablation_table(result: Result) -> Table:
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
    return Table(head=head, rows=rows, caption=CAPTION)


def _change(mean: float | None, low: float | None, high: float | None) -> str:
    if mean is None:
        return NONE
    return f"{mean:+.4f}" + ("" if low is None else f" [{low:+.4f}, {high:+.4f}]")


def ablation_rows(result: Result) -> list[dict[str, Any]]:
    """Return a row a model and part that was taken away, for a CSV file."""
    rows = []
    for one in result["models"]:
        row: dict[str, Any] = {"model": one["model"], "part": one["part"]}
        for place in ("within", "past"):
            low, high = one["interval"][place]
            row |= {place: one[place], f"{place}_low": low, f"{place}_high": high}
            row[f"{place}_n"] = one["pieces"][place]
        rows.append(row)
    return rows
