"""Experiments on whole pieces: the form and endings of continuations, infilling, and adherence to plans.

Infilling removes some bars of a real piece, generates them again, and compares both versions: by the loss of the true
bars, without tokens that only count bars and without the context after the gap; by the F1 score of cells (sixteenth,
pitch, drum or not); and by the likeness to the rest of the piece, the mean similarity over the profiles of style.py,
which is 0 for a profile that is empty only in the gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from evaluation.metrics.estimates import mean
from evaluation.metrics.form import SIGNS, between, cells, last_bar, overlap, signs, tops
from evaluation.metrics.form import form as form_of
from evaluation.metrics.style import profiles, similarities
from evaluation.study.extrapolation import position_losses
from evaluation.study.piece_jobs import (
    END,
    Measure,
    TokenCompletion,
    continued,
    held_out_piece,
    model_of,
    score_of,
)
from musicgen.continuation import Continuation
from musicgen.generation.request import Request
from musicgen.generation.sampling import MUSICAL
from musicgen.playable import Playable
from tokenization.analysis.metres import bar_lines
from tokenization.ensemble.sequences import gap
from tokenization.language import SEAM
from tokenization.score import Score

LONGEST = 96  # bars; longer pieces are cut for infilling
SURROUNDING = 4  # bars to keep before and after the gap, if the piece has enough


def gap_losses(
    playable: Playable, ids: np.ndarray, start: int, stop: int, seed: int
) -> tuple[float, float]:
    """Return the mean loss of the true bars of a gap in nats per token, given the bars after it, and without them."""
    language, performer = playable.language, playable.performer
    ids = np.asarray(ids, dtype=np.int64)
    lines = np.append(language.bars(ids), len(ids) - 1)
    # The bars after the gap, the bars before it, the gap.
    arranged = gap(ids, start, stop)
    counting = language.vocabulary[SEAM].holds(arranged)
    first = int(counting.argmax()) - 1  # the token that begins the first bar of the gap
    written = np.arange(first, len(arranged) - 1)
    written = written[~counting[written]]
    until = ids[: lines[stop]]
    aware, alone = (position_losses(performer, each, seed) for each in (arranged, until))
    return float(aware[written - 1].mean()), float(alone[lines[start] - 1 :].mean())


def f1(true: Score, written: Score, start: int, stop: int) -> float | None:
    """Return the F1 score of the cells of a gap; None if both versions are silent."""
    a, b = (
        {(bar, *cell) for bar, own in enumerate(cells(score, stop)[start:]) for cell in own}
        for score in (true, written)
    )
    return 2 * len(a & b) / (len(a) + len(b)) if a or b else None


def likeness(score: Score, start: int, stop: int, bars: int) -> float | None:
    """Return the mean similarity of style between a gap and the rest of the piece; None if the rest is silent."""
    line, seam, end = (int(bar_lines(score, bars)[bar]) for bar in (start, stop, bars))
    notes = score.notes
    inside = (notes.onset_ticks >= line) & (notes.onset_ticks < seam)
    around = ~inside & (notes.onset_ticks < end)
    gap_profiles, rest = (profiles(score.replace(notes=notes[own])) for own in (inside, around))
    found = similarities(rest, gap_profiles)
    return mean(found[metric] or 0.0 for metric, expected in rest.items() if expected.any())


def measure_form(*, prompt_bars: int, bars: int, **asked: Any) -> Measure:
    """Measure the form and the ending of a continuation and of the original piece."""
    piece, work = continued(prompt_bars=prompt_bars, bars=bars, **asked)
    stop, works = prompt_bars + bars, [work]
    if "end" in work.model.language.abilities and work.request.planned:
        works.append(Continuation(work.model, work.prompt, replace(work.request, ends=True)))
    yield works
    written, *ended = (score_of(work) for work in works)
    own = form_of(written, prompt_bars, stop)
    real = form_of(piece.score, prompt_bars, stop)
    rows = [_row(piece.name, name, written=own[name], real=real[name]) for name in own]
    if ended:
        last = last_bar(piece.score)
        sides = {
            "written": signs(ended[0], stop - 1),
            "real": signs(piece.score, last),
            "middle": signs(piece.score, last // 2),
        }
        for sign in SIGNS:
            values = {
                side: None if one is None else float(one[sign]) for side, one in sides.items()
            }
            rows.append(_row(piece.name, END + sign, **values))
    return rows


def measure_infilling(
    *,
    model: str,
    data: str,
    device: str,
    row: int,
    gap: int,
    recall: float,
    seed: int,
) -> Measure:
    """Compare the generated bars of a gap with the true ones."""
    loaded = model_of(model, device)
    language, piece = loaded.language, held_out_piece(data, row, loaded.language)
    bars = piece.bars
    if bars > LONGEST:  # cut the piece after a bar in which a note begins
        line, onset = bar_lines(piece.score, LONGEST), piece.score.notes.onset_ticks
        last = onset[onset < line[-1]].max(initial=0)
        bars = int(np.searchsorted(line, last, side="right"))
    if bars < gap + 2:
        raise ValueError(f"after bar {bars}, its first {LONGEST} bars have no notes")
    ids = language.close(piece.encoded.ids, bars)
    ids = ids if ids[-1] == language.end else np.append(ids, language.end)
    margin = min(SURROUNDING, (bars - gap) // 2)
    start = int(np.random.default_rng([seed, row]).integers(margin, bars - gap - margin + 1))
    stop = start + gap
    request = Request(seed=seed, sampling=replace(MUSICAL, recall=recall))
    work = TokenCompletion(loaded, language.infilling(ids, start, stop), request)
    yield [work]
    written, true = (language.decode(one, piece.encoded.setting) for one in (work.whole(), ids))
    aware, alone = gap_losses(loaded, ids, start, stop, seed)
    ours, theirs = (likeness(score, start, stop, bars) for score in (written, true))
    return [
        _row(piece.name, "loss", written=aware, real=None, alone=alone),
        _row(piece.name, "f1", written=f1(true, written, start, stop), real=None, alone=None),
        _row(piece.name, "likeness", written=ours, real=theirs, alone=None),
    ]


def _row(piece: str, measure: str, **sides: float | None) -> dict[str, Any]:
    return {"piece": piece, "measure": measure, **sides}


# The plans: one of these values for every four bars, and a form.
ASKED = {
    "density": (1, 2, 3, 5),  # notes per beat, each in another level
    "register": (64, 70, 76, 82),
    "loudness": (50, 65, 80, 95),
}
FORM = "A A B A"
STRETCH = 4  # bars


def measure_plan(
    *, model: str, data: str, device: str, row: int, prompt_bars: int, bars: int, seed: int
) -> Measure:
    """Measure the agreement of plans with continuations: as planned, without guidance, and without a plan."""
    loaded = model_of(model, device)
    piece = held_out_piece(data, row, loaded.language)
    random = np.random.default_rng([seed, row])
    stretches = -(-bars // STRETCH)
    asked: dict[str, Any] = {
        name: np.repeat(random.choice(values, stretches), STRETCH)[:bars].tolist()
        for name, values in ASKED.items()
    }
    plans = [*({name: value} for name, value in asked.items()), {"form": FORM}]
    prompt, request = piece.prompt(prompt_bars), Request(bars=bars, seed=seed)
    unguided = replace(request, sampling=replace(MUSICAL, guidance=1.0))
    requests = [replace(one, plan=plan) for one in (request, unguided) for plan in plans]
    works = [Continuation(loaded, prompt, one) for one in (request, *requests)]
    yield works
    free, *planned = (score_of(work) for work in works)
    written, alone = planned[: len(plans)], planned[len(plans) :]
    sides = {"written": written, "unguided": alone, "free": [free] * len(plans)}
    stop, rows = prompt_bars + bars, []
    for number, name in enumerate(asked):
        agreed = {
            side: _correlation(asked[name], _bar_values(name, each[number], prompt_bars, stop))
            for side, each in sides.items()
        }
        rows.append(_row(piece.name, name, **agreed))
    distances = enumerate(loaded.language.bars_back({"form": FORM}, bars), prompt_bars)
    pairs = [(bar, bar - distance) for bar, distance in distances if distance]
    returned = {}
    for side, each in sides.items():
        bar_cells = cells(each[-1], stop)
        found = [overlap(bar_cells[bar], bar_cells[source]) for bar, source in pairs]
        returned[side] = mean(None if one is None else float(one > 0.5) for one in found)
    return [*rows, _row(piece.name, "return", **returned)]


def _bar_values(name: str, score: Score, start: int, stop: int) -> list[float]:
    """Return the density, register or loudness of each bar; NaN if it has no notes to measure."""
    lines = bar_lines(score, stop)
    found = []
    for line, end in pairwise(lines[start:]):
        own = between(score.notes, line, end)
        if name == "density":
            found.append(len(own) * score.ticks_per_beat / (end - line))
        else:
            melodic = tops(between(score.pitched, line, end))
            values = melodic if name == "register" else own.velocity
            found.append(float(np.mean(values)) if len(values) else np.nan)
    return found


def _correlation(asked: Sequence[float], measured: Sequence[float]) -> float | None:
    """Return Pearson's correlation, ignoring NaN; None if either side is constant."""
    a, b = np.asarray(asked, dtype=float), np.asarray(measured)
    a, b = a[~np.isnan(b)], b[~np.isnan(b)]
    if len(a) < 2 or not a.std() or not b.std():
        return None
    return float(np.corrcoef(a, b)[0, 1])
