"""The one look of all figures: colours, lines and type, the same on a light page and on a dark one.

A figure is drawn with the colours of a light page. `svg` names each of them by a variable of the page's style sheet, so
that one drawing follows the reader's setting; `png` keeps them. Series differ in colour, dash and marker at once: the
colours are those of Okabe and Ito (2008), which people who confuse red and green can tell apart.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib
from matplotlib.figure import Figure

INK, FAINT, LINE, PAPER = "#1b1f24", "#5b6470", "#d5d9de", "#fdfdfc"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#a8568a", "#b58900", "#3f8fc4", "#6b7280")
_DARK = ("#4fb0e8", "#f58a4b", "#2fc79a", "#e08fc0", "#e5bd3d", "#8ccbf2", "#a3abb8")
DASHES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
SEQUENTIAL, DIVERGING = "viridis", "RdBu_r"
STEPS = 200  # colours of a map
DOTS_PER_INCH = 160  # of a PNG file

Result = Mapping[str, Any]  # of an experiment, as plain data

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
