"""The results of a benchmark as tables: means with intervals, what needs no model, and what the papers report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evaluation.benchmarks.run import Row
from evaluation.benchmarks.tasks import TASKS
from evaluation.benchmarks.training import STEPS
from tokenization.records import json_of, yaml_of

CONTROL = "none"  # the encoding that all others are measured against
SUMMARY = "benchmark.json"  # of a folder of results: the table, and what is to be known of it
Table = list[list[str]]
ANCHORS = yaml_of(Path(__file__).with_name("anchors.yaml"))
"""By task: paper, what is measured, and rows by the names that they have here."""


def result_table(rows: Sequence[Row], rules: Mapping[str, float]) -> Table:
    """Return a line an encoding, the best first, and below them the accuracy of rules without a model.

    What decides is the accuracy, or the perplexity furthest past the trained length; where a model without an encoding
    is among them, the others are given their change against it, seed by seed.
    """
    measures = next((list(row.values[0]) for row in rows if row.values), [])
    first = "accuracy" if "accuracy" in measures else (measures or [""])[-1]
    control = control_of(rows)
    more = [] if control is None else [f"{_heading(first)}: less none's"]
    lead = ["encoding", "parameters", "n"]
    table = [[*lead, *(_heading(m) for m in measures), *more, "seconds each"]]
    order = sorted((r for r in rows if r.values), key=lambda r: r.mean(first)[0])
    if first == "accuracy":
        order.reverse()
    for row in order:
        cells = [_cell(*row.mean(measure), measure) for measure in measures]
        if control is not None:
            change = _cell(*row.change(control, first), first)
            cells.append("" if row is control else change if change[0] == "-" else f"+{change}")
        table.append(
            [
                row.encoding,
                f"{row.parameters:,}",
                str(len(row.values)),
                *cells,
                f"{row.seconds:.0f}",
            ]
        )
    for name, accuracy in rules.items():
        blank = [""] * (len(measures) - 1 + len(more))
        table.append([name, "0", "", f"{100 * accuracy:.2f}", *blank, ""])
    return table


def control_of(rows: Sequence[Row]) -> Row | None:
    """Return the row that all others are measured against, if it has values."""
    return next((row for row in rows if row.encoding == CONTROL and row.values), None)


def failures(rows: Sequence[Row]) -> list[str]:
    """Return a sentence for each encoding that was not measured."""
    return [f"{row.encoding}: {row.failed}." for row in rows if row.failed]


def table_beside_papers(task: str, rows: Sequence[Row], rules: Mapping[str, float]) -> Table:
    """Return the result with a column a paper; below it what papers report and we did not measure."""
    table = result_table(rows, rules)
    width, papers = len(table[0]), ANCHORS.get(task, [])
    own = {line[0] for line in table[1:]}
    others = dict.fromkeys(name for one in papers for name in one["rows"] if name not in own)
    table += [[name, *[""] * (width - 1)] for name in others]
    for anchor in papers:
        table[0].append(f"{anchor['paper']}: {anchor['what']}")
        for line in table[1:]:
            value = anchor["rows"].get(line[0])
            line.append("" if value is None else f"{value:.2f}")
    return table


def plain(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the results as plain data."""
    return [
        {
            "encoding": row.encoding,
            "parameters": row.parameters,
            "n": len(row.values),
            "seconds": row.seconds,
            "failed": row.failed,
            "values": list(row.values),
            "means": {m: row.mean(m)[0] for m in (row.values[0] if row.values else {})},
            "intervals": {m: row.mean(m)[1] for m in (row.values[0] if row.values else {})},
        }
        for row in rows
    ]


def read_summary(folder: Path) -> dict[str, Any]:
    """Return what a finished benchmark left in its folder; a folder without it is refused."""
    file = folder / SUMMARY
    if not file.is_file():
        raise ValueError(
            f"{folder} holds no {SUMMARY}; `musicgen benchmark … -o {folder}` writes it when it ends"
        )
    found = json_of(file)
    if not isinstance(found, dict) or found.get("task") not in TASKS or "rows" not in found:
        raise ValueError(f"{file} is damaged; `musicgen benchmark` writes it again")
    return found


def from_plain_rows(rows: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Return the results of plain data, as `plain` made it."""
    names = ("encoding", "parameters", "seconds", "failed")
    return [Row(**{n: row[n] for n in names}, values=tuple(row["values"])) for row in rows]


def _heading(measure: str) -> str:
    if measure == "accuracy":
        return "accuracy, %"
    others = {"training_loss": "training loss", STEPS: STEPS}
    return others.get(measure, f"perplexity {measure}")


def _cell(mean: float, half: float | None, measure: str) -> str:
    scale, digits = {"accuracy": (100, 2), STEPS: (1, 0)}.get(measure, (1, 3))
    interval = "" if half is None else f" ± {half * scale:.{digits}f}"
    return f"{mean * scale:.{digits}f}{interval}"
