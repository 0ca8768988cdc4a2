"""Training sequences from pieces in the papers' languages: random crops, transposed, without some of the tracks.

The augmentation is that of Liutkus et al. 2021, appendices C.1 and C.2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np

from tokenization.groove.language import Groove
from tokenization.groove.spelling import BAR_TICKS, BASS, DRUMS, OTHER, PITCHES
from tokenization.language import transposed
from tokenization.remi.language import Remi
from tokenization.score import Notes
from training.config import DataConfig

MOST_SKIPPED = 64  # bars
Music = TypeVar("Music")
Another = Callable[[np.random.Generator], np.ndarray]
"""Returns the ids of a random training piece."""


@dataclass(frozen=True, kw_only=True)
class Example:
    """A piece from which a training sequence is cut."""

    ids: np.ndarray
    bars: np.ndarray  # offsets
    another: Another
    style: str | None = None


Cut = Callable[[Any, Example, DataConfig, np.random.Generator], np.ndarray]
"""Returns a training sequence of an example in a language."""


def start_bar(
    bars: np.ndarray, tokens: int, config: DataConfig, random: np.random.Generator
) -> int:
    """Return the bar that a crop starts at: a random one that leaves room for a whole crop, or the first.

    With a `skip_step` above 1 it is a multiple of the step in the first half of the piece, at most MOST_SKIPPED bars
    in, however little is left after it, as in the published code of the groove experiment.
    """
    if config.skip_chance < 1 and random.random() >= config.skip_chance:
        return 0
    if config.skip_step > 1:
        steps = min(MOST_SKIPPED, len(bars) // 2) // config.skip_step
        return config.skip_step * int(random.integers(1, steps + 1)) if steps else 0
    last = int(np.searchsorted(bars, tokens - config.length - 1, side="right"))
    return int(random.integers(last)) if last > 1 else 0


def _kept_tracks(probability: float, random: np.random.Generator) -> np.ndarray:
    """Return the tracks that are left when each is dropped with a probability; at least one."""
    tracks = np.array([BASS, DRUMS, OTHER])
    while True:
        kept = tracks[random.random(len(tracks)) >= probability]
        if len(kept):
            return kept


def randomly_transposed(
    most: int, random: np.random.Generator, move: Callable[[int], Music | None]
) -> Music:
    """Return music transposed by a random interval of up to `most` semitones for which `move` does not return None."""
    drawn = (random.permutation(2 * most + 1) - most).tolist()
    # Moving by 0 semitones never leaves the range.
    return next(found for semitones in drawn if (found := move(semitones)) is not None)


def transposed_trio(notes: Notes, most: int, random: np.random.Generator) -> Notes:
    """Return notes transposed by up to `most` semitones, except the drums."""
    if not len(notes):
        return notes
    melodic = notes.track != DRUMS

    def move(semitones: int) -> Notes | None:
        pitch = notes.pitch + semitones * melodic
        fits = pitch.min() >= 0 and pitch.max() < PITCHES
        return notes.replace(pitch=pitch).sorted() if fits else None

    return randomly_transposed(most, random, move)


def cut_groove(
    groove: Groove, example: Example, config: DataConfig, random: np.random.Generator
) -> np.ndarray:
    """Return a training sequence of a trio: transposed, some tracks silenced, sometimes with other drums."""
    drums = None
    if config.mix_drums and random.random() < config.mix_drums:
        # The result is a new style, which the model has to learn from the sequence itself.
        notes = groove.notes(example.another(random))
        drums = notes[notes.track == DRUMS]
    start = start_bar(example.bars, len(example.ids), config, random) * BAR_TICKS
    notes = groove.notes(example.ids)
    if drums is not None and (drums.onset_ticks >= start).any():
        notes = Notes.concatenate([notes[notes.track != DRUMS], drums])
    after = notes.onset_ticks >= start
    kept = after & np.isin(notes.track, _kept_tracks(config.drop_track, random))
    # If the remaining tracks are silent, no track is dropped.
    notes = notes[kept if kept.any() else after]
    notes = notes.replace(onset_ticks=notes.onset_ticks - start)
    notes = transposed_trio(notes, config.transpose, random)
    return groove.spell(notes)[: config.length + 1].astype(np.uint16)


def cut_remi(
    remi: Remi, example: Example, config: DataConfig, random: np.random.Generator
) -> np.ndarray:
    """Return a training sequence of a piece: a transposed crop."""
    ids, bars = example.ids, example.bars
    start = start_bar(bars, len(ids), config, random)
    crop = ids[int(bars[start]) if start else 0 :][: config.length + 1]
    transpose = partial(transposed, remi.vocabulary, crop)
    return randomly_transposed(config.transpose, random, transpose).astype(np.uint16)
