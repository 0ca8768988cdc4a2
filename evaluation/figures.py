"""The figures of the report, each of one result, and how they look: the same on a light page and on a dark one.

A figure is drawn with the colours of a light page; `svg` names them by variables of the page's style sheet, and `png`
keeps them. Series differ in colour, dash and marker at once, in the colours of Okabe and Ito (2008), which people who
confuse red and green can tell apart.
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
# Each colour of a drawing: the variable that stands for it on a page, and its dark counterpart.
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
_SETTINGS: Any = {  # matplotlib types these keys one by one
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.0,
    "text.color": INK,
    "text.parse_math": False,  # a model or a style may be called $x
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
    """How one model looks in every figure."""

    color: str
    linestyle: str
    marker: str


def series(index: int) -> Series:
    """Return the look of the series of a number: 28 differ in colour or dash."""
    return Series(
        color=COLOURS[index % len(COLOURS)],
        linestyle=DASHES[(index // len(COLOURS) + index % len(COLOURS)) % len(DASHES)],
        marker=MARKERS[(index // len(COLOURS) + index) % len(MARKERS)],
    )


@contextmanager
def figure(width_inches: float = 7.2, height_inches: float = 3.4) -> Iterator[Figure]:
    """Give a figure to draw in; what is drawn inside the context has the style."""
    with matplotlib.rc_context(_SETTINGS):
        yield Figure(figsize=(width_inches, height_inches), layout="constrained")


def svg(drawn: Figure, name: str) -> str:
    """Return a figure as an SVG element for a page; names keep the elements of several figures apart."""
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
    text = _GROUP.sub("<g", text[text.index("<svg") :])  # nothing refers to these names
    for colour, (variable, _) in _VARIABLES.items():
        text = text.replace(colour, f"var(--{variable}, {colour})")
    return text


def png(drawn: Figure) -> bytes:
    """Return a figure as a PNG file on light paper."""
    stream = io.BytesIO()
    with matplotlib.rc_context(_SETTINGS):
        drawn.savefig(stream, format="png", dpi=DOTS_PER_INCH, facecolor=PAPER)
    return stream.getvalue()


def style_sheet() -> str:
    """Return the variables of a page, light and dark, as CSS."""
    light = "".join(f"--{name}: {colour}; " for colour, (name, _) in _VARIABLES.items())
    dark = "".join(f"--{name}: {colour}; " for name, colour in _VARIABLES.values())
    return (
        f":root {{ color-scheme: light dark; {light}}}\n"
        f"@media (prefers-color-scheme: dark) {{ :root {{ {dark}}} }}\n"
    )


MOST_SHADED = 4  # curves in one axis whose error bands can be distinguished
METRICS = {"translation": "translation invariance", "monotonicity": "monotonicity"}
GAP = 0.07  # between pictures, of their side
WIDTH = 7.4


def extrapolation(result: Result) -> Figure:
    """Return each model's mean loss along the piece with its 95 % interval, and where training ended (figure 3).

    Below it, where models can be compared, is by how much each differs from the mean of all.
    """
    models = result["models"]
    trained = {model["trained_length"] for model in models}
    compared = all("apart" in model for model in models)
    with figure(WIDTH, 4.9 if compared else 3.6) as drawn:
        if compared:
            above, last = drawn.subplots(2, 1, sharex=True, height_ratios=(3, 2))
            for model in models:
                _curve(last, model["apart"], model)
            last.axhline(0, color=FAINT, linewidth=0.8)
            _mark_trained(last, trained, named=False)
            last.set_ylabel("less the mean\nof all (nats)")
        else:
            above = last = drawn.add_subplot()
        for model in models:
            _curve(above, model["positions"], model, shaded=len(models) <= MOST_SHADED)
        _mark_trained(above, trained)
        above.set_ylabel("loss (nats a token)")
        above.set_xlim(0, max((model["length"] for model in models), default=1))
        # The first stretch, without much of a past to go by, would flatten all others.
        later = [row["mean"] for model in models for row in model["positions"][1:]]
        if later:
            room = max(0.1, (max(later) - min(later)) * 0.15)
            above.set_ylim(min(later) - room, max(later) + room)
        last.set_xlabel("position in the piece (tokens)")
        _legend(drawn, above)
    return drawn


def probes(result: Result) -> Figure:
    """Return both metrics of the best head along the positions of the queries, in trained lengths (figure 4)."""
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
        panels[0].set_ylabel("share (lower is better)")
        _legend(drawn, panels[0])
    return drawn


def look_back(model: Result) -> Figure:
    """Return how far back attention looks on average, by position, a line a layer (mean over its heads)."""
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
        axes.plot([0, length], [0, length / 2], color=FAINT, linewidth=0.8, label="all alike")
        _mark_trained(axes, {model["trained_length"]})
        axes.set_xlim(0, length)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("position of the query (tokens)")
        axes.set_ylabel("mean distance (tokens)")
        _legend(drawn, axes)
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
                _template(axes, drawn_templates, number)
            else:
                axes.set_visible(False)
        unit = "tokens" if drawn_templates.get("bar") is None else "bars"
        drawn.supxlabel(f"lag from key to query ({unit})", fontsize=9)
        drawn.supylabel("weight", fontsize=9)
        _legend(drawn, grid[0][0])
    return drawn


def _template(axes: Axes, drawn: Result, number: int) -> None:
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


def all_templates(model: Result) -> Figure:
    """Return all templates, a panel a head and a line each, slow ones on top; the largest weight of each is ±1."""
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
        drawn.colorbar(scale, ax=axes, label="weight / largest", aspect=25)
    return drawn


def attention(model: Result) -> Figure:
    """Return the attention maps, a row a layer and a column a head, and in each where the trained length ends.

    In a map keys run to the right and queries downwards.
    """
    maps = model["attention"]
    pixels = unpack(maps["pixels"]).astype(float) / 255  # (layers, heads, P, P)
    later = np.triu(np.ones(pixels.shape[2:], dtype=bool), 1)
    shown = np.ma.masked_invalid(_mosaic(np.where(later, np.nan, pixels)))
    rows, columns = pixels.shape[:2]
    step = 1 + GAP
    extent = (0, columns * step, rows * step, 0)  # a map's side is 1
    colours = colormaps[SEQUENTIAL].resampled(STEPS)
    share = model["trained_length"] / maps["length"]
    side = min(1.6, (WIDTH - 1.2) / columns)
    with figure(WIDTH, side * rows + 0.6) as drawn:
        axes = drawn.add_subplot()
        axes.imshow(shown, cmap=colours, vmin=0, vmax=1, extent=extent, interpolation_stage="data")
        for row in range(rows if 0 < share < 1 else 0):
            for column in range(columns):
                x, y = column * step, row * step
                corner = ([x, x + share, x + share], [y + share, y + share, y + 1])
                axes.plot(*corner, color="#ffffff", linewidth=0.7, linestyle=(0, (3, 2)))
        heads = [f"head {head + 1}" for head in range(columns)]
        layers = [f"layer {layer + 1}" for layer in maps["layers"]]
        axes.set_xticks([column * step + 0.5 for column in range(columns)], heads)
        axes.set_yticks([row * step + 0.5 for row in range(rows)], layers, rotation=90, va="center")
        _bare(axes)
        axes.set_xlabel(f"keys 1 … {maps['length']} to the right, queries downwards, in each map")
        scale = cm.ScalarMappable(colors.PowerNorm(GAMMA, 0, maps["full"]), SEQUENTIAL)
        label = "attention (share of a query)"
        drawn.colorbar(scale, ax=axes, label=label, extend="max", aspect=30)
    return drawn


def pictures(model: Result) -> dict[str, Figure]:
    """Return the figures of one model by name: where it looks, and what its encoding has learned, if it learns."""
    draws = [attention, look_back]
    if model["templates"]:
        draws.append(templates)
        draws += [all_templates] if model["templates"]["features"] > 1 else []
    return {draw.__name__: draw(model) for draw in draws}


def changes(rows: Sequence[Row], control: Row, measures: Sequence[str]) -> Figure:
    """Return how far each measure of other rows is from the control's, with 95 % intervals, the best on top."""
    others = [row for row in rows if row is not control and row.values]
    others.sort(key=lambda row: row.change(control, measures[-1])[0], reverse=True)
    with figure(7.2, 1.4 + 0.3 * len(rows)) as drawn:
        axes = drawn.subplots()
        for number, measure in enumerate(measures):
            look, found = series(number), [row.change(control, measure) for row in others]
            places = np.arange(len(others)) + 0.15 * (len(measures) / 2 - 0.5 - number)
            axes.errorbar(
                [mean for mean, _ in found], places, xerr=[half or 0.0 for _, half in found],
                fmt=look.marker, color=look.color, capsize=2.5, label=f"positions {measure}",
            )  # fmt: skip
        axes.axvline(0, color=FAINT, linewidth=0.8)
        axes.set_yticks(range(len(others)), [row.encoding for row in others])
        axes.set_xlabel(f"change of the perplexity against {control.encoding}, 95 % intervals")
        _legend(drawn, axes)
    return drawn


def _mark_trained(axes: Axes, lengths: set[int], *, named: bool = True) -> None:
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
    """Draw means along the positions, each over its stretch, with their 95 % intervals."""
    look = series(model["number"])
    x = [(row["start"] + row["stop"]) / 2 for row in rows]
    mean = [row["mean"] for row in rows]
    axes.plot(x, mean, color=look.color, linestyle=look.linestyle, label=model["model"])
    if shaded:
        low, high = (
            [nan if row[side] is None else row[side] for row in rows] for side in ("low", "high")
        )  # one piece has no interval
        axes.fill_between(x, low, high, color=look.color, alpha=0.13, linewidth=0)


def _mosaic(pictures: np.ndarray) -> np.ndarray:
    """Lay out (rows, columns, P, P) as one picture, a gap after each."""
    gap = max(1, round(pictures.shape[2] * GAP))
    padded = np.pad(pictures, ((0, 0), (0, 0), (0, gap), (0, gap)), constant_values=np.nan)
    rows, columns, height, width = padded.shape
    return padded.transpose(0, 2, 1, 3).reshape(rows * height, columns * width)


def _bare(axes: Axes) -> None:
    """Leave the names, those of columns on top, and take away grid, spines and tick marks."""
    axes.xaxis.tick_top()
    axes.grid(visible=False)
    axes.tick_params(length=0, labelsize=8)
    axes.spines[:].set_visible(False)


def _legend(drawn: Figure, axes: Axes) -> None:
    """Put a legend above the axes, where it hides nothing."""
    handles, labels = axes.get_legend_handles_labels()
    most = max(1, min(4, 92 // (max(map(len, labels), default=0) + 8)))
    rows = -(-len(labels) // most)
    columns = -(-len(labels) // max(1, rows))  # no more than these rows take
    drawn.legend(handles, labels, loc="outside upper left", ncols=max(1, columns))
