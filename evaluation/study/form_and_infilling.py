"""Evaluations of whole pieces as experiments: the form of continuations, how they end, and how gaps are filled.

Of a filled gap, some bars of a real piece are taken out, written again between the others, and compared:

    loss       nats a token of the true bars, given the bars before and after the gap, and given those before alone
    f1         of the cells (sixteenth, pitch) of the gap: the written ones found in the true ones, and the reverse
    likeness   of the gap's style to the bars around it, of what was written and of the true bars: by the profiles of
               style.py, those of pitched notes without drums and that of drums; 0 for a profile that the bars
               around have and the gap has not
    leap       semitones from the highest of the last notes that begin before the seam to that of the first after it

Tokens that only count bars, and those that give what comes after the gap, are in no loss.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import islice, pairwise
from typing import Any

import numpy as np

from evaluation.metrics.estimates import estimate, grouped, mean
from evaluation.metrics.form import (
    CELLS_A_BEAT,
    COLLAPSES,
    SIGNS,
    between,
    cells,
    last_bar,
    overlap,
    signs,
)
from evaluation.metrics.form import form as form_of
from evaluation.metrics.style import cosine, in_bars, onset_drum, onset_duration, time_pitch
from evaluation.metrics.window import tops
from evaluation.study.experiments import Experiment, models_for_language
from evaluation.study.piece_jobs import (
    Choice,
    Measure,
    Rows,
    draw_pieces,
    model_of,
    piece_experiment,
)
from musicgen.completion import WholeIds
from musicgen.continuation import Continuation
from musicgen.generation.likelihood import position_losses
from musicgen.generation.request import Request
from musicgen.generation.sampling import MUSICAL
from musicgen.pieces import Piece
from musicgen.playable import Playable
from tokenization.analysis.metres import bar_lines
from tokenization.ensemble.layouts import gap
from tokenization.language import SEAM, Encoded, Language
from tokenization.prepared import Prepared
from tokenization.score import Score

LONGEST = 96  # bars of a piece of which some are taken out
END = "end: "  # before the name of a sign of one, which a piece shows or not
SURROUNDING = 4  # bars left before and after them, where there are so many


def gap_losses(
    playable: Playable, ids: np.ndarray, start: int, stop: int, seed: int
) -> tuple[float, float]:
    """Return the mean loss of the true bars of a gap, nats a token: given what comes after it, and not given."""
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
    return float(aware[written - 1].mean()), float(alone[lines[start] - 1 :].mean())


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
    return float(abs(tops(after)[0] - tops(before)[-1]))


def _cells(score: Score, start: int, stop: int) -> set[tuple[int, int, int]]:
    lines = bar_lines(score, stop)
    notes = between(score.notes, *lines[[start, stop]])
    place = notes.onset_ticks * CELLS_A_BEAT // score.ticks_per_beat
    return set(zip(place.tolist(), notes.pitch.tolist(), notes.track.tolist(), strict=True))


def form(
    playables: Sequence[Playable],
    choice: Choice,
    *,
    prompt_bars: int,
    bars: int,
    piece_bars: int | None = None,
    **how: Any,
) -> Experiment:
    """Continue pieces, as `continued` does, and measure their form and the pieces' own.

    They have as many bars after the prompt as are written, or at least `piece_bars`.
    """
    arguments = {"prompt_bars": prompt_bars, "bars": bars, **how}
    enough = min(piece_bars or bars, bars)
    experiment = long_piece_experiment(
        "form", measure_form, playables, choice, arguments, fewest_bars=prompt_bars + enough
    )
    return replace(experiment, facts={**experiment.facts, "piece_bars": enough})


def infilling(
    playables: Sequence[Playable],
    choice: Choice,
    *,
    gap: int,
    recall: float = MUSICAL.recall,
) -> Experiment:
    """Fill a gap in the middle of pieces."""
    language = choice.prepared.language
    if "end" not in language.abilities:
        raise ValueError(
            f"{choice.data} is in {language.name}, in which no gap is filled; name data in ensemble"
        )
    arguments = {"gap": gap, "recall": recall}
    return long_piece_experiment(
        "infilling", measure_infilling, playables, choice, arguments, fewest_bars=gap + 2
    )


def estimates(rows: Rows) -> Rows:
    """Return a row a measure: estimates over pieces of what was written and of what it is compared with."""
    table = []
    for (measure,), own in grouped((row for row in rows if "measure" in row), "measure").items():
        sides = [key for key in own[0] if key not in ("measure", "piece")]
        shares = measure.startswith(END) or measure == COLLAPSES  # so of a piece, or not
        found = {
            side: asdict(estimate([row[side] for row in own], shares=shares)) for side in sides
        }
        table.append({"measure": measure, **found})
    return table


def long_piece_experiment(
    name: str,
    measure: Callable[..., Measure],
    playables: Sequence[Playable],
    choice: Choice,
    arguments: Mapping[str, Any],
    *,
    fewest_bars: int,
    table: Callable[[Rows], Rows] = estimates,
) -> Experiment:
    """Return the experiment that measures the models of a data set's language with long pieces."""
    data, language = choice.data, choice.prepared.language
    able, left_out = models_for_language(playables, language.name, name)
    rows, places = draw_pieces(choice, np.random.default_rng(choice.seed), fewest_bars=fewest_bars)
    others = [model.language for model in able if model.language.spec() != language.spec()]
    # As all of them count bars.
    long_enough = (
        {"row": row}
        for row in rows[places].tolist()
        if all(held_out_piece(data, row, other).bars >= fewest_bars for other in others)
    )
    chosen = list(islice(long_enough, choice.pieces))
    if not chosen:
        raise ValueError(
            f"{data} has no piece of {fewest_bars} bars in {choice.place}; ask for fewer, or another --split"
        )
    return piece_experiment(measure, able, choice, chosen, table, left_out, **arguments)


def measure_form(*, prompt_bars: int, bars: int, **asked: Any) -> Measure:
    """Return the form of a continuation and of the piece, and how either ends."""
    piece, work = continued(prompt_bars=prompt_bars, bars=bars, **asked)
    stop, works = prompt_bars + bars, [work]
    if "end" in work.model.language.abilities and work.request.planned:
        works.append(Continuation(work.model, work.prompt, replace(work.request, ends=True)))
    yield works
    written, *ended = (score_of(work) for work in works)
    own = form_of(written, prompt_bars, stop)
    real = form_of(piece.score, prompt_bars, min(stop, piece.bars))
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
    """Return how a gap of a piece was filled, compared with the true bars."""
    loaded = model_of(model, device)
    language, piece = loaded.language, held_out_piece(data, row, loaded.language)
    bars = piece.bars
    if bars > LONGEST:  # it is cut as a piece ends: with a bar in which something begins
        line, onset = bar_lines(piece.score, LONGEST), piece.score.notes.onset_ticks
        last = onset[onset < line[-1]].max(initial=0)
        bars = int(np.searchsorted(line, last, side="right"))
    if bars < gap + 2:
        raise ValueError(f"of its first {LONGEST} bars, none after bar {bars} has a note")
    ids = language.close(piece.encoded.ids, bars)
    ids = ids if ids[-1] == language.end else np.append(ids, language.end)
    margin = min(SURROUNDING, (bars - gap) // 2)
    start = int(np.random.default_rng([seed, row]).integers(margin, bars - gap - margin + 1))
    stop = start + gap
    request = Request(seed=seed, sampling=replace(MUSICAL, recall=recall))
    work = WholeIds(loaded, language.infilling(ids, start, stop), request)
    yield [work]
    written, true = (language.decode(one, piece.encoded.setting) for one in (work.whole(), ids))
    aware, alone = gap_losses(loaded, ids, start, stop, seed)
    ours, theirs = (likeness(score, start, stop, bars) for score in (written, true))
    leaps = {"written": leap(written, stop), "real": leap(true, stop)}
    return [
        _row(piece.name, "loss", written=aware, real=None, alone=alone),
        _row(piece.name, "f1", written=f1(true, written, start, stop), real=None, alone=None),
        _row(piece.name, "likeness", written=ours, real=theirs, alone=None),
        _row(piece.name, "leap", **leaps, alone=None),
    ]


def _row(piece: str, measure: str, **sides: float | None) -> dict[str, Any]:
    return {"piece": piece, "measure": measure, **sides}


# What is asked of bars: for each four of them one of these values, and a form.
ASKED = {
    "density": (1, 2, 3, 5),  # notes a beat, each of another level
    "register": (64, 70, 76, 82),
    "loudness": (50, 65, 80, 95),
}
FORM = "A A B A"
STRETCH = 4  # bars


def plan(
    playables: Sequence[Playable], choice: Choice, *, prompt_bars: int, bars: int
) -> Experiment:
    """Ask for plans, and measure how they are followed."""
    choice.prepared.language.plan({"form": FORM}, bars)  # refused where bars have no plan
    arguments = {"prompt_bars": prompt_bars, "bars": bars}
    return long_piece_experiment(
        "plan", measure_plan, playables, choice, arguments, fewest_bars=prompt_bars
    )


def measure_plan(
    *, model: str, data: str, device: str, row: int, prompt_bars: int, bars: int, seed: int
) -> Measure:
    """Return how what was asked of bars agrees with what is written, with what is without guidance, and freely."""
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
            side: _correlation(asked[name], _of_bars(name, each[number], prompt_bars, stop))
            for side, each in sides.items()
        }
        rows.append(_row(piece.name, name, **agreed))
    back = enumerate(loaded.language.bars_back({"form": FORM}, bars), prompt_bars)
    pairs = [(bar, bar - far) for bar, far in back if far]
    returned = {}
    for side, each in sides.items():
        held = cells(each[-1], stop)
        found = [overlap(held[bar], held[source]) for bar, source in pairs]
        returned[side] = mean(None if one is None else float(one > 0.5) for one in found)
    return [*rows, _row(piece.name, "return", **returned)]


def _of_bars(name: str, score: Score, start: int, stop: int) -> list[float]:
    """Return what each bar is like of what was asked; NaN of a silent one."""
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


def _correlation(asked: Sequence[float], got: Sequence[float]) -> float | None:
    """Return Pearson's; None where either is the same throughout."""
    a, b = np.asarray(asked, dtype=float), np.asarray(got)
    a, b = a[~np.isnan(b)], b[~np.isnan(b)]
    if len(a) < 2 or not a.std() or not b.std():
        return None
    return float(np.corrcoef(a, b)[0, 1])


def held_out_piece(data: str, row: int, speaker: Language) -> Piece:
    """Return a held-out piece in a model's language."""
    prepared = Prepared.open(data)
    reader = prepared.language
    ids = np.asarray(prepared.ids(row))
    if speaker.spec() != reader.spec():
        ids = speaker.encode(speaker.arrange(reader.decode(ids))).ids
    score = speaker.decode(ids)
    encoded = Encoded(ids=ids, bars=speaker.bars(ids), notes=len(score.notes))
    return Piece(name=prepared.name(row), language=speaker, encoded=encoded, score=score)


def continued(
    *,
    model: str,
    data: str,
    device: str,
    row: int,
    prompt_bars: int,
    bars: int,
    recall: float = MUSICAL.recall,
    planned: bool = True,
    seed: int,
) -> tuple[Piece, Continuation]:
    """Return a held-out piece, and a model's continuation of its first bars, to be written."""
    loaded = model_of(model, device)
    piece = held_out_piece(data, row, loaded.language)
    sampling = replace(MUSICAL, recall=recall)
    request = Request(bars=bars, seed=seed, sampling=sampling, planned=planned)
    return piece, Continuation(loaded, piece.prompt(prompt_bars), request)


def score_of(work: Continuation) -> Score:
    """Return the piece with what was written; what went wrong is raised."""
    work.check()
    return work.takes()[0].score
