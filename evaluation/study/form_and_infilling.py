"""Evaluations of whole pieces as experiments: the form of continuations, how they end, and how gaps are filled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from typing import Any

import numpy as np

from evaluation.metrics.estimates import estimate
from evaluation.study.experiments import Experiment, taking_part
from evaluation.study.piece_jobs import Choice, Measure, Rows, by_piece, drawn, facts, model_of
from musicgen.continuation import Continuation
from musicgen.generation.request import Options
from musicgen.generation.sampling import MUSICAL
from musicgen.pieces import Piece
from musicgen.playable import Playable
from tokenization.analysis.metres import bar_lines
from tokenization.language import Encoded, Language
from tokenization.prepared import Prepared
from tokenization.score import Score

LONGEST = 96  # bars of a piece of which some are taken out
END = "end: "  # before the name of a sign of one, which a piece shows or not
SURROUNDING = 4  # bars left before and after them, where there are so many


def form(
    playables: Sequence[Playable],
    choice: Choice,
    *,
    prompt_bars: int,
    bars: int,
    piece_bars: int | None = None,
) -> tuple[Experiment, dict[str, Any]]:
    """Return the experiment that continues pieces and measures their form and the pieces' own.

    They have as many bars after the prompt as are written, or at least `piece_bars`.
    """
    arguments = {"prompt_bars": prompt_bars, "bars": bars}
    language = choice.prepared.language
    able = [model for model in playables if model.language.name == language.name]
    left_out = taking_part(able, playables, "form", language.name)
    enough = min(piece_bars or bars, bars)
    fewest = prompt_bars + enough
    experiment, described = long_pieces(
        measure_form, able, choice, arguments, left_out, fewest_bars=fewest
    )
    return experiment, {**described, "piece_bars": enough}


def infilling(
    playables: Sequence[Playable],
    choice: Choice,
    *,
    gap: int,
    recall: float = MUSICAL.recall,
) -> tuple[Experiment, dict[str, Any]]:
    """Return the experiment that fills a gap in the middle of pieces."""
    language = choice.prepared.language
    if not language.can_end():
        raise ValueError(
            f"{choice.data} is in {language.name}, in which no gap is filled; name data in ensemble"
        )
    able = [model for model in playables if model.language.name == language.name]
    left_out = taking_part(able, playables, "infilling", language.name)
    arguments = {"gap": gap, "recall": recall}
    return long_pieces(measure_infilling, able, choice, arguments, left_out, fewest_bars=gap + 2)


def estimates(rows: Rows) -> Rows:
    """Return a row a measure: estimates over pieces of what was written and of what it is compared with."""
    table = []
    for measure in dict.fromkeys(row["measure"] for row in rows):
        own = [row for row in rows if row["measure"] == measure]
        sides = [key for key in own[0] if key not in ("measure", "piece")]
        shares = measure.startswith(END)  # nothing else is so of a piece or is not
        found = {
            side: asdict(estimate([row[side] for row in own], shares=shares)) for side in sides
        }
        table.append({"measure": measure, **found})
    return table


def long_pieces(
    measure: Callable[..., Measure],
    able: Sequence[Playable],
    choice: Choice,
    arguments: Mapping[str, Any],
    left_out: list[str],
    *,
    fewest_bars: int,
    table: Callable[[Rows], Rows] = estimates,
) -> tuple[Experiment, dict[str, Any]]:
    """Return the experiment that measures models with pieces of so many bars, and its facts."""
    prepared, data, split = choice.prepared, choice.data, choice.split
    language, random = prepared.language, np.random.default_rng(choice.seed)
    rows, places = drawn(prepared, split, random, fewest_bars=fewest_bars)
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
            f"{data} has no piece of {fewest_bars} bars in its {split} split; ask for fewer, or another --split"
        )
    experiment = by_piece(measure, able, choice, chosen, table, **arguments)
    return experiment, facts(choice, len(chosen), left_out=left_out, **arguments)


def measure_form(
    *, model: str, data: str, device: str, row: int, prompt_bars: int, bars: int, seed: int
) -> Measure:
    """Return the form of a continuation and of the piece, and how either ends."""
    from evaluation.metrics.form import MEASURES, SIGNS, last_bar, signs
    from evaluation.metrics.form import form as form_of

    loaded = model_of(model, device)
    piece = held_out_piece(data, row, loaded.language)
    prompt = piece.prompt(prompt_bars)
    stop = prompt_bars + bars
    works = [Continuation(loaded, prompt, Options(bars=bars, seed=seed))]
    if loaded.language.can_end():
        works.append(Continuation(loaded, prompt, Options(bars=bars, seed=seed, ends=True)))
    yield works
    written, *ended = (score_of(work) for work in works)
    own = form_of(written, prompt_bars, stop)
    real = form_of(piece.score, prompt_bars, min(stop, piece.bars))
    rows = [_row(piece.name, name, written=own[name], real=real[name]) for name in MEASURES]
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
    from evaluation.infilling import f1, fill, gap_losses, leap, likeness

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
    work = fill(loaded, ids, start, stop, seed=seed, recall=recall)
    yield [work]
    written, true = (language.decode(one, piece.encoded.setting) for one in (work.whole(), ids))
    loss = gap_losses(loaded, ids, start, stop, seed)
    return [
        _row(piece.name, "loss", written=loss.aware, real=None, alone=loss.alone),
        _row(piece.name, "f1", written=f1(true, written, start, stop), real=None, alone=None),
        *(
            _row(piece.name, name, written=measured(written), real=measured(true), alone=None)
            for name, measured in (
                ("likeness", lambda score: likeness(score, start, stop, bars)),
                ("leap", lambda score: leap(score, stop)),
            )
        ),
    ]


def _row(piece: str, measure: str, **sides: float | None) -> dict[str, Any]:
    return {"piece": piece, "measure": measure, **sides}


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


def score_of(work: Continuation) -> Score:
    """Return the piece with what was written; what went wrong is raised."""
    work.check()
    return work.takes()[0].score
