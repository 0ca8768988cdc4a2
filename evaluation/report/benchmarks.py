"""The papers' other experiments in the report: what `musicgen benchmark` found, and the papers' figures beside it."""

from __future__ import annotations

from textwrap import wrap
from typing import Any

from markupsafe import Markup

from evaluation.benchmarks.tables import from_plain_rows, table_beside_papers
from evaluation.report.html import how, says, table
from evaluation.report.texts import HOW
from evaluation.tables.table import Result, Table
from tokenization.wording import counted, filled, sentence

CAPTION = (
    "Means over n seeds with their 95 % interval (Student's), the best first; below them rules that need no model, and "
    "what papers report and was not measured here. Models, data and budgets of the papers are others: their columns "
    "compare within themselves."
)
COLUMN = 14  # letters of a title's line, so that the papers' columns stand on a screen too


def benchmark_content(result: Result) -> Markup:
    """Return the table of one benchmark, its failures, and how it was trained."""
    rows = from_plain_rows(result["rows"])
    head, *lines = table_beside_papers(result["task"], rows, result["rules"])
    titles = ["\n".join(wrap(name, COLUMN)) for name in head]
    refused = [f"{row.encoding}: {row.failed}" for row in rows if row.failed]
    training, seeds = result["training"], max((len(row.values) for row in rows), default=0)
    steps, epochs = training["steps"], training["epochs"]
    length = counted(steps, "step") if steps else f"{epochs} epochs"
    facts = {"length": length, **training, "seeds": seeds, "machine": result["machine"]}
    threads = counted(result["threads"], "thread")
    made = [filled(text, **facts, threads=threads) for text in HOW["benchmark"]]
    return (
        says([sentence(text) for text in refused])
        + table(Table(head=titles, rows=lines, caption=CAPTION))
        + how([result["about"], *map(sentence, result["remarks"]), *made], result["command"])
    )


def benchmark_rows(result: Result) -> list[dict[str, Any]]:
    """Return a row an encoding and measure of one benchmark."""
    return [
        {
            "task": result["task"],
            "encoding": row["encoding"],
            "parameters": row["parameters"],
            "measure": measure,
            "mean": mean,
            "half_interval": row["intervals"][measure],
            "n": row["n"],
            "seconds": row["seconds"],
        }
        for row in result["rows"]
        for measure, mean in row["means"].items()
    ]
