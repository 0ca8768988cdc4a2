"""From a prepared piece in a language of the papers to one training sequence: a crop, transposed, without some tracks.

Everything works on token arrays and draws from the generator it is given (Liutkus et al. 2021, appendices C.1 and C.2).
"""

from __future__ import annotations

from collections.abc import Callable
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
Moved = TypeVar("Moved")
Another = Callable[[np.random.Generator], np.ndarray]
"""Draws another piece to train on: its ids."""

Cut = Callable[[Any, np.ndarray, np.ndarray, DataConfig, np.random.Generator, Another], np.ndarray]
"""Makes a training sequence, of a language, of a piece's ids and where its bars begin."""


def start_bar(
    bars: np.ndarray, tokens: int, config: DataConfig, random: np.random.Generator
) -> int:
    """Return a bar that leaves a whole crop after it; the first where none does, or by chance.

    With steps of several bars, as the published code of the groove experiment draws them: one, or as many as fit into
    half of the piece and into 64 bars, whatever is left then.
    """
    if config.skip_chance < 1 and random.random() >= config.skip_chance:
        return 0
    if config.skip_step > 1:
        steps = min(MOST_SKIPPED, len(bars) // 2) // config.skip_step
        return config.skip_step * int(random.integers(1, steps + 1)) if steps else 0
    last = int(np.searchsorted(bars, tokens - config.trained_length - 1, side="right"))
    return int(random.integers(last)) if last > 1 else 0


def _kept(probability: float, random: np.random.Generator) -> np.ndarray:
    """Return the tracks that stay when each is dropped by chance, and at least one."""
    tracks = np.array([BASS, DRUMS, OTHER])
    while True:
        kept = tracks[random.random(len(tracks)) >= probability]
        if len(kept):
            return kept


def moved(most: int, random: np.random.Generator, move: Callable[[int], Moved | None]) -> Moved:
    """Return music moved by up to `most` semitones; a move out of the range, which gives None, is drawn again."""
    drawn = (random.permutation(2 * most + 1) - most).tolist()
    # A move by 0 is always in the range.
    return next(found for semitones in drawn if (found := move(semitones)) is not None)


def transposed_trio(notes: Notes, most: int, random: np.random.Generator) -> Notes:
    """Return notes moved by up to `most` semitones, all but the drums."""
    if not len(notes):
        return notes
    melodic = notes.track != DRUMS

    def move(semitones: int) -> Notes | None:
        pitch = notes.pitch + semitones * melodic
        fits = pitch.min() >= 0 and pitch.max() < PITCHES
        return notes.replace(pitch=pitch).sorted() if fits else None

    return moved(most, random, move)


def cut_groove(
    groove: Groove,
    ids: np.ndarray,
    bars: np.ndarray,
    config: DataConfig,
    random: np.random.Generator,
    another: Another,
) -> np.ndarray:
    """Return up to length + 1 tokens of a trio spelled again from a bar on, perhaps with silent tracks, other drums."""
    drums = None
    if config.mix_drums and random.random() < config.mix_drums:
        # A style that nobody has heard, to be learned from its beginning.
        notes = groove.notes(another(random))
        drums = notes[notes.track == DRUMS]
    line = start_bar(bars, len(ids), config, random) * BAR_TICKS
    notes = groove.notes(ids)
    if drums is not None and (drums.onset_ticks >= line).any():
        notes = Notes.concatenate([notes[notes.track != DRUMS], drums])
    after = notes.onset_ticks >= line
    heard = after & np.isin(notes.track, _kept(config.drop_track, random))
    notes = notes[
        heard if heard.any() else after
    ]  # where the tracks left are silent, none is dropped
    notes = notes.replace(onset_ticks=notes.onset_ticks - line)
    notes = transposed_trio(notes, config.transpose, random)
    return groove.spell(notes)[: config.trained_length + 1].astype(np.uint16)


def cut_remi(
    remi: Remi,
    ids: np.ndarray,
    bars: np.ndarray,
    config: DataConfig,
    random: np.random.Generator,
    another: Another,
) -> np.ndarray:
    """Return up to length + 1 tokens from a bar on, transposed, chords too."""
    start = start_bar(bars, len(ids), config, random)
    crop = ids[int(bars[start]) if start else 0 :][: config.trained_length + 1]
    transpose = partial(transposed, remi.vocabulary, crop)
    return moved(config.transpose, random, transpose).astype(np.uint16)
