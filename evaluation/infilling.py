"""How good a filled gap is: some bars of a real piece are taken out, written again between the others, and compared.

    loss       nats a token of the true bars, given the bars before and after the gap, and given those before alone
    f1         of the cells (sixteenth, pitch) of the gap: the written ones found in the true ones, and the reverse
    likeness   of the gap's style to the bars around it, of what was written and of the true bars: by the profiles of
               style.py, those of pitched notes without drums and that of drums; 0 for a profile that the bars
               around have and the gap has not
    leap       semitones from the highest of the last notes that begin before the seam to that of the first after it

Tokens that only count bars, and those that give what comes after the gap, are in no loss.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from evaluation.metrics.estimates import mean
from evaluation.metrics.form import CELLS_A_BEAT
from evaluation.metrics.style import cosine, in_bars, onset_drum, onset_duration, time_pitch
from musicgen.completion import WholeIds
from musicgen.continuation import Player
from musicgen.generation.likelihood import position_losses
from musicgen.generation.request import Options
from musicgen.generation.sampling import MUSICAL
from musicgen.playable import Playable
from tokenization.analysis.metres import bar_lines
from tokenization.ensemble.layouts import gap
from tokenization.language import SEAM
from tokenization.score import Notes, Score


def fill(
    model: Player,
    ids: np.ndarray,
    start: int,
    stop: int,
    *,
    seed: int,
    recall: float = MUSICAL.recall,
) -> WholeIds:
    """Return the work to write the bars start … stop − 1 of a piece."""
    goal = model.language.infilling(ids, start, stop)
    options = Options(seed=seed, sampling=replace(MUSICAL, recall=recall))
    return WholeIds(model, goal, options)


class GapLosses(NamedTuple):
    """The mean loss of the true bars of a gap, nats a token."""

    aware: float  # given what comes after it
    alone: float  # not given


def gap_losses(playable: Playable, ids: np.ndarray, start: int, stop: int, seed: int) -> GapLosses:
    """Return the losses of a gap."""
    language, performer = playable.language, playable.performer
    ids = np.asarray(ids, dtype=np.int64)
    lines = np.append(language.bars(ids), len(ids) - 1)
    # What comes after the gap, what comes before, the gap.
    laid_out = gap(ids, start, stop)
    counting = language.vocabulary[SEAM].holds(laid_out)
    first = int(counting.argmax()) - 1  # the token that begins the gap's first bar
    written = np.arange(first, len(laid_out) - 1)
    written = written[~counting[written]]
    until = ids[: lines[stop]]
    aware, alone = (position_losses(performer, each, seed) for each in (laid_out, until))
    return GapLosses(float(aware[written - 1].mean()), float(alone[lines[start] - 1 :].mean()))


def f1(true: Score, written: Score, start: int, stop: int) -> float | None:
    """Return how well the cells of a gap agree; None where both are silent."""
    a, b = (_cells(score, start, stop) for score in (true, written))
    return 2 * len(a & b) / (len(a) + len(b)) if a or b else None


def likeness(score: Score, start: int, stop: int, bars: int) -> float | None:
    """Return how like a gap's style is to that of all around it, on average over its profiles; None in silence."""
    line, seam, end = (int(bar_lines(score, bars)[bar]) for bar in (start, stop, bars))
    onset, drums, beat = score.notes.onset_ticks, score.on_drums, score.ticks_per_beat
    inside = (onset >= line) & (onset < seam)
    around = ~inside & (onset < end)
    placed = in_bars(score)
    found = []
    for profile, notes, own in (
        (onset_duration, placed, ~drums),
        (time_pitch, score.notes, ~drums),
        (onset_drum, placed, drums),
    ):
        expected = profile(notes[around & own], beat)
        if expected.any():
            found.append(cosine(expected, profile(notes[inside & own], beat)) or 0.0)
    return mean(found)


def leap(score: Score, seam_bar: int) -> float | None:
    """Return by how many semitones the top moves over a seam; None where a side is silent."""
    seam = int(bar_lines(score, seam_bar)[-1])
    notes = score.pitched
    before, after = notes[notes.onset_ticks < seam], notes[notes.onset_ticks >= seam]
    if not len(before) or not len(after):
        return None
    return float(abs(_top(after, after.onset_ticks.min()) - _top(before, before.onset_ticks.max())))


def _top(notes: Notes, onset: int) -> int:
    return int(notes.pitch[notes.onset_ticks == onset].max())


def _cells(score: Score, start: int, stop: int) -> set[tuple[int, int, int]]:
    lines = bar_lines(score, stop)
    notes = score.notes
    notes = notes[(notes.onset_ticks >= lines[start]) & (notes.onset_ticks < lines[stop])]
    place = notes.onset_ticks * CELLS_A_BEAT // score.ticks_per_beat
    return set(zip(place.tolist(), notes.pitch.tolist(), notes.track.tolist(), strict=True))
