"""Pictures of results: attention maps and templates, each drawn into an axis, which is returned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.image import AxesImage

from evaluation.maps import unpack
from evaluation.plot_style import DIVERGING, SEQUENTIAL

Result = Mapping[str, Any]


def attention_map(axes: Axes, drawn: Result, layer: int, head: int, trained_length: int) -> Axes:
    """Draw one map, keys to the right and queries downwards, and where the trained length ends; layer by its place."""
    pixels = unpack(drawn["pixels"])[layer, head].astype(float) / 255
    seen = np.ma.masked_array(pixels, np.triu(np.ones(pixels.shape, dtype=bool), 1))
    extent = (0, drawn["length"], drawn["length"], 0)
    colours = colormaps[SEQUENTIAL].with_extremes(bad=(0, 0, 0, 0))
    axes.imshow(seen, cmap=colours, vmin=0, vmax=1, extent=extent, rasterized=True)
    if 0 < trained_length < drawn["length"]:
        line = {"color": "#ffffff", "linewidth": 0.7, "linestyle": (0, (3, 2))}
        axes.plot(
            [0, trained_length, trained_length], [trained_length] * 2 + [drawn["length"]], **line
        )
    axes.grid(visible=False)
    for side in axes.spines.values():
        side.set_visible(False)
    axes.set_xticks([])
    axes.set_yticks([])
    return axes


def all_templates(axes: Axes, drawn: Result, head: int) -> AxesImage:
    """Draw all templates of a head, a line each, sorted by how fast they turn; the largest of each is 1."""
    values = unpack(drawn["all"])[head].astype(float) / 127
    turns = np.abs(np.diff(values, axis=-1)).sum(-1)
    image = axes.imshow(
        values[np.argsort(turns)], cmap=DIVERGING, vmin=-1, vmax=1, aspect="auto",
        extent=(0, drawn["length"], drawn["features"], 0), rasterized=True,
    )  # fmt: skip
    axes.grid(visible=False)
    axes.set_title(f"head {head + 1}", fontsize=8, fontweight="normal")
    axes.tick_params(labelsize=7, left=False, labelleft=False)
    return image
