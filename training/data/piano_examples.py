"""From a piano piece to one training sequence: a crop, or by chance an example of a goal, where the language has any.

An example is laid out as the language lays out what it gives a model to complete, so that training and generation
agree; the crop is chosen so that the goal is in it.
"""

from __future__ import annotations

import numpy as np

from tokenization.goal import COUNTED
from tokenization.remi.language import Remi
from tokenization.remi.layouts import bar_offsets, ending, from_bar, gap
from training.config import DataConfig
from training.data.augmentation import (
    Another,
    first_to_the_end,
    gap_that_fits,
    kind_of,
    start_bar,
    transposed,
)

MARKS = 6  # begin, end, those around what stands after a gap, and two metres


def cut_remi(
    remi: Remi,
    ids: np.ndarray,
    bars: np.ndarray,
    config: DataConfig,
    random: np.random.Generator,
    another: Another,
) -> np.ndarray:
    """Return up to length + 1 tokens from a bar on, transposed, chords too, by chance laid out for a goal."""
    kind, laid_out = kind_of(remi, config, random), None
    if kind == "gap":
        laid_out = _gap(ids, config, random)
    elif kind == "ending":
        start = first_to_the_end(bars, len(ids) + 1, config)  # and perhaps a metre
        rest = from_bar(ids, int(bars[start])) if start else ids
        laid_out = ending(rest, int(random.integers(1, COUNTED + 1)))
    if laid_out is None:
        start = start_bar(bars, len(ids), config, random)
        laid_out = from_bar(ids, int(bars[start])) if start else ids
    crop = laid_out[: config.trained_length + 1]
    return transposed(remi, crop, config.transpose, random).astype(np.uint16)


def _gap(ids: np.ndarray, config: DataConfig, random: np.random.Generator) -> np.ndarray | None:
    """Return a piece with a gap somewhere, from the first bar on from which all that fits; None where nothing does."""
    found = gap_that_fits(bar_offsets(ids), MARKS, config, random)
    return None if found is None else gap(ids, *found)
