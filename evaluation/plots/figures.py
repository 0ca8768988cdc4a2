"""Whole figures of the report, put together from plots of results."""

from __future__ import annotations

from matplotlib import cm, colors
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from evaluation.maps import GAMMA
from evaluation.plots import curves as plots
from evaluation.plots import pictures as plot_maps
from evaluation.plots.style import DIVERGING, SEQUENTIAL, Result, figure

WIDTH = 7.4


def extrapolation(result: Result) -> Figure:
    """Return the loss by position, and below it how far the models are apart."""
    models = result["models"]
    compared = all("apart" in model for model in models)
    with figure(WIDTH, 4.9 if compared else 3.6) as drawn:
        if compared:
            above, last = drawn.subplots(2, 1, sharex=True, height_ratios=(3, 2))
            plots.loss_apart(last, models)
        else:
            above = last = drawn.add_subplot()
        plots.loss_by_position(above, models)
        last.set_xlabel("position in the piece (tokens)")
        _legend(drawn, above)
    return drawn


def realisations(result: Result) -> Figure:
    """Return the loss by the number of realisations."""
    with figure(WIDTH, 3.2) as drawn:
        axes = plots.loss_by_realisations(drawn.add_subplot(), result["models"])
        _legend(drawn, axes)
    return drawn


def probes(result: Result) -> Figure:
    """Return both metrics of the best head by position."""
    with figure(WIDTH, 3.3) as drawn:
        left, right = drawn.subplots(1, 2)
        plots.probe_by_position(left, result["models"], "translation")
        plots.probe_by_position(right, result["models"], "monotonicity")
        right.set_ylabel("")
        _legend(drawn, left)
    return drawn


def templates(model: Result) -> Figure:
    """Return some templates one by one."""
    drawn_templates = model["templates"]
    shown = len(drawn_templates["shown"])
    columns = min(4, shown)
    rows = -(-shown // columns)
    with figure(WIDTH, 0.8 + 1.25 * rows) as drawn:
        grid = drawn.subplots(rows, columns, sharex=True, squeeze=False)
        for number, axes in enumerate(grid.flat):
            if number < shown:
                plots.template_curves(axes, drawn_templates, number)
            else:
                axes.set_visible(False)
        unit = "tokens" if drawn_templates.get("bar") is None else "bars"
        drawn.supxlabel(f"lag from key to query ({unit})", fontsize=9)
        drawn.supylabel("weight", fontsize=9)
        _legend(drawn, grid[0][0])
    return drawn


def all_templates(model: Result) -> Figure:
    """Return every template, a panel a head."""
    with figure(WIDTH, 2.5) as drawn:
        axes = plot_maps.all_templates(drawn.add_subplot(), model["templates"])
        scale = cm.ScalarMappable(colors.Normalize(-1, 1), DIVERGING)
        drawn.colorbar(scale, ax=axes, label="weight / largest", aspect=25)
    return drawn


def attention(model: Result) -> Figure:
    """Return the attention maps, a row a layer."""
    maps = model["attention"]
    rows, columns = maps["pixels"]["shape"][:2]
    side = min(1.6, (WIDTH - 1.2) / columns)
    with figure(WIDTH, side * rows + 0.6) as drawn:
        axes = plot_maps.attention_maps(drawn.add_subplot(), maps, model["trained_length"])
        axes.set_xlabel(f"keys 1 … {maps['length']} to the right, queries downwards, in each map")
        scale = cm.ScalarMappable(colors.PowerNorm(GAMMA, 0, maps["full"]), SEQUENTIAL)
        label = "attention (share of a query)"
        drawn.colorbar(scale, ax=axes, label=label, extend="max", aspect=30)
    return drawn


def look_back(model: Result) -> Figure:
    """Return how far back attention looks."""
    with figure(WIDTH, 2.9) as drawn:
        axes = plots.look_back(drawn.add_subplot(), model)
        _legend(drawn, axes)
    return drawn


def _legend(drawn: Figure, axes: Axes) -> None:
    """Put a legend above the axes, where it hides nothing."""
    handles, labels = axes.get_legend_handles_labels()
    most = max(1, min(4, 92 // (max(map(len, labels), default=0) + 8)))
    rows = -(-len(labels) // most)
    columns = -(-len(labels) // max(1, rows))  # no more than these rows take
    drawn.legend(handles, labels, loc="outside upper left", ncols=max(1, columns))
