"""Training sequences from pieces in the ensemble language, with examples of everything that the model is to learn.

For each sequence the following is drawn:

- its bars: a crop, the end with a countdown, or a gap and the bars around it;
- its parts, their order, and whether they are played on other instruments. Within a bar, later parts accompany earlier
  ones, so every order is an example of accompaniment. The chords are a part too;
- for a band, whether it plays in a new style, and for a song, whether bands join it (new_styles.py);
- whether it is as plain as many files are, without dynamics and in sixteenths;
- a transposition, and whether it is all that changes;
- which attributes of the piece (style, key, tempo) and of its bars (the plan) are encoded: all, some or none, so that
  the model learns both to plan by itself and to follow a given plan.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from tokenization.ensemble.beginning import key_of, with_style_and_key
from tokenization.ensemble.language import Ensemble
from tokenization.ensemble.plan import NO_LEVEL, plan_of, with_plan
from tokenization.ensemble.sequences import bar_offsets, from_bar, gap, with_countdown, with_parts
from tokenization.ensemble.spelling import Sheet
from tokenization.ensemble.tokens import (
    DRUMS,
    END,
    FAMILIES,
    FLAT_VELOCITY,
    HARMONY,
    MOST_VOICES,
    PART,
    PART_NAMES,
    PLAN,
    TEMPO,
)
from tokenization.language import COUNTED, PERIOD, transposed
from tokenization.score import Score
from training.config import DataConfig
from training.data.examples import Another, Example, randomly_transposed, start_bar
from training.data.new_styles import in_new_style, in_shorter_bars, one_metre, with_bands

MARKS = 24  # tokens outside bars, at most: attributes, parts, around the bars after a gap
LONGEST_GAP = 8  # bars
PLANNED = 6  # tokens of a bar's plan and countdown, at most
# Probabilities.
ORDERED = 0.3  # parts keep their order
WITHOUT_CHORDS = 0.4
RESTING = 0.5  # a part that rests throughout the sequence is declared all the same
ALIKE = 0.3  # of the pieces on other instruments, those with one instrument for all parts
KEPT = 0.3  # in the others, an instrument stays
APART = 0.5  # and parts of one instrument are drawn apart
STYLED, KEYED, TIMED = 0.5, 0.4, 0.7  # style, key and tempo are encoded
UNPLANNED, FULLY_PLANNED = 0.15, 0.6
# Instruments for any part; for melodies in a high and in a low register (with a median pitch below MIDDLE).
ANY, HIGH, LOW = (
    [PART_NAMES.index(name) for name in names.split()]
    for names in (
        "piano electric_piano harpsichord mallets organ accordion nylon_guitar steel_guitar "
        "electric_guitar strings harp voice brass lead pad plucked",
        "violin trumpet alto_sax oboe clarinet flute recorder muted_guitar distorted_guitar pizzicato",
        "viola cello contrabass trombone tuba horn tenor_sax bassoon distorted_guitar synth_bass "
        "acoustic_bass",
    )
)
BASS = [PART_NAMES.index(name) for name in FAMILIES["bass"]]
MIDDLE = 57
MONOPHONIC = 0.95  # a part with more onsets than this fraction of its notes is a melody
BAND, SONGS = "band", ("pop", "song")  # styles of sets of bands, and of songs
MORE = (0, 1, 1, 2, 2, 3)  # bands whose parts join, besides the first
IN_SIXTEENTHS = 0.85  # a piece of which more notes start on sixteenths may be rounded to them
DRAWS = 8  # other pieces to try for a band of the same metre


def cut_ensemble(
    language: Ensemble, example: Example, config: DataConfig, random: np.random.Generator
) -> np.ndarray:
    """Return a training sequence of a plain piece: up to config.length + 1 tokens."""
    kind, style = _draw_kind(config, random), example.style
    piece, gap_bars = _crop(kind, example.ids.astype(np.int64), example.bars, config, random)
    mixed = {BAND: config.mix_styles}.get(style or "", config.add_bands * (style in SONGS))
    if mixed and kind in ("plain", "accompaniment") and random.random() < mixed:
        piece = _mixed(language, piece, style == BAND, example.another, random)
    if config.make_plain and kind != "gap" and random.random() < config.make_plain:
        piece = _made_plain(language, piece, random)
    piece = randomly_transposed(
        config.transpose, random, partial(transposed, language.vocabulary, piece)
    )
    if config.unchanged and kind == "plain" and random.random() < config.unchanged:
        return piece[: config.length + 1].astype(np.uint16)
    piece = _draw_parts(language, piece, kind, config, random)
    sheet = language.sheet(piece)
    sequence, given = piece, 0
    if kind == "ending":
        sequence = with_countdown(piece, int(random.integers(1, COUNTED + 1)))
    elif gap_bars is not None and gap_bars[1] <= len(sheet.bars):
        sequence = gap(piece, *gap_bars)
        given = len(language.bars(sequence)) - gap_bars[1]
    sequence = with_plan(sequence, _draw_plan(sheet, random), given)
    # By the notes alone, as always in training, so that batches stay those of earlier versions.
    key = key_of(sheet, hears_bass=False) if random.random() < KEYED else None
    sequence = with_style_and_key(
        sequence, style=style if random.random() < STYLED else None, key=key
    )
    if random.random() >= TIMED:
        sequence = sequence[~TEMPO.holds(sequence)]
    return sequence[: config.length + 1].astype(np.uint16)


def _draw_kind(config: DataConfig, random: np.random.Generator) -> str:
    """Return the kind of example that a sequence becomes; uses no random number if all are plain."""
    kinds = {"ending": config.endings, "gap": config.gaps, "accompaniment": config.accompaniments}
    drawn = random.random() if any(kinds.values()) else 1.0
    for kind, fraction in kinds.items():
        drawn -= fraction
        if drawn < 0:
            return kind
    return "plain"


def _draw_gap(
    offsets: np.ndarray, config: DataConfig, random: np.random.Generator
) -> tuple[int, int, int] | None:
    """Draw a gap: the earliest bar from which all fits into a sequence, the gap's first bar, the first one after it.

    `offsets` are those of the K bars and of the end: (K + 1,). Returns None if the gap does not fit.
    """
    bars = len(offsets) - 1
    length = int(random.integers(1, min(LONGEST_GAP, bars) + 1))
    start = int(random.integers(bars - length + 1))
    stop = start + length
    # At most; a bar past the end of the piece is a single token.
    given = 2 * PERIOD - 1
    end = int(offsets[min(stop + given, bars)]) + given
    # One token per bar of the gap counts down to its end.
    fits = end - offsets[: start + 1] + length + MARKS <= config.length + 1
    return (int(fits.argmax()), start, stop) if fits.any() else None


def _crop(
    kind: str,
    ids: np.ndarray,
    bars: np.ndarray,
    config: DataConfig,
    random: np.random.Generator,
) -> tuple[np.ndarray, tuple[int, int] | None]:
    """Return an excerpt of a piece and, for a gap, its first bar and the first one after it."""
    offsets = bar_offsets(ids) + PLANNED * np.arange(len(bars) + 1)
    if kind == "gap" and (drawn := _draw_gap(offsets, config, random)):
        first, start, stop = drawn
        return from_bar(ids, first), (start - first, stop - first)
    if kind == "ending":
        # From the earliest bar such that the rest, with its countdown, fits into a sequence.
        fits = offsets[-1] - offsets[:-1] + MARKS + COUNTED + 1 <= config.length + 1
        return from_bar(ids, int(fits.argmax()) if fits.any() else len(bars) - 1), None
    first = start_bar(bars, len(ids), config, random)
    # Longer than a sequence, since dropping parts makes room for more bars.
    return from_bar(ids, first)[: 2 * config.length + MARKS], None


def _mixed(
    language: Ensemble,
    ids: np.ndarray,
    is_band: bool,
    another: Another,
    random: np.random.Generator,
) -> np.ndarray:
    """Return a band's piece in a new style, or a song with a band; parts of more bands may join.

    A piece of several metres is returned unchanged.
    """
    score = language.decode(ids)
    metre = one_metre(score)
    if metre is None:
        return ids
    bands = [
        band
        for _ in range(1 + random.choice(MORE))
        if (band := _draw_band(language, metre, len(ids), another, random)) is not None
    ]
    if is_band:
        score = in_new_style(score, bands[0] if bands else None, random)
        bands = bands[1:]
    if bands:
        score = with_bands(score, bands, random)
    return _encoded(language, score, ids)


def _made_plain(language: Ensemble, ids: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Return a piece without dynamics, half of them in sixteenths if most notes start on this grid."""
    score = language.decode(ids)
    grid = score.ticks_per_beat // 4
    notes = score.notes.replace(velocity=np.full(len(score.notes), FLAT_VELOCITY))
    onset = notes.onset_ticks
    if len(notes) and (onset % grid == 0).mean() > IN_SIXTEENTHS and random.random() < 0.5:
        onset = (onset + grid // 2) // grid * grid
        duration = np.maximum(grid, (notes.duration_ticks + grid // 2) // grid * grid)
        notes = notes.replace(onset_ticks=onset, duration_ticks=duration).sorted().merged()
    if not len(notes):
        return ids
    return _encoded(language, score.replace(notes=notes), ids)


def _encoded(language: Ensemble, score: Score, ids: np.ndarray) -> np.ndarray:
    """Return the tokens of a changed piece, with an end token if the piece, `ids`, has one."""
    changed = language.encode(score).ids.astype(np.int64)
    return changed if ids[-1] == END else changed[:-1]


def _draw_band(
    language: Ensemble,
    metre: tuple[int, int],
    tokens: int,
    another: Another,
    random: np.random.Generator,
) -> Score | None:
    """Return an excerpt of another piece with drums, in a metre that it can be shortened to; None after DRAWS tries."""
    for _ in range(DRAWS):
        other = another(random).astype(np.int64)
        if (other == PART.start + DRUMS).any():
            start = int(random.integers(len(language.bars(other))))
            band = in_shorter_bars(language.decode(from_bar(other, start)[:tokens]), metre)
            if band is not None and len(band.notes):
                return band
    return None


def _draw_parts(
    language: Ensemble,
    ids: np.ndarray,
    kind: str,
    config: DataConfig,
    random: np.random.Generator,
) -> np.ndarray:
    """Return the piece with a random choice and order of its parts, some on other instruments; at least one plays."""
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
    if random.random() < config.reorchestrate:
        parts = _on_other_instruments(sheet, random)
    return _to_the_last_note(language, with_parts(ids, order, parts[order]))


def _on_other_instruments(sheet: Sheet, random: np.random.Generator) -> np.ndarray:
    """Draw other instruments for the pitched parts of a piece: (P,). Basses stay basses."""
    parts, drawn = sheet.parts.copy(), {}
    for_all = random.choice(ANY) if random.random() < ALIKE else None
    for part, own in enumerate(sheet.parts.tolist()):
        if own in BASS:
            choices = BASS
        elif own not in (*ANY, *HIGH, *LOW):
            continue
        elif for_all is not None:
            choices = [for_all]
        else:
            pitches, onsets = sheet.value[sheet.part == part], sheet.onset[sheet.part == part]
            choices = ANY
            if len(np.unique(onsets)) > MONOPHONIC * len(onsets):
                choices = ANY + (LOW if np.median(pitches) < MIDDLE else HIGH)
            choices = [own] if random.random() < KEPT else choices
        if own not in drawn or random.random() < APART:
            drawn[own] = int(random.choice(choices))
        parts[part] = drawn[own]
    return parts if np.bincount(parts).max(initial=0) <= MOST_VOICES else sheet.parts


def _to_the_last_note(language: Ensemble, ids: np.ndarray) -> np.ndarray:
    """Return a piece without empty bars before its end token; one without an end token is returned unchanged."""
    sheet = language.sheet(ids)
    bars = int(sheet.bar[sheet.instrument != HARMONY].max(initial=-1)) + 1
    if ids[-1] != END or bars == len(sheet.bars):
        return ids
    return np.append(ids[: language.bars(ids)[bars]], END)


def _draw_plan(sheet: Sheet, random: np.random.Generator) -> dict[str, np.ndarray]:
    """Return the plan to encode: none, the full one, or some attributes in some bars."""
    drawn = random.random()
    if drawn < UNPLANNED:
        return {}
    plan = plan_of(sheet)
    if drawn < UNPLANNED + FULLY_PLANNED:
        return plan
    names = [name for name in PLAN if random.random() < 0.5]
    fraction = random.random() if random.random() < 0.5 else 1.0
    encoded = random.random(len(sheet.bars)) < fraction
    return {name: np.where(encoded, plan[name], NO_LEVEL) for name in names}
