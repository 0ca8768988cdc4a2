"""From a prepared piece to one training sequence: a crop, transposed and without some tracks, or an example of a goal.

An example is laid out as the language lays out what it gives a model to complete, so that training and generation
agree; the crop is chosen so that the goal is in it. Everything works on token arrays and draws from the generator it is
given (Liutkus et al. 2021, appendices C.1 and C.2).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tokenization.groove.language import Groove
from tokenization.groove.spelling import BAR_TICKS, BASS, DRUMS, OTHER, PITCHES, TRACKS
from tokenization.groove_2 import goals
from tokenization.language import COUNTED, PERIOD, Language
from tokenization.remi.language import Remi
from tokenization.score import Notes
from training.config import DataConfig

MOST_SKIPPED = 64  # bars
LONGEST_GAP = 8  # bars
Another = Callable[[np.random.Generator], np.ndarray]
"""Draws another piece to train on: its ids."""

Cut = Callable[[Any, np.ndarray, np.ndarray, DataConfig, np.random.Generator, Another], np.ndarray]
"""Makes a training sequence, of a language, of a piece's ids and where its bars begin."""


def drums_of_another(
    groove: Groove, config: DataConfig, random: np.random.Generator, another: Another
) -> Notes | None:
    """Return another piece's drums, by chance: a style that nobody has heard, to be learned from its beginning."""
    if not config.mix_drums or random.random() >= config.mix_drums:
        return None
    notes = groove.notes(another(random))
    return notes[notes.track == DRUMS]


def heard_from(
    line: int, notes: Notes, drums: Notes | None, config: DataConfig, random: np.random.Generator
) -> Notes:
    """Return a trio's notes from a line on, with some tracks silent, to other drums where there are some."""
    if drums is not None and (drums.onset_ticks >= line).any():
        notes = Notes.concatenate([notes[notes.track != DRUMS], drums])
    later = (notes.onset_ticks >= line) & np.isin(notes.track, _kept(config.drop_track, random))
    if not later.any():  # the tracks left are silent: drop none
        later = notes.onset_ticks >= line
    notes = notes[later]
    return notes.replace(onset_ticks=notes.onset_ticks - line)


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
        return (
            config.skip_step * int(random.integers(1, steps + 1))
            if config.skip_bars and steps
            else 0
        )
    last = int(np.searchsorted(bars, tokens - config.trained_length - 1, side="right"))
    return int(random.integers(last)) if config.skip_bars and last > 1 else 0


def _kept(probability: float, random: np.random.Generator) -> np.ndarray:
    """Return the tracks that stay when each is dropped by chance, and at least one."""
    tracks = np.array([BASS, DRUMS, OTHER])
    while True:
        kept = tracks[random.random(len(tracks)) >= probability]
        if len(kept):
            return kept


def transposed(
    language: Remi, ids: np.ndarray, most: int, random: np.random.Generator
) -> np.ndarray:
    """Return the ids moved by up to `most` semitones; a move out of the range is drawn again."""
    for semitones in random.permutation(2 * most + 1) - most:
        moved = language.transpose(ids, int(semitones))
        if moved is not None:
            return moved
    return ids


def transposed_trio(notes: Notes, most: int, random: np.random.Generator) -> Notes:
    """Return notes moved by up to `most` semitones, all but the drums; a move out of the range is drawn again."""
    if not len(notes):
        return notes
    melodic = notes.track != DRUMS
    for semitones in random.permutation(2 * most + 1) - most:
        pitch = notes.pitch + semitones * melodic
        if pitch.min() >= 0 and pitch.max() < PITCHES:
            return notes.replace(pitch=pitch).sorted()
    return notes


def kind_of(language: Language, config: DataConfig, random: np.random.Generator) -> str:
    """Return which kind of example a sequence is; nothing is drawn where there is one kind."""
    if not language.can_end():
        return "plain"
    shares = {"ending": config.endings, "gap": config.gaps, "accompaniment": config.accompaniments}
    drawn = random.random() if any(shares.values()) else 1.0
    for kind, share in shares.items():
        drawn -= share
        if drawn < 0:
            return kind
    return "plain"


def gap_that_fits(
    lines: np.ndarray, marks: int, config: DataConfig, random: np.random.Generator
) -> tuple[int, int, int] | None:
    """Draw a gap of a piece whose bars begin, and the last ends, at `lines`: the bar from which it fits, start, stop.

    Laid out it takes so many `marks`, and one a bar of the gap; None where it does not fit.
    """
    bars = len(lines) - 1
    length = int(random.integers(1, min(LONGEST_GAP, bars) + 1))
    start = int(random.integers(bars - length + 1))
    stop = start + length
    most = 2 * PERIOD - 1  # bars that stand after the gap, and each takes a token if it is empty
    after = int(lines[min(stop + most, bars)]) + most
    fits = after - lines[: start + 1] + length + marks <= config.trained_length + 1
    return (int(fits.argmax()), start, stop) if fits.any() else None


def first_to_the_end(bars: np.ndarray, tokens: int, config: DataConfig) -> int:
    """Return the first bar from which the rest of a piece, counted down, fits into a sequence."""
    fits = tokens - bars + COUNTED + 1 <= config.trained_length + 1
    return int(fits.argmax()) if fits.any() else len(bars) - 1


# Examples of grooves.

GROOVE_MARKS = 4  # begin, end, and around what stands after a gap


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
        return goals.ending(notes, int(random.integers(1, COUNTED + 1)))
    if kind == "accompaniment":
        given = _given(np.unique(notes.track), random)
        if len(given):
            return goals.accompaniment(notes, given.tolist(), chords=groove.has_chords)
    if kind == "gap":
        return _groove_gap(groove, notes, config, random)
    return groove.spell(notes)


def _given(tracks: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Return some of the tracks that play, but not all, and those that are silent; none where a single one plays."""
    if len(tracks) < 2:
        return tracks[:0]
    given = random.permutation(tracks)[: random.integers(1, len(tracks))]
    return np.union1d(given, np.setdiff1d(range(len(TRACKS)), tracks))


def _groove_gap(
    groove: Groove, notes: Notes, config: DataConfig, random: np.random.Generator
) -> np.ndarray:
    """Return a piece with a gap somewhere, from the first bar on from which all that fits."""
    ids = groove.spell(notes)
    found = gap_that_fits(np.append(groove.bars(ids), len(ids)), GROOVE_MARKS, config, random)
    if found is None:
        return ids
    first, start, stop = found
    line = first * BAR_TICKS
    later = notes[notes.onset_ticks >= line]
    later = later.replace(onset_ticks=later.onset_ticks - line)
    return goals.gap(later, start - first, stop - first)


# Examples of piano pieces.


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
    return transposed(remi, crop, config.transpose, random).astype(np.uint16)
