"""The figure and the tables of the groove experiment: how similar continuations are to their prompts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import nan
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from evaluation.figures import FAINT, figure, legend, series
from evaluation.metrics.statistics import STATISTICS
from evaluation.metrics.style import METRICS, QUARTERS
from evaluation.tables import NONE, Result, Table, with_interval

AGAINST = {"prompt": "similarity to the prompt", "piece": "similarity to the whole piece"}
REFERENCE_DASHES = (":", "-", "--")
APART = 0.08  # of the models' marks, in quarters
QUARTER_NAMES = {None: "whole", 1: "1st quarter", 2: "2nd", 3: "3rd", 4: "4th"}
MEASURES = {
    "copied_share": "copied from the prompt",
    "diversity": "diversity of samples",
    "tokens": "tokens",
    "beats": "beats",
    **{
        name: one.title + (f" ({one.unit})" if one.unit else "") for name, one in STATISTICS.items()
    },
}


def continuation(results: Result) -> Figure:
    """Plot the similarities, one row per reference and one column per metric with any values."""
    metrics = [metric for metric in METRICS if _rows(results, "prompt", metric)] or list(METRICS)
    with figure(3.6 * len(metrics) + 0.4, 6.6) as drawn:
        grid = drawn.subplots(len(AGAINST), len(metrics), sharex=True, sharey=True, squeeze=False)
        for axes_of_row, (against, title) in zip(grid, AGAINST.items(), strict=True):
            axes_of_row[0].set_ylabel(f"{title} (cosine)")
            for axes, metric in zip(axes_of_row, metrics, strict=True):
                _panel(axes, results, _rows(results, against, metric))
        for axes, metric in zip(grid[0], metrics, strict=True):
            axes.set_title(METRICS[metric])
        for axes in grid[-1]:
            axes.set_xlabel("quarter of the continuation")
        legend(drawn, grid[0][0])
    return drawn


def _panel(axes: Axes, results: Result, rows: Sequence[Result]) -> None:
    """Plot the mean over styles and its 95 % interval by model and quarter, and the reference passages as lines."""
    for place, model in enumerate(results["models"]):
        own = [row for row in rows if row["output"] == model["model"] and row["n"]]
        x = [row["quarter"] + (place - (len(results["models"]) - 1) / 2) * APART for row in own]
        half = [nan if row["high"] is None else row["high"] - row["mean"] for row in own]
        axes.errorbar(
            x, [row["mean"] for row in own], half, capsize=2, elinewidth=0.8,
            label=model["model"], **vars(series(model["number"])),
        )  # fmt: skip
    for name, dash in zip(results["yardsticks"], REFERENCE_DASHES, strict=True):
        own = [row for row in rows if row["output"] == name and row["n"]]
        x, means = ([row[key] for row in own] for key in ("quarter", "mean"))
        axes.plot(x, means, color=FAINT, linestyle=dash, linewidth=1.2, label=name)
    axes.set_xticks(range(1, QUARTERS + 1), ["1st", "2nd", "3rd", "4th"])
    axes.set_xlim(0.5, QUARTERS + 0.5)
    axes.set_ylim(-0.02, 1.02)
    axes.grid(visible=False, axis="x")


def _rows(results: Result, against: str, metric: str) -> list[Result]:
    """Return the similarities by quarter; none if no output has values for this metric."""
    found = [
        row
        for row in results["similarity"]
        if (row["against"], row["metric"]) == (against, metric) and row["quarter"] is not None
    ]
    return found if any(row["n"] for row in found) else []


def continuation_tables(result: Result) -> list[Table]:
    """Return the tables of similarities to the prompt and to the piece, and that of the other measures."""
    tables = [one for against in AGAINST for one in similarity_tables(result, against)]
    outputs = {row["output"]: row["output"] for row in result["measures"]}
    rows = [{**row, "measure": MEASURES[row["measure"]]} for row in result["measures"]]
    caption = "Copying, diversity, length and statistics: mean [95 % interval] over styles (n), by output."
    return [*tables, _table(rows, "measure", "output", outputs, caption)]


def similarity_tables(result: Result, against: str) -> list[Table]:
    """Return one table per metric with any values: one row per output, one column per quarter."""
    tables = []
    for metric, title in METRICS.items():
        rows = [
            row
            for row in result["similarity"]
            if (row["against"], row["metric"]) == (against, metric)
        ]
        if any(row["n"] for row in rows):
            caption = f"{title} {AGAINST[against]}: mean [95 % interval] over styles (n)."
            tables.append(_table(rows, "output", "quarter", QUARTER_NAMES, caption))
    return tables


def _table(
    rows: Sequence[Result], name: str, column: str, titles: Mapping[Any, str], caption: str
) -> Table:
    """Return the estimates with one row per value of `name` and one column per value of `column`."""
    lines: dict[str, dict[Any, str]] = {}
    for row in rows:
        lines.setdefault(row[name], {})[row[column]] = with_interval(row)
    cells = [[label, *(line.get(key, NONE) for key in titles)] for label, line in lines.items()]
    return Table(head=[name, *titles.values()], rows=cells, caption=caption)
