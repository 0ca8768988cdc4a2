"""The tables of continuations: how like their prompts they are, how much they vary, and their statistics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from evaluation.continuation.plot import AGAINST, TOGETHER
from evaluation.metrics.statistics import STATISTICS
from evaluation.metrics.style import METRICS
from evaluation.tables.table import NONE, Result, Table, described, estimated, number
from tokenization.wording import filled

QUARTERS = {None: "whole", 1: "1st quarter", 2: "2nd", 3: "3rd", 4: "4th"}
VARIETY = {
    "copied_share": "copied from the prompt",
    "diversity": "diversity of samples",
    "tokens": "tokens",
    "beats": "beats",
}
OVER = {"style": "styles", "prompt": "pieces"}
STATISTICS_CAPTION = """Music statistics: mean ± deviation (n). Apart: the Wasserstein distance from the real pieces'
    distribution, in the unit of the statistic, with its 95 % interval over {over}; of the real pieces, what two sets of
    as many {over} of them would be apart, told by halves."""


def similarity_tables(result: Result, against: str) -> Iterator[Table]:
    """Yield a table a metric that any output has: outputs down, quarters across."""
    for metric, title in METRICS.items():
        lines: dict[str, dict[Any, str]] = {}
        for row in result["similarity"]:
            if (row["against"], row["metric"]) == (against, metric) and row["track"] in TOGETHER:
                lines.setdefault(row["output"], {})[row["quarter"]] = estimated(row)
        if any(cell != NONE for line in lines.values() for cell in line.values()):
            yield Table(
                head=["output", *QUARTERS.values()],
                rows=[[name, *(x.get(q, NONE) for q in QUARTERS)] for name, x in lines.items()],
                caption=f"{title} {AGAINST[against]}: mean [95 % interval] over styles (n).",
            )


def variety_table(result: Result) -> Table:
    """Return what similarity hides."""
    lines: dict[str, dict[str, str]] = {}
    for row in result["variety"]:
        lines.setdefault(row["output"], {})[row["measure"]] = estimated(row)
    return Table(
        head=["output", *VARIETY.values()],
        rows=[[name, *(x.get(m, NONE) for m in VARIETY)] for name, x in lines.items()],
        caption="What similarity hides: mean [95 % interval] over styles (n).",
    )


def statistics_table(result: Result) -> Table:
    """Return a row a statistic: the real pieces' and how far these are apart, then each output's and its distance."""
    outputs = list(dict.fromkeys(row["output"] for row in result["statistics"]))
    known = {(row["output"], row["statistic"]): row for row in result["statistics"]}
    rows, over = [], "style"
    for name, statistic in STATISTICS.items():
        of_outputs = [known[one, name] for one in outputs]
        if not of_outputs:
            continue
        unit = f" ({statistic.unit})" if statistic.unit else ""
        cells = [cell for row in of_outputs for cell in _of_output(row)]
        real, floor, over = (of_outputs[0][key] for key in ("real", "floor", "over"))
        rows.append([statistic.title + unit, described(real), number(floor), *cells])
    titles = [title for one in outputs for title in (one, "apart")]
    return Table(
        head=["statistic", "the piece itself", "apart", *titles],
        rows=rows,
        caption=filled(STATISTICS_CAPTION, over=OVER[over]),
    )


def _of_output(row: Result) -> tuple[str, str]:
    """Return what an output has of a statistic, and its distance."""
    between = "" if row["low"] is None else f" [{number(row['low'])}, {number(row['high'])}]"
    return described(row["outputs"]), number(row["wasserstein"]) + between
