"""Curves of results: each function draws one result into an axis and returns the axis; none computes a measure."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullLocator

from evaluation.metrics.estimates import standard_error
from evaluation.plots.style import COLOURS, FAINT, Result, series

MOST_SHADED = 4  # curves in one axis whose error bands can be distinguished
METRICS = {"translation": "translation invariance", "monotonicity": "monotonicity"}


def loss_by_position(axes: Axes, models: Sequence[Result]) -> Axes:
    """Draw each model's mean loss along the piece with its standard error, and where training ended (figure 3)."""
    for model in models:
        _curve(axes, model["positions"], model, shaded=len(models) <= MOST_SHADED)
    mark_trained(axes, {model["trained_length"] for model in models})
    axes.set_ylabel("loss (nats a token)")
    axes.set_xlim(0, max((model["length"] for model in models), default=1))
    # The first stretch, without much of a past to go by, would flatten all others.
    later = [row["mean"] for model in models for row in model["positions"][1:]]
    if later:
        room = max(0.1, (max(later) - min(later)) * 0.15)
        axes.set_ylim(min(later) - room, max(later) + room)
    return axes


def loss_apart(axes: Axes, models: Sequence[Result]) -> Axes:
    """Draw by how much each model differs from the mean of all along the piece, with its standard error."""
    for model in models:
        _curve(axes, model["apart"], model)
    axes.axhline(0, color=FAINT, linewidth=0.8)
    mark_trained(axes, {model["trained_length"] for model in models}, named=False)
    axes.set_ylabel("less the mean\nof all (nats)")
    return axes


def loss_by_realisations(axes: Axes, models: Sequence[Result]) -> Axes:
    """Draw how the loss changes with the realisations of the test; the ring is at those of training."""
    ticks = sorted({test["realisations"] for model in models for test in model["tests"]})
    for model in models:
        tests, look = model["tests"], series(model["number"])
        x = [test["realisations"] for test in tests]
        changes = [test["change"] for test in tests]
        mean = [change["mean"] for change in changes]
        error = [_error(change) for change in changes]
        label = f"{model['model']} (trained with {model['trained']})"
        axes.errorbar(x, mean, error, capsize=2.5, label=label, **vars(look))
        own = [(n, m) for n, m in zip(x, mean, strict=True) if n == model["trained"]]
        for point in own:
            axes.plot(*point, "o", ms=11, mfc="none", mec=look.color, mew=1.2)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticklabels([str(tick) for tick in ticks])
    axes.set_xlabel("realisations R at the test")
    axes.set_ylabel("change of the loss (nats a token)")
    return axes


def probe_by_position(axes: Axes, models: Sequence[Result], metric: str) -> Axes:
    """Draw the best head's metric along the positions of the queries, in trained lengths (figure 4)."""
    for model in models:
        look, length = series(model["number"]), model["probes"]["length"]
        rows = [row for row in model["probes"]["best_figure"] if row[metric] is not None]
        x = [(row["start"] + row["stop"]) / 2 / length for row in rows]
        values = [row[metric] for row in rows]
        errors = [row[f"{metric}_error"] or 0 for row in rows]
        name = model["model"]
        axes.errorbar(x, values, errors, capsize=2, elinewidth=0.8, label=name, **vars(look))
    axes.axvline(1, color=FAINT, linewidth=1, linestyle=(0, (4, 3)))
    axes.set_xlim(0, 1.27)
    axes.set_ylim(-0.02, 1.04)
    axes.set_title(METRICS[metric])
    axes.set_xlabel("position of the query (trained lengths)")
    axes.set_ylabel("share (lower is better)")
    return axes


def look_back(axes: Axes, model: Result) -> Axes:
    """Draw how far back attention looks on average, by position, a line a layer (mean over its heads)."""
    drawn = model["attention"]
    length = drawn["length"]
    for number, (layer, heads) in enumerate(zip(drawn["layers"], drawn["distance"], strict=True)):
        mean = [sum(values) / len(values) for values in zip(*heads, strict=True)]
        x = [(i + 0.5) * length / len(mean) for i in range(len(mean))]
        look = series(number)
        axes.plot(x, mean, color=look.color, linestyle=look.linestyle, label=f"layer {layer + 1}")
    axes.plot([0, length], [0, length / 2], color=FAINT, linewidth=0.8, label="all alike")
    mark_trained(axes, {model["trained_length"]})
    axes.set_xlim(0, length)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("position of the query (tokens)")
    axes.set_ylabel("mean distance (tokens)")
    return axes


def template_curves(axes: Axes, drawn: Result, number: int) -> Axes:
    """Draw one learned template by lag, and what the realisations of one draw make of it."""
    head, feature = drawn["shown"][number]
    unit = drawn.get("bar") or 1
    lags = [lag / unit for lag in range(drawn["length"])]
    if drawn["realised"] is not None:
        label = f"one draw, R = {drawn['realisations']}"
        axes.plot(lags, drawn["realised"][number], color=COLOURS[1], linewidth=0.7, label=label)
    axes.plot(
        lags, drawn["limit"][number], color=COLOURS[0], linewidth=1.4, label="what is learned"
    )
    which = "mean of its features" if feature is None else f"feature {feature + 1}"
    axes.set_title(f"head {head + 1}, {which}", fontsize=8, fontweight="normal")
    axes.set_xlim(0, drawn["length"] / unit)
    if drawn.get("bar") is not None:
        axes.set_xticks(range(0, round(drawn["length"] / unit) + 1))
        axes.grid(axis="x", color=FAINT, linewidth=0.4)
    axes.tick_params(labelsize=7)
    return axes


def mark_trained(axes: Axes, lengths: set[int], *, named: bool = True) -> None:
    """Draw a line where training sequences ended; models may differ in that."""
    for length in sorted(lengths - {0}):
        axes.axvline(length, color=FAINT, linewidth=1, linestyle=(0, (4, 3)))
        if not named:
            continue
        axes.annotate(
            f"trained to {length}", (length, 1), xycoords=("data", "axes fraction"), xytext=(4, -3),
            textcoords="offset points", fontsize=8, color=FAINT, va="top",
        )  # fmt: skip


def _curve(axes: Axes, rows: Sequence[Result], model: Result, *, shaded: bool = True) -> None:
    """Draw means along the positions, each over its stretch, with their standard errors."""
    look = series(model["number"])
    x = [(row["start"] + row["stop"]) / 2 for row in rows]
    mean = [row["mean"] for row in rows]
    axes.plot(x, mean, color=look.color, linestyle=look.linestyle, label=model["model"])
    if shaded:
        error = [_error(row) for row in rows]
        low, high = ([m + sign * e for m, e in zip(mean, error, strict=True)] for sign in (-1, 1))
        axes.fill_between(x, low, high, color=look.color, alpha=0.13, linewidth=0)


def _error(row: Result) -> float:
    """Return the standard error of a mean over pieces; of one piece none, which is not drawn."""
    error = standard_error(row["deviation"], row["pieces"])
    return nan if error is None else error
