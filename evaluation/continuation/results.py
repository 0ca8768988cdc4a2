"""The figure and the tables of the groove experiment: how similar continuations are to their prompts."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from evaluation.figures import FAINT, INK, figure, series
from evaluation.metrics.statistics import STATISTICS
from evaluation.metrics.style import METRICS, QUARTERS
from evaluation.tables import NONE, Result, Table, interval, number, with_deviation, with_interval
from tokenization.wording import filled

AGAINST = {"prompt": "similarity to the prompt", "piece": "similarity to the whole piece"}
TOGETHER = ("pitched", "drums")
REFERENCE_DASHES = (":", "-", "--")
CHARACTERS_PER_INCH = 16  # of small print
BOXES_WIDTH, WIDEST_BOX = 0.8, 0.35  # in quarters: for the boxes of all models, and for one box


def continuation(results: Result) -> Figure:
    """Plot the similarities, one row per reference and one column per metric with any values."""
    metrics = [metric for metric in METRICS if _rows(results, "prompt", metric)] or list(METRICS)
    with figure(3.6 * len(metrics) + 0.4, 6.6) as drawn:
        grid = drawn.subplots(len(AGAINST), len(metrics), sharex=True, sharey=True, squeeze=False)
        for axes_of_row, against in zip(grid, AGAINST, strict=True):
            for axes, metric in zip(axes_of_row, metrics, strict=True):
                boxes(axes, results, against, metric)
        for axes, metric in zip(grid[0], metrics, strict=True):
            axes.set_title(METRICS[metric])
        for axes in grid[-1]:
            axes.set_xlabel("quarter of the continuation")
        for axes, against in zip(grid[:, 0], AGAINST, strict=True):
            axes.set_ylabel(f"{AGAINST[against]} (cosine)")
        _explain(drawn, results)
    return drawn


def boxes(axes: Axes, results: Result, against: str, metric: str) -> None:
    """Draw one box per model and quarter, over the styles, and the mean of each reference passage as a line."""
    models = _numbered(results)
    rows = _rows(results, against, metric)
    width = min(BOXES_WIDTH / len(models), WIDEST_BOX)
    for place, (model, style) in enumerate(models.items()):
        offset, look = (place - (len(models) - 1) / 2) * width, series(style)
        values = {row["quarter"]: _known(row["values"]) for row in rows if row["output"] == model}
        values = {quarter: known for quarter, known in values.items() if known}
        if not values:
            continue
        axes.boxplot(
            [*values.values()],
            positions=[quarter + offset for quarter in values],
            widths=0.8 * width,
            manage_ticks=False,
            patch_artist=True,
            showmeans=True,
            boxprops={"facecolor": f"{look.color}59", "edgecolor": look.color},
            medianprops={"color": INK, "linewidth": 1.3},
            whiskerprops={"color": look.color},
            capprops={"color": look.color},
            meanprops={"marker": look.marker, "markerfacecolor": look.color,
                       "markeredgecolor": INK, "markersize": 4, "markeredgewidth": 0.5},
            flierprops={"marker": ".", "markersize": 3, "markeredgecolor": look.color},
        )  # fmt: skip
    for name, dash in zip(results["yardsticks"], REFERENCE_DASHES, strict=True):
        means = {row["quarter"]: row["mean"] for row in rows if row["output"] == name}
        known = [(quarter, mean) for quarter, mean in means.items() if mean is not None]
        if known:
            axes.plot(*zip(*known, strict=True), color=FAINT, linestyle=dash, linewidth=1.2)
    axes.set_xticks(range(1, QUARTERS + 1), ["1st", "2nd", "3rd", "4th"])
    axes.set_xlim(0.5, QUARTERS + 0.5)
    axes.set_ylim(-0.02, 1.02)
    axes.grid(visible=False, axis="x")


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _explain(drawn: Figure, results: Result) -> None:
    """Add the legend, and explain boxes, marks and lines in small print."""
    handles: list[Any] = []
    for model, style in _numbered(results).items():
        look = series(style)
        handles.append(Patch(facecolor=f"{look.color}59", edgecolor=look.color, label=model))
    axes = drawn.axes[0]
    for name, dash in zip(results["yardsticks"], REFERENCE_DASHES, strict=True):
        (line,) = axes.plot([], [], color=FAINT, linestyle=dash, linewidth=1.2, label=name)
        handles.append(line)
    drawn.legend(handles=handles, loc="outside lower center", ncols=4)
    samples, styles = results["settings"]["samples"], results["styles"]
    text = (
        f"Boxes: quartiles of {styles} styles, mean of {samples} samples per prompt; bar: median; "
        "mark: mean; whiskers: within 1.5 box lengths. Grey lines: means of reference passages."
    )
    width = int(CHARACTERS_PER_INCH * drawn.get_figwidth())
    drawn.suptitle(textwrap.fill(text, width), fontsize=8, color=FAINT)


def _numbered(results: Result) -> dict[str, int]:
    """Return the numbers of the models' series by name."""
    return {model["name"]: model["number"] for model in results["models"]}


def _rows(results: Result, against: str, metric: str) -> list[Result]:
    """Return the similarities by quarter; none if no output has values for this metric."""
    found = [
        row
        for row in results["similarity"]
        if row["against"] == against
        and row["metric"] == metric
        and row["track"] in TOGETHER
        and row["quarter"] is not None
    ]
    return found if any(row["n"] for row in found) else []


QUARTER_NAMES = {None: "whole", 1: "1st quarter", 2: "2nd", 3: "3rd", 4: "4th"}
VARIETY = {
    "copied_share": "copied from the prompt",
    "diversity": "diversity of samples",
    "tokens": "tokens",
    "beats": "beats",
}
OVER = {"style": "styles", "prompt": "pieces"}
STATISTICS_CAPTION = """Music statistics: mean ± standard deviation (n). distance: Wasserstein distance from the
    distribution of the real pieces, in the unit of the statistic, with its 95 % interval over {over}; for the real
    pieces: the distance expected between two sets of as many {over}, estimated from halves."""


def similarity_tables(result: Result, against: str) -> Iterator[Table]:
    """Yield one table per metric with any values: one row per output, one column per quarter."""
    for metric, title in METRICS.items():
        rows = [
            row
            for row in result["similarity"]
            if (row["against"], row["metric"]) == (against, metric) and row["track"] in TOGETHER
        ]
        if any(row["n"] for row in rows):
            caption = f"{title} {AGAINST[against]}: mean [95 % interval] over styles (n)."
            yield _table(rows, "quarter", QUARTER_NAMES, caption)


def variety_table(result: Result) -> Table:
    """Return copying, diversity and length, which the similarity does not show."""
    caption = "Copying, diversity and length: mean [95 % interval] over styles (n)."
    return _table(result["variety"], "measure", VARIETY, caption)


def _table(rows: Sequence[Result], column: str, titles: Mapping[Any, str], caption: str) -> Table:
    """Return the estimates with one row per output and one column per value of `column`."""
    lines: dict[str, dict[Any, str]] = {}
    for row in rows:
        lines.setdefault(row["output"], {})[row[column]] = with_interval(row)
    cells = [[name, *(line.get(key, NONE) for key in titles)] for name, line in lines.items()]
    return Table(head=["output", *titles.values()], rows=cells, caption=caption)


def statistics_table(result: Result) -> Table:
    """Return one row per statistic: values and distance of the real pieces, then of each output."""
    outputs = list(dict.fromkeys(row["output"] for row in result["statistics"]))
    known = {(row["output"], row["statistic"]): row for row in result["statistics"]}
    rows, over = [], "style"
    for name, statistic in STATISTICS.items():
        of_outputs = [known[one, name] for one in outputs]
        if not of_outputs:
            continue
        unit = f" ({statistic.unit})" if statistic.unit else ""
        cells = []
        for row in of_outputs:
            cells.append(with_deviation(row["outputs"]))
            cells.append(interval(row["wasserstein"], row["low"], row["high"]))
        real, floor, over = (of_outputs[0][key] for key in ("real", "floor", "over"))
        rows.append([statistic.title + unit, with_deviation(real), number(floor), *cells])
    titles = [title for one in outputs for title in (one, "distance")]
    return Table(
        head=["statistic", "the piece itself", "distance", *titles],
        rows=rows,
        caption=filled(STATISTICS_CAPTION, over=OVER[over]),
    )
