"""The figures of the report and their style.

Series differ in colour, dash and marker; the colours are those of Okabe and Ito (2008), which are safe for red–green
colour blindness.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from math import nan
from typing import Any

import matplotlib
import numpy as np
from matplotlib import cm, colors
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from evaluation.attention import GAMMA
from evaluation.metrics.style import METRICS as METRICS_OF_STYLE
from evaluation.metrics.style import QUARTER_NAMES
from evaluation.tables import Result
from tokenization.wording import counted

INK, FAINT, LINE, PAPER = "#1b1f24", "#5b6470", "#d5d9de", "#fdfdfc"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#a8568a", "#b58900", "#3f8fc4", "#6b7280")
DASHES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
SEQUENTIAL = "viridis"
DOTS_PER_INCH = 160  # of a PNG file

_SETTINGS: Any = {  # matplotlib's type has a literal for each key
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.0,
    "text.color": INK,
    "text.parse_math": False,  # names of models or styles may contain $
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": LINE,
    "grid.linewidth": 0.6,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "lines.linewidth": 1.7,
    "lines.markersize": 4.5,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
}


def series(index: int) -> dict[str, str]:
    """Return the look of a model in all figures; the first 28 differ in colour or dash."""
    return {
        "color": COLOURS[index % len(COLOURS)],
        "linestyle": DASHES[(index // len(COLOURS) + index % len(COLOURS)) % len(DASHES)],
        "marker": MARKERS[(index // len(COLOURS) + index) % len(MARKERS)],
    }


@contextmanager
def figure(width_inches: float = 7.2, height_inches: float = 3.4) -> Iterator[Figure]:
    """Yield a new figure; everything drawn inside the context has the style of the report."""
    with matplotlib.rc_context(_SETTINGS):
        yield Figure(figsize=(width_inches, height_inches), layout="constrained")


def png(drawn: Figure) -> bytes:
    """Return a figure as the bytes of a PNG file with a light background."""
    stream = io.BytesIO()
    with matplotlib.rc_context(_SETTINGS):
        drawn.savefig(stream, format="png", dpi=DOTS_PER_INCH, facecolor=PAPER)
    return stream.getvalue()


MOST_SHADED = 4  # curves whose shaded intervals can be distinguished in one plot
LEAST_SPAN = 0.2  # nats that the axis of losses shows: noise is not drawn as a curve
FEWEST_SHADED = 5  # pieces; the interval of fewer would flatten the curves
METRICS = {"translation": "translation invariance", "monotonicity": "monotonicity"}
WIDTH = 7.4  # inches


def extrapolation(result: Result) -> Figure:
    """Plot each model's mean loss by position with its 95 % interval, and mark the trained length (figure 3)."""
    models = result["models"]
    with figure(WIDTH, 3.6) as drawn:
        axes = drawn.add_subplot()
        for model in models:
            _curve(axes, model, shaded=len(models) <= MOST_SHADED)
        drawn_to = max((row["stop"] for model in models for row in _drawn(model)), default=1)
        passed = {m["trained_length"] for m in models if m["trained_length"] < m["length"]}
        _mark_trained(axes, passed)
        axes.set_ylabel("loss (nats per token)")
        axes.set_xlim(0, drawn_to)
        low, high = axes.get_ylim()
        axes.set_ylim(min(low, high - LEAST_SPAN), high)
        axes.set_xlabel("position in the piece (tokens)")
        legend(drawn, axes)
    return drawn


BESIDE = {"real": "the piece itself", "same": "another piece"}


def quarters(result: Result) -> Figure:
    """Plot the similarity of continuations to the prompt and to the piece by quarter, beside real music."""
    models = result["models"]
    found = {
        (place, row["measure"]): row for place, model in enumerate(models) for row in model["table"]
    }
    metrics = [m for m in METRICS_OF_STYLE.values() if (0, _measure("piece", 1, m)) in found]
    with figure(WIDTH, 4.2) as drawn:
        panels: Any = drawn.subplots(
            2, max(1, len(metrics)), sharex=True, sharey=True, squeeze=False
        )
        for against, row in zip(("prompt", "piece"), panels, strict=True):
            row[0].set_ylabel(f"similarity to the {against}")
            for metric, axes in zip(metrics, row, strict=False):
                lines = [(place, "written", model["model"]) for place, model in enumerate(models)]
                lines += [(0, side, title) for side, title in BESIDE.items()]
                for place, side, title in lines:
                    if against == "piece" and side == "real":
                        continue  # is the piece
                    rows = [found.get((place, _measure(against, q, metric)), {}) for q in QUARTERS]
                    values = [(one.get(side) or {}).get("mean") for one in rows]
                    y = [nan if value is None else value for value in values]
                    look: Any = (
                        series(place)
                        if side == "written"
                        else {"color": INK if side == "real" else FAINT, "linestyle": ":"}
                    )
                    axes.plot(QUARTERS, y, label=title, **look)
                axes.set_xticks(QUARTERS)
                axes.set_ylim(0, 1)
        for metric, top, low in zip(metrics, panels[0], panels[1], strict=False):
            top.set_title(metric)
            low.set_xlabel("quarter of the continuation")
        legend(drawn, panels[0, 0])
    return drawn


QUARTERS = [quarter for quarter in QUARTER_NAMES if quarter is not None]


def _measure(against: str, quarter: int, metric: str) -> str:
    return f"to the {against}, {QUARTER_NAMES[quarter]}: {metric}"


def probes(result: Result) -> Figure:
    """Plot both metrics of the best head by position of the query, in trained lengths (figure 4)."""
    with figure(WIDTH, 3.3) as drawn:
        panels = drawn.subplots(1, len(METRICS))
        for axes, (metric, title) in zip(panels, METRICS.items(), strict=True):
            for model in result["models"]:
                look, length = series(model["number"]), model["probes"]["length"]
                rows = [row for row in model["probes"]["best_figure"] if row[metric] is not None]
                x = [(row["start"] + row["stop"]) / 2 / length for row in rows]
                values = [row[metric] for row in rows]
                errors = [row[f"{metric}_error"] or 0 for row in rows]
                name = model["model"]
                axes.errorbar(x, values, errors, capsize=2, elinewidth=0.8, label=name, **look)
            axes.axvline(1, color=FAINT, linewidth=1, linestyle=(0, (4, 3)))
            axes.set_xlim(0, 1.27)
            axes.set_ylim(-0.02, 1.04)
            axes.set_title(title)
            axes.set_xlabel("position of the query (trained lengths)")
        panels[0].set_ylabel("fraction (lower is better)")
        legend(drawn, panels[0])
    return drawn


def templates(model: Result) -> Figure:
    """Plot some templates, one per panel."""
    drawn_templates = model["templates"]
    shown = len(drawn_templates["shown"])
    columns = min(4, shown)
    rows = -(-shown // columns)
    with figure(WIDTH, 0.8 + 1.25 * rows) as drawn:
        grid = drawn.subplots(rows, columns, sharex=True, squeeze=False)
        for number, axes in enumerate(grid.flat):
            if number < shown:
                _template(axes, drawn_templates, number)
            else:
                axes.set_visible(False)
        unit = "tokens" if drawn_templates["bar"] is None else "bars"
        drawn.supxlabel(f"lag from key to query ({unit})", fontsize=9)
        drawn.supylabel("weight", fontsize=9)
        legend(drawn, grid[0][0])
    return drawn


def _template(axes: Axes, drawn: Result, number: int) -> None:
    """Plot one learned template by lag, and its approximation by one realisation of the noise."""
    head, feature = drawn["shown"][number]
    unit = drawn["bar"] or 1
    lags = [lag / unit for lag in range(drawn["length"])]
    if drawn["realised"] is not None:
        label = f"one realisation, R = {drawn['realisations']}"
        axes.plot(lags, drawn["realised"][number], color=COLOURS[1], linewidth=0.7, label=label)
    axes.plot(lags, drawn["limit"][number], color=COLOURS[0], linewidth=1.4, label="learned")
    features = f"feature {feature + 1}" if drawn["bar"] is None else "mean of its features"
    axes.set_title(f"head {head + 1}, {features}", fontsize=8, fontweight="normal")
    axes.set_xlim(0, drawn["length"] / unit)
    if drawn["bar"] is not None:
        axes.set_xticks(range(0, round(drawn["length"] / unit) + 1))
        axes.grid(axis="x", color=FAINT, linewidth=0.4)
    axes.tick_params(labelsize=7)


def attention(model: Result) -> Figure:
    """Draw the attention maps, one row per layer and one column per head, with the trained length marked.

    In each map, keys run from left to right and queries from top to bottom.
    """
    maps = model["attention"]
    pixels = np.array(maps["pixels"]) / 255  # (layers, heads, P, P)
    later = np.triu(np.ones(pixels.shape[2:], dtype=bool), 1)
    rows, columns = pixels.shape[:2]
    trained = model["trained_length"] / maps["length"]
    side = min(1.6, (WIDTH - 1.2) / columns)
    with figure(WIDTH, side * rows + 0.6) as drawn:
        grid: Any = drawn.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        for row, column in np.ndindex(rows, columns):
            axes, shown = grid[row, column], np.ma.masked_where(later, pixels[row, column])
            # The side of a map is 1.
            axes.imshow(shown, cmap=SEQUENTIAL, vmin=0, vmax=1, extent=(0, 1, 1, 0))
            if 0 < trained < 1:
                corner = ([0, trained, trained], [trained, trained, 1])
                axes.plot(*corner, color="#ffffff", linewidth=0.7, linestyle=(0, (3, 2)))
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set_visible(False)
        for column, axes in enumerate(grid[0], 1):
            axes.set_title(f"head {column}", fontsize=8, fontweight="normal")
        for layer, axes in zip(maps["layers"], grid[:, 0], strict=True):
            axes.set_ylabel(f"layer {layer + 1}", fontsize=8)
        drawn.supxlabel(
            f"in each map: keys 1 … {maps['length']} to the right, queries downwards", fontsize=9
        )
        scale = cm.ScalarMappable(colors.PowerNorm(GAMMA, 0, maps["full"]), SEQUENTIAL)
        drawn.colorbar(scale, ax=grid, label="attention weight", extend="max", aspect=30)
    return drawn


def pictures(model: Result) -> dict[str, Figure]:
    """Return the figures of one model by name: its attention, and the templates of its encoding, if it has any."""
    drawn = {"attention": attention(model)}
    return drawn | {"templates": templates(model)} if model["templates"] else drawn


GIVEN = "#a9afb8"  # colour of the notes that were given


def roll(take: Result) -> Figure:
    """Draw a take: given notes in grey, new ones in the colour of their track, drums below."""
    columns = ("onset", "duration", "pitch", "track", "drum", "new")
    onset, duration, pitch, track, drum, new = (np.array(take[name]) for name in columns)
    drums = bool(drum.any())
    with figure(WIDTH, 2.6 + 0.7 * drums) as drawn:
        panels: Any = drawn.subplots(
            1 + drums,
            sharex=True,
            squeeze=False,
            gridspec_kw={"height_ratios": [4, 1.2][: 1 + drums]},
        )[:, 0]
        for axes, inside in zip(panels, (~drum, drum), strict=False):
            for number, name in enumerate(take["tracks"]):
                for kind, colour in ((~new, GIVEN), (new, series(number)["color"])):
                    shown = inside & (track == number) & kind
                    label = name if shown.any() and kind is new else None
                    axes.barh(
                        pitch[shown], np.maximum(duration[shown] - 0.04, 0.06), left=onset[shown],
                        height=0.9, color=colour, label=label,
                    )  # fmt: skip
            axes.set_xticks(take["lines"][::4], range(1, len(take["lines"]) + 1, 4))
            axes.set_ylabel("drums" if axes is not panels[0] else "pitch")
            axes.grid(axis="y", visible=False)
        panels[0].set_xlim(0, take["lines"][-1])
        panels[-1].set_xlabel("bar")
        legend(drawn, *panels)
    return drawn


CHOSEN = {"chosen": "kept", "left": "left"}  # sides of a choice, and how they are called


def choices(model: Result) -> Figure:
    """Draw the take that the model's critic likes best of each piece beside the one that it likes least."""
    pairs = model["choices"]
    with figure(2 * WIDTH, 0.4 + 1.5 * len(pairs)) as drawn:
        panels: Any = drawn.subplots(len(pairs), 2, sharey="row", squeeze=False)
        for row, pair in zip(panels, pairs, strict=True):
            for axes, (side, name) in zip(row, CHOSEN.items(), strict=True):
                take = pair[side]
                onset, duration, pitch, new, drum = (
                    np.array(take[column])
                    for column in ("onset", "duration", "pitch", "new", "drum")
                )
                for kind, colour in ((~new, GIVEN), (new, COLOURS[side == "left"])):
                    shown = kind & ~drum.astype(bool)
                    axes.barh(
                        pitch[shown], duration[shown], left=onset[shown], height=1, color=colour
                    )
                axes.set_xlim(0, take["lines"][-1])
                axes.set_xticks(take["lines"][::4], range(1, len(take["lines"]) + 1, 4))
                axes.grid(axis="y", visible=False)
                faults = f", {counted(take['faults'], 'fault')}" if take["faults"] else ""
                axes.set_title(
                    f"{pair['piece']}, {name} of {pair['of']}: doubt {take['doubt']:.2f}{faults}",
                    fontsize=8,
                )
        panels[-1][0].set_xlabel("bar")
        panels[0][0].set_ylabel("pitch")
    return drawn


def _mark_trained(axes: Axes, lengths: set[int]) -> None:
    """Draw a line at each trained length of the models; 0 is that of untrained models."""
    for length in sorted(lengths - {0}):
        axes.axvline(length, color=FAINT, linewidth=1, linestyle=(0, (4, 3)))
        axes.annotate(
            f"trained to {length}", (length, 1), xycoords=("data", "axes fraction"), xytext=(4, -3),
            textcoords="offset points", fontsize=8, color=FAINT, va="top",
        )  # fmt: skip


def _drawn(model: Result) -> Sequence[Result]:
    """Return the stretches that half of the pieces reach but the first, whose loss, without context, is high."""
    rows = model["positions"]
    most = max((row["pieces"] for row in rows), default=0)
    return [row for row in rows[1:] if 2 * row["pieces"] >= most] or rows


def _curve(axes: Axes, model: Result, *, shaded: bool) -> None:
    """Plot the mean of each stretch at its centre, with 95 % intervals."""
    look, rows = series(model["number"]), _drawn(model)
    x = [(row["start"] + row["stop"]) / 2 for row in rows]
    mean = [row["mean"] for row in rows]
    axes.plot(x, mean, color=look["color"], linestyle=look["linestyle"], label=model["model"])
    if shaded:
        low, high = (
            [row[side] if row["pieces"] >= FEWEST_SHADED else nan for row in rows]
            for side in ("low", "high")
        )
        axes.fill_between(x, low, high, color=look["color"], alpha=0.13, linewidth=0)


def legend(drawn: Figure, *panels: Axes) -> None:
    """Add a legend of some axes above them, in as few rows as fit."""
    handles, labels = (
        [*chain(*found)]
        for found in zip(*(axes.get_legend_handles_labels() for axes in panels), strict=True)
    )
    most = max(1, min(4, 92 // (max(map(len, labels), default=0) + 8)))
    rows = -(-len(labels) // most)
    columns = -(-len(labels) // max(1, rows))  # balance the rows
    drawn.legend(handles, labels, loc="outside upper left", ncols=max(1, columns))
