"""The figures of the report and their style, for light and dark pages.

Figures are drawn in the colours of a light page. `svg` replaces the colours by variables of the page's style sheet,
`png` keeps them. Series differ in colour, dash and marker; the colours are those of Okabe and Ito (2008), which are
safe for red–green colour blindness.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np
from matplotlib import cm, colormaps, colors
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from evaluation.attention import GAMMA, unpack
from evaluation.tables import Result

if TYPE_CHECKING:
    from evaluation.benchmarks.run import Row

INK, FAINT, LINE, PAPER = "#1b1f24", "#5b6470", "#d5d9de", "#fdfdfc"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#a8568a", "#b58900", "#3f8fc4", "#6b7280")
_DARK = ("#4fb0e8", "#f58a4b", "#2fc79a", "#e08fc0", "#e5bd3d", "#8ccbf2", "#a3abb8")
DASHES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
SEQUENTIAL, DIVERGING = "viridis", "RdBu_r"
STEPS = 200  # colours of a map
DOTS_PER_INCH = 160  # of a PNG file

_GROUP = re.compile(r'<g id="[A-Za-z]\w*(\.\w+)?_\d+"')
# Each colour of a figure, with its CSS variable and its counterpart on a dark page.
_VARIABLES = {
    INK: ("ink", "#e8eaed"),
    FAINT: ("faint", "#a0a8b3"),
    LINE: ("line", "#3a4048"),
    PAPER: ("paper", "#15181c"),
    **{
        light: (f"series-{i}", dark)
        for i, (light, dark) in enumerate(zip(COLOURS, _DARK, strict=True))
    },
}
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
    "svg.fonttype": "none",
}


@dataclass(frozen=True, kw_only=True)
class Series:
    """The look of one model in all figures."""

    color: str
    linestyle: str
    marker: str


def series(index: int) -> Series:
    """Return the look of a series; the first 28 differ in colour or dash."""
    return Series(
        color=COLOURS[index % len(COLOURS)],
        linestyle=DASHES[(index // len(COLOURS) + index % len(COLOURS)) % len(DASHES)],
        marker=MARKERS[(index // len(COLOURS) + index) % len(MARKERS)],
    )


@contextmanager
def figure(width_inches: float = 7.2, height_inches: float = 3.4) -> Iterator[Figure]:
    """Yield a new figure; everything drawn inside the context has the style of the report."""
    with matplotlib.rc_context(_SETTINGS):
        yield Figure(figsize=(width_inches, height_inches), layout="constrained")


def svg(drawn: Figure, name: str) -> str:
    """Return a figure as an SVG element; its name keeps its element ids apart from those of other figures."""
    stream = io.StringIO()
    settings = {**_SETTINGS, "svg.hashsalt": name}
    with matplotlib.rc_context(settings):
        drawn.savefig(
            stream,
            format="svg",
            dpi=150,
            transparent=True,
            metadata={"Date": None, "Creator": None},
        )
    text = stream.getvalue()
    text = _GROUP.sub("<g", text[text.index("<svg") :])  # nothing refers to these ids
    for colour, (variable, _) in _VARIABLES.items():
        text = text.replace(colour, f"var(--{variable}, {colour})")
    return text


def png(drawn: Figure) -> bytes:
    """Return a figure as the bytes of a PNG file with a light background."""
    stream = io.BytesIO()
    with matplotlib.rc_context(_SETTINGS):
        drawn.savefig(stream, format="png", dpi=DOTS_PER_INCH, facecolor=PAPER)
    return stream.getvalue()


def style_sheet() -> str:
    """Return the CSS variables of the colours, light and dark."""
    light = "".join(f"--{name}: {colour}; " for colour, (name, _) in _VARIABLES.items())
    dark = "".join(f"--{name}: {colour}; " for name, colour in _VARIABLES.values())
    return (
        f":root {{ color-scheme: light dark; {light}}}\n"
        f"@media (prefers-color-scheme: dark) {{ :root {{ {dark}}} }}\n"
    )


MOST_SHADED = 4  # curves whose shaded intervals can be distinguished in one plot
METRICS = {"translation": "translation invariance", "monotonicity": "monotonicity"}
GAP = 0.07  # between maps, as a fraction of their side
WIDTH = 7.4  # inches


def extrapolation(result: Result) -> Figure:
    """Plot each model's mean loss by position with its 95 % interval, and mark the trained length (figure 3).

    If models are comparable, a lower panel shows their differences from the mean of all models.
    """
    models = result["models"]
    trained = {model["trained_length"] for model in models}
    compared = all("apart" in model for model in models)
    with figure(WIDTH, 4.9 if compared else 3.6) as drawn:
        if compared:
            upper, lower = drawn.subplots(2, 1, sharex=True, height_ratios=(3, 2))
            for model in models:
                _curve(lower, model["apart"], model)
            lower.axhline(0, color=FAINT, linewidth=0.8)
            _mark_trained(lower, trained, labelled=False)
            lower.set_ylabel("difference from\nmean (nats)")
        else:
            upper = lower = drawn.add_subplot()
        for model in models:
            _curve(upper, model["positions"], model, shaded=len(models) <= MOST_SHADED)
        _mark_trained(upper, trained)
        upper.set_ylabel("loss (nats per token)")
        upper.set_xlim(0, max((model["length"] for model in models), default=1))
        # The loss of the first stretch, which has little context, is so high that it would flatten the rest.
        later = [row["mean"] for model in models for row in model["positions"][1:]]
        if later:
            margin = max(0.1, (max(later) - min(later)) * 0.15)
            upper.set_ylim(min(later) - margin, max(later) + margin)
        lower.set_xlabel("position in the piece (tokens)")
        _legend(drawn, upper)
    return drawn


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
                axes.errorbar(
                    x, values, errors, capsize=2, elinewidth=0.8, label=name, **vars(look)
                )
            axes.axvline(1, color=FAINT, linewidth=1, linestyle=(0, (4, 3)))
            axes.set_xlim(0, 1.27)
            axes.set_ylim(-0.02, 1.04)
            axes.set_title(title)
            axes.set_xlabel("position of the query (trained lengths)")
        panels[0].set_ylabel("fraction (lower is better)")
        _legend(drawn, panels[0])
    return drawn


def look_back(model: Result) -> Figure:
    """Plot the mean attention distance by position, one line per layer (mean over its heads)."""
    found = model["attention"]
    length = found["length"]
    with figure(WIDTH, 2.9) as drawn:
        axes = drawn.add_subplot()
        for number, (layer, heads) in enumerate(
            zip(found["layers"], found["distance"], strict=True)
        ):
            mean = [sum(values) / len(values) for values in zip(*heads, strict=True)]
            x = [(i + 0.5) * length / len(mean) for i in range(len(mean))]
            look, label = series(number), f"layer {layer + 1}"
            axes.plot(x, mean, color=look.color, linestyle=look.linestyle, label=label)
        axes.plot([0, length], [0, length / 2], color=FAINT, linewidth=0.8, label="uniform")
        _mark_trained(axes, {model["trained_length"]})
        axes.set_xlim(0, length)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("position of the query (tokens)")
        axes.set_ylabel("mean distance (tokens)")
        _legend(drawn, axes)
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
        unit = "tokens" if drawn_templates.get("bar") is None else "bars"
        drawn.supxlabel(f"lag from key to query ({unit})", fontsize=9)
        drawn.supylabel("weight", fontsize=9)
        _legend(drawn, grid[0][0])
    return drawn


def _template(axes: Axes, drawn: Result, number: int) -> None:
    """Plot one learned template by lag, and its approximation by one realisation of the noise."""
    head, feature = drawn["shown"][number]
    unit = drawn.get("bar") or 1
    lags = [lag / unit for lag in range(drawn["length"])]
    if drawn["realised"] is not None:
        label = f"one realisation, R = {drawn['realisations']}"
        axes.plot(lags, drawn["realised"][number], color=COLOURS[1], linewidth=0.7, label=label)
    axes.plot(lags, drawn["limit"][number], color=COLOURS[0], linewidth=1.4, label="learned")
    features = "mean of its features" if feature is None else f"feature {feature + 1}"
    axes.set_title(f"head {head + 1}, {features}", fontsize=8, fontweight="normal")
    axes.set_xlim(0, drawn["length"] / unit)
    if drawn.get("bar") is not None:
        axes.set_xticks(range(0, round(drawn["length"] / unit) + 1))
        axes.grid(axis="x", color=FAINT, linewidth=0.4)
    axes.tick_params(labelsize=7)


def all_templates(model: Result) -> Figure:
    """Draw all templates, one panel per head and one line per feature, slow ones on top, each scaled to ±1."""
    learned = model["templates"]
    values = unpack(learned["all"]).astype(float) / 127  # (heads, features, lags)
    turns = np.abs(np.diff(values, axis=-1)).sum(-1)
    ordered = np.take_along_axis(values, np.argsort(turns)[..., None], 1)
    gap = np.full((len(values), values.shape[1], max(1, round(values.shape[2] * GAP))), np.nan)
    panels = np.ma.masked_invalid(np.concatenate([*np.concatenate([ordered, gap], 2)], 1))
    step = 1 + gap.shape[2] / values.shape[2]
    extent = (0, len(values) * step, values.shape[1], 0)
    bar = learned.get("bar")
    lags = f"{learned['length']} tokens" if bar is None else f"{learned['length'] / bar:g} bars"
    with figure(WIDTH, 2.5) as drawn:
        axes = drawn.add_subplot()
        axes.imshow(
            panels, cmap=colormaps[DIVERGING].resampled(STEPS), vmin=-1, vmax=1, extent=extent,
            aspect="auto", interpolation="nearest",
        )  # fmt: skip
        names = [f"head {head + 1}" for head in range(len(values))]
        axes.set_xticks([head * step + 0.5 for head in range(len(values))], names)
        axes.set_yticks([])
        axes.set_xlabel(f"lag from key to query, 0 … {lags} in each panel")
        axes.set_ylabel("features, slow to fast")
        _bare(axes)
        scale = cm.ScalarMappable(colors.Normalize(-1, 1), DIVERGING)
        drawn.colorbar(scale, ax=axes, label="weight / maximum", aspect=25)
    return drawn


def attention(model: Result) -> Figure:
    """Draw the attention maps, one row per layer and one column per head, with the trained length marked.

    In each map, keys run from left to right and queries from top to bottom.
    """
    maps = model["attention"]
    pixels = unpack(maps["pixels"]).astype(float) / 255  # (layers, heads, P, P)
    later = np.triu(np.ones(pixels.shape[2:], dtype=bool), 1)
    shown = np.ma.masked_invalid(_mosaic(np.where(later, np.nan, pixels)))
    rows, columns = pixels.shape[:2]
    step = 1 + GAP
    extent = (0, columns * step, rows * step, 0)  # a map's side is 1
    colours = colormaps[SEQUENTIAL].resampled(STEPS)
    trained = model["trained_length"] / maps["length"]
    side = min(1.6, (WIDTH - 1.2) / columns)
    with figure(WIDTH, side * rows + 0.6) as drawn:
        axes = drawn.add_subplot()
        axes.imshow(shown, cmap=colours, vmin=0, vmax=1, extent=extent, interpolation_stage="data")
        for row in range(rows if 0 < trained < 1 else 0):
            for column in range(columns):
                x, y = column * step, row * step
                corner = ([x, x + trained, x + trained], [y + trained, y + trained, y + 1])
                axes.plot(*corner, color="#ffffff", linewidth=0.7, linestyle=(0, (3, 2)))
        heads = [f"head {head + 1}" for head in range(columns)]
        layers = [f"layer {layer + 1}" for layer in maps["layers"]]
        axes.set_xticks([column * step + 0.5 for column in range(columns)], heads)
        axes.set_yticks([row * step + 0.5 for row in range(rows)], layers, rotation=90, va="center")
        _bare(axes)
        axes.set_xlabel(f"in each map: keys 1 … {maps['length']} to the right, queries downwards")
        scale = cm.ScalarMappable(colors.PowerNorm(GAMMA, 0, maps["full"]), SEQUENTIAL)
        drawn.colorbar(scale, ax=axes, label="attention weight", extend="max", aspect=30)
    return drawn


def pictures(model: Result) -> dict[str, Figure]:
    """Return the figures of one model by name: its attention, and the templates of its encoding, if it has any."""
    draws = [attention, look_back]
    if model["templates"]:
        draws.append(templates)
        draws += [all_templates] if model["templates"]["features"] > 1 else []
    return {draw.__name__: draw(model) for draw in draws}


def changes(rows: Sequence[Row], control: Row, measures: Sequence[str]) -> Figure:
    """Plot the difference of each other row from the control, by measure, with 95 % intervals, best on top."""
    others = [row for row in rows if row is not control and row.values]
    others.sort(key=lambda row: row.change(control, measures[-1])[0], reverse=True)
    with figure(7.2, 1.4 + 0.3 * len(rows)) as drawn:
        axes = drawn.subplots()
        for number, measure in enumerate(measures):
            look, found = series(number), [row.change(control, measure) for row in others]
            y = np.arange(len(others)) + 0.15 * (len(measures) / 2 - 0.5 - number)
            axes.errorbar(
                [mean for mean, _ in found], y, xerr=[half or 0.0 for _, half in found],
                fmt=look.marker, color=look.color, capsize=2.5, label=f"positions {measure}",
            )  # fmt: skip
        axes.axvline(0, color=FAINT, linewidth=0.8)
        axes.set_yticks(range(len(others)), [row.encoding for row in others])
        axes.set_xlabel(f"change in perplexity from {control.encoding}, with 95 % intervals")
        _legend(drawn, axes)
    return drawn


def _mark_trained(axes: Axes, lengths: set[int], *, labelled: bool = True) -> None:
    """Draw a line at each trained length of the models; 0 is that of untrained models."""
    for length in sorted(lengths - {0}):
        axes.axvline(length, color=FAINT, linewidth=1, linestyle=(0, (4, 3)))
        if not labelled:
            continue
        axes.annotate(
            f"trained to {length}", (length, 1), xycoords=("data", "axes fraction"), xytext=(4, -3),
            textcoords="offset points", fontsize=8, color=FAINT, va="top",
        )  # fmt: skip


def _curve(axes: Axes, rows: Sequence[Result], model: Result, *, shaded: bool = True) -> None:
    """Plot the mean of each stretch at its centre, with 95 % intervals."""
    look = series(model["number"])
    x = [(row["start"] + row["stop"]) / 2 for row in rows]
    mean = [row["mean"] for row in rows]
    axes.plot(x, mean, color=look.color, linestyle=look.linestyle, label=model["model"])
    if shaded:
        # A single piece has no interval.
        low, high = (
            [nan if row[side] is None else row[side] for row in rows] for side in ("low", "high")
        )
        axes.fill_between(x, low, high, color=look.color, alpha=0.13, linewidth=0)


def _mosaic(pictures: np.ndarray) -> np.ndarray:
    """Join maps (rows, columns, P, P) into one picture, with a gap after each."""
    gap = max(1, round(pictures.shape[2] * GAP))
    padded = np.pad(pictures, ((0, 0), (0, 0), (0, gap), (0, gap)), constant_values=np.nan)
    rows, columns, height, width = padded.shape
    return padded.transpose(0, 2, 1, 3).reshape(rows * height, columns * width)


def _bare(axes: Axes) -> None:
    """Remove grid, spines and tick marks, and put the column labels on top."""
    axes.xaxis.tick_top()
    axes.grid(visible=False)
    axes.tick_params(length=0, labelsize=8)
    axes.spines[:].set_visible(False)


def _legend(drawn: Figure, axes: Axes) -> None:
    """Add a legend above the axes, in as few rows as fit."""
    handles, labels = axes.get_legend_handles_labels()
    most = max(1, min(4, 92 // (max(map(len, labels), default=0) + 8)))
    rows = -(-len(labels) // most)
    columns = -(-len(labels) // max(1, rows))  # balance the rows
    drawn.legend(handles, labels, loc="outside upper left", ncols=max(1, columns))
