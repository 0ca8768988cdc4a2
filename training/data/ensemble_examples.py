"""From a piece in parts to one training sequence: some bars, in some parts, in some order, laid out for all abilities.

What is drawn for each sequence:

- which bars: a crop, the end with its countdown, or a gap and what stands around it;
- which parts, in which order, and sometimes on other instruments. Parts that come first in a bar are what is given to
  write the others to, so every order is an example of accompaniment. The chords are a part too;
- a transposition;
- what is said about the piece (style, key, tempo) and about its bars (the plan), all of it, some or nothing. So a model
  plans by itself, and follows a plan that is given.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from tokenization.ensemble.language import Ensemble
from tokenization.ensemble.layouts import (
    NO_LEVEL,
    about,
    bar_offsets,
    ending,
    from_bar,
    gap,
    key_of,
    plan_of,
    planned,
    with_parts,
)
from tokenization.ensemble.spelling import Sheet
from tokenization.ensemble.tokens import END, HARMONY, PART_NAMES, PLAN, TEMPO
from tokenization.language import COUNTED, PERIOD, transposed
from training.config import DataConfig
from training.data.examples import moved, start_bar

MARKS = 24  # tokens outside the bars: those about the piece, its parts, and around what stands after a gap
LONGEST_GAP = 8  # bars
PLANNED = 6  # tokens that a bar's plan and countdown take
# Chances of what is drawn.
ORDERED = 0.3  # that parts keep their order
WITHOUT_CHORDS = 0.4
RESTING = 0.5  # that a part is declared although it rests in all of the bars
REPLACED = 0.25  # that a part of several pianos is played by another instrument
STYLED, KEYED, TIMED = 0.5, 0.4, 0.7  # that style, key, tempo are said
UNPLANNED, FULLY_PLANNED = 0.15, 0.6
# What a melody that was written for a piano may be played by.
MELODIC = [
    PART_NAMES.index(name)
    for name in ("violin", "flute", "clarinet", "oboe", "alto_sax", "tenor_sax", "trumpet", "voice",
                 "cello", "lead", "electric_piano", "nylon_guitar", "electric_guitar", "mallets")
]  # fmt: skip
PIANO = PART_NAMES.index("piano")


def cut_ensemble(
    language: Ensemble,
    ids: np.ndarray,
    bars: np.ndarray,
    config: DataConfig,
    random: np.random.Generator,
    style: str | None = None,
) -> np.ndarray:
    """Return up to length + 1 tokens of a plain piece, laid out as drawn."""
    kind = _kind_of(config, random)
    ids = ids.astype(np.int64)
    piece, hole = _crop(kind, ids, bars, config, random)
    piece = moved(config.transpose, random, partial(transposed, language.vocabulary, piece))
    piece = _in_parts(language, piece, kind, config, random)
    sheet = language.sheet(piece)
    laid, given = piece, 0
    if kind == "ending":
        laid = ending(piece, int(random.integers(1, COUNTED + 1)))
    elif hole is not None and hole[1] <= len(sheet.bars):
        laid = gap(piece, *hole)
        given = len(language.bars(laid)) - hole[1]
    laid = planned(laid, _plan(sheet, random), given)
    key = key_of(sheet) if random.random() < KEYED else None
    laid = about(laid, style=style if random.random() < STYLED else None, key=key)
    if random.random() >= TIMED:
        laid = laid[~TEMPO.holds(laid)]
    return laid[: config.trained_length + 1].astype(np.uint16)


def _kind_of(config: DataConfig, random: np.random.Generator) -> str:
    """Return which kind of example a sequence is; nothing is drawn where there is one kind."""
    shares = {"ending": config.endings, "gap": config.gaps, "accompaniment": config.accompaniments}
    drawn = random.random() if any(shares.values()) else 1.0
    for kind, share in shares.items():
        drawn -= share
        if drawn < 0:
            return kind
    return "plain"


def _gap_that_fits(
    lines: np.ndarray, config: DataConfig, random: np.random.Generator
) -> tuple[int, int, int] | None:
    """Draw a gap of a piece whose bars begin, and the last ends, at `lines`: the bar from which it fits, start, stop.

    Laid out it takes the MARKS, and one a bar of the gap; None where it does not fit.
    """
    bars = len(lines) - 1
    length = int(random.integers(1, min(LONGEST_GAP, bars) + 1))
    start = int(random.integers(bars - length + 1))
    stop = start + length
    most = 2 * PERIOD - 1  # bars that stand after the gap, and each takes a token if it is empty
    after = int(lines[min(stop + most, bars)]) + most
    fits = after - lines[: start + 1] + length + MARKS <= config.trained_length + 1
    return (int(fits.argmax()), start, stop) if fits.any() else None


def _crop(
    kind: str,
    ids: np.ndarray,
    bars: np.ndarray,
    config: DataConfig,
    random: np.random.Generator,
) -> tuple[np.ndarray, tuple[int, int] | None]:
    """Return the bars that a sequence is made of, and of a gap its first bar and the first one after it."""
    lines = bar_offsets(ids) + PLANNED * np.arange(len(bars) + 1)
    if kind == "gap" and (found := _gap_that_fits(lines, config, random)):
        first, start, stop = found
        return from_bar(ids, first), (start - first, stop - first)
    if kind == "ending":
        # From the first bar from which the rest, counted down, fits into a sequence.
        fits = lines[-1] - lines[:-1] + MARKS + COUNTED + 1 <= config.trained_length + 1
        return from_bar(ids, int(fits.argmax()) if fits.any() else len(bars) - 1), None
    first = start_bar(bars, len(ids), config, random)
    # Some parts may be dropped, so that more bars have room.
    return from_bar(ids, first)[: 2 * config.trained_length + MARKS], None


def _in_parts(
    language: Ensemble,
    ids: np.ndarray,
    kind: str,
    config: DataConfig,
    random: np.random.Generator,
) -> np.ndarray:
    """Return the piece with some of its parts, in some order, on some instruments; at least one part plays."""
    sheet = language.sheet(ids)
    parts = sheet.parts
    plays = np.bincount(sheet.part, minlength=len(parts)) > 0
    kept = plays | (random.random(len(parts)) < RESTING)
    kept &= random.random(len(parts)) >= config.drop_track
    kept &= (parts != HARMONY) | (random.random() >= WITHOUT_CHORDS)
    if not (kept & plays & (parts != HARMONY)).any():
        kept = plays
    order = np.flatnonzero(kept)
    if kind == "accompaniment" or random.random() >= ORDERED:
        order = random.permutation(order)
    instruments = parts[order]
    pianos = np.flatnonzero(instruments == PIANO)
    # The last piano of a piece accompanies: it stays one.
    replaced = pianos[random.random(len(pianos)) < REPLACED]
    replaced = replaced[order[replaced] < np.flatnonzero(parts == PIANO).max(initial=-1)]
    instruments[replaced] = random.choice(MELODIC, len(replaced), replace=False)
    return _to_the_last_note(language, with_parts(ids, order, instruments))


def _to_the_last_note(language: Ensemble, ids: np.ndarray) -> np.ndarray:
    """Return a piece that ends with the bar of its last note, if it ends at all."""
    sheet = language.sheet(ids)
    bars = int(sheet.bar[sheet.instrument != HARMONY].max(initial=-1)) + 1
    if ids[-1] != END or bars == len(sheet.bars):
        return ids
    return np.append(ids[: language.bars(ids)[bars]], END)


def _plan(sheet: Sheet, random: np.random.Generator) -> dict[str, np.ndarray]:
    """Return what is said of each bar's plan: nothing, everything, or some kinds in some bars."""
    drawn = random.random()
    if drawn < UNPLANNED:
        return {}
    plan = plan_of(sheet)
    if drawn < UNPLANNED + FULLY_PLANNED:
        return plan
    kinds = [name for name in PLAN if random.random() < 0.5]
    share = random.random() if random.random() < 0.5 else 1.0
    said = random.random(len(sheet.bars)) < share
    return {name: np.where(said, plan[name], NO_LEVEL) for name in kinds}
