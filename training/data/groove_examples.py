"""From a groove to one training sequence: a crop from some bar on, or, of one in bars, an example of a goal.

An example is laid out as the language lays out what it gives a model to complete, so that training and generation
agree; the crop is chosen so that the goal is in it.
"""

from __future__ import annotations

import numpy as np

from tokenization.goal import COUNTED
from tokenization.groove.language import Groove
from tokenization.groove.tokens import BAR_TICKS, TRACKS
from tokenization.groove_2 import layouts
from tokenization.score import Notes
from training.config import DataConfig
from training.data.augmentation import (
    Another,
    drums_of_another,
    first_to_the_end,
    gap_that_fits,
    heard_from,
    kind_of,
    start_bar,
    transposed_trio,
)

MARKS = 4  # begin, end, and around what stands after a gap


def cut_groove(
    groove: Groove,
    ids: np.ndarray,
    bars: np.ndarray,
    config: DataConfig,
    random: np.random.Generator,
    another: Another,
) -> np.ndarray:
    """Return up to length + 1 tokens of a trio spelled anew from a bar on, by chance laid out for a goal."""
    kind = kind_of(groove, config, random)
    drums = drums_of_another(groove, config, random, another)
    start = first_to_the_end(bars, len(ids), config) if kind == "ending" else 0
    if kind in ("plain", "accompaniment"):
        start = start_bar(bars, len(ids), config, random)
    notes = heard_from(start * BAR_TICKS, groove.notes(ids), drums, config, random)
    notes = transposed_trio(notes, config.transpose, random)
    return _laid_out(kind, groove, notes, config, random)[: config.trained_length + 1].astype(
        np.uint16
    )


def _laid_out(
    kind: str, groove: Groove, notes: Notes, config: DataConfig, random: np.random.Generator
) -> np.ndarray:
    if kind == "ending":
        return layouts.ending(notes, int(random.integers(1, COUNTED + 1)))
    if kind == "accompaniment":
        given = _given(np.unique(notes.track), random)
        if len(given):
            return layouts.accompaniment(notes, given.tolist(), chords=groove.has_chords)
    if kind == "gap":
        return _gap(groove, notes, config, random)
    return groove.spell(notes)


def _given(tracks: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Return some of the tracks that play, but not all, and those that are silent; none where a single one plays."""
    if len(tracks) < 2:
        return tracks[:0]
    given = random.permutation(tracks)[: random.integers(1, len(tracks))]
    return np.union1d(given, np.setdiff1d(range(len(TRACKS)), tracks))


def _gap(
    groove: Groove, notes: Notes, config: DataConfig, random: np.random.Generator
) -> np.ndarray:
    """Return a piece with a gap somewhere, from the first bar on from which all that fits."""
    ids = groove.spell(notes)
    found = gap_that_fits(np.append(groove.bars(ids), len(ids)), MARKS, config, random)
    if found is None:
        return ids
    first, start, stop = found
    line = first * BAR_TICKS
    later = notes[notes.onset_ticks >= line]
    later = later.replace(onset_ticks=later.onset_ticks - line)
    return layouts.gap(later, start - first, stop - first)
