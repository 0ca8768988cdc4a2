"""Pictures of results: attention maps and templates, many side by side in one axis, which is returned."""

from __future__ import annotations

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes

from evaluation.maps import unpack
from evaluation.plots.style import DIVERGING, SEQUENTIAL, STEPS, Result

GAP = 0.07  # between pictures, of their side


def attention_maps(axes: Axes, drawn: Result, trained_length: int) -> Axes:
    """Draw all maps, a row a layer and a column a head, and in each where the trained length ends.

    In a map keys run to the right and queries downwards.
    """
    pixels = unpack(drawn["pixels"]).astype(float) / 255  # (layers, heads, P, P)
    later = np.triu(np.ones(pixels.shape[2:], dtype=bool), 1)
    shown = np.ma.masked_invalid(_mosaic(np.where(later, np.nan, pixels)))
    rows, columns = pixels.shape[:2]
    step = 1 + GAP
    extent = (0, columns * step, rows * step, 0)  # a map's side is 1
    colours = colormaps[SEQUENTIAL].resampled(STEPS)
    axes.imshow(shown, cmap=colours, vmin=0, vmax=1, extent=extent, interpolation_stage="data")
    share = trained_length / drawn["length"]
    for row in range(rows if 0 < share < 1 else 0):
        for column in range(columns):
            x, y = column * step, row * step
            corner = ([x, x + share, x + share], [y + share, y + share, y + 1])
            axes.plot(*corner, color="#ffffff", linewidth=0.7, linestyle=(0, (3, 2)))
    heads = [f"head {head + 1}" for head in range(columns)]
    layers = [f"layer {layer + 1}" for layer in drawn["layers"]]
    axes.set_xticks([column * step + 0.5 for column in range(columns)], heads)
    axes.set_yticks([row * step + 0.5 for row in range(rows)], layers, rotation=90, va="center")
    axes.xaxis.tick_top()
    return _bare(axes)


def all_templates(axes: Axes, drawn: Result) -> Axes:
    """Draw all templates, a panel a head and a line each, slow ones on top; the largest weight of each is ±1."""
    values = unpack(drawn["all"]).astype(float) / 127  # (heads, features, lags)
    turns = np.abs(np.diff(values, axis=-1)).sum(-1)
    ordered = np.take_along_axis(values, np.argsort(turns)[..., None], 1)
    gap = np.full((len(values), values.shape[1], max(1, round(values.shape[2] * GAP))), np.nan)
    panels = np.ma.masked_invalid(np.concatenate([*np.concatenate([ordered, gap], 2)], 1))
    step = 1 + gap.shape[2] / values.shape[2]
    extent = (0, len(values) * step, values.shape[1], 0)
    axes.imshow(
        panels, cmap=colormaps[DIVERGING].resampled(STEPS), vmin=-1, vmax=1, extent=extent,
        aspect="auto", interpolation="nearest",
    )  # fmt: skip
    names = [f"head {head + 1}" for head in range(len(values))]
    axes.set_xticks([head * step + 0.5 for head in range(len(values))], names)
    axes.set_yticks([])
    axes.xaxis.tick_top()
    bar = drawn.get("bar")
    lags = f"{drawn['length']} tokens" if bar is None else f"{drawn['length'] / bar:g} bars"
    axes.set_xlabel(f"lag from key to query, 0 … {lags} in each panel")
    axes.set_ylabel("features, slow to fast")
    return _bare(axes)


def _mosaic(pictures: np.ndarray) -> np.ndarray:
    """Lay out (rows, columns, P, P) as one picture, a gap after each."""
    gap = max(1, round(pictures.shape[2] * GAP))
    padded = np.pad(pictures, ((0, 0), (0, 0), (0, gap), (0, gap)), constant_values=np.nan)
    rows, columns, height, width = padded.shape
    return padded.transpose(0, 2, 1, 3).reshape(rows * height, columns * width)


def _bare(axes: Axes) -> Axes:
    """Leave the names and take away grid, spines and tick marks."""
    axes.grid(visible=False)
    axes.tick_params(length=0, labelsize=8)
    axes.spines[:].set_visible(False)
    return axes
