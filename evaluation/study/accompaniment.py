"""Accompaniment and whole pieces as experiments: which pieces, what stands beside them, and what comes of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from evaluation.study.experiments import Experiment, taking_part
from evaluation.study.form_and_infilling import form, infilling
from evaluation.study.piece_jobs import Choice, Measure, by_piece, drawn, facts, model_of
from musicgen.playable import Playable
from tokenization.groove.language import Groove
from tokenization.groove.spelling import PARTS
from tokenization.prepared import Prepared
from tokenization.score import Notes


def accompaniment(
    playables: Sequence[Playable], choice: Choice, *, hide: Sequence[str], bars: int
) -> tuple[Experiment, dict[str, Any]]:
    """Return the experiment, a job a model and piece, and what is to be said of the pieces."""
    from evaluation.accompaniment import summary

    prepared, data, split = choice.prepared, choice.data, choice.split
    language = prepared.language
    if language.family != "groove":
        raise ValueError(f"{data} is in {language.name}; parts are hidden in a data set of grooves")
    able = [model for model in playables if model.language.parts]
    left_out = taking_part(able, playables, "accompaniment", "groove-2")
    chosen = _chosen(prepared, split, choice.pieces, choice.seed)
    if not chosen:
        raise ValueError(f"{data} has no piece in its {split} split; another --split may have")
    experiment = by_piece(accompanied, able, choice, chosen, summary, hide=list(hide), bars=bars)
    return experiment, facts(choice, len(chosen), left_out=left_out, bars=bars)


def _chosen(prepared: Prepared, split: str, pieces: int, seed: int) -> list[dict[str, Any]]:
    """Return pieces, each with one of its style and one of another, if there are."""
    random = np.random.default_rng(seed)
    rows, places = drawn(prepared, split, random)
    styles = prepared.pieces.style[rows]
    chosen = []
    for place in places[:pieces]:
        same = np.flatnonzero((styles == styles[place]) & (np.arange(len(rows)) != place))
        other = np.flatnonzero(styles != styles[place])
        chosen.append(
            {
                "row": int(rows[place]),
                "same": int(rows[random.choice(same)]) if len(same) else None,
                "other": int(rows[random.choice(other)]) if len(other) else None,
            }
        )
    return chosen


def accompanied(
    *,
    model: str,
    data: str,
    device: str,
    row: int,
    same: int | None,
    other: int | None,
    hide: Sequence[str],
    bars: int,
    seed: int,
) -> Measure:
    """Return how what a model writes for each hidden part of a piece compares with it, and what stands beside it."""
    from evaluation.accompaniment import accompany, compared, density, first_bars, hidden_parts

    loaded, prepared = model_of(model, device), Prepared.open(data)
    speaker, reader = loaded.language, prepared.language
    assert isinstance(speaker, Groove), "models of other languages are left out"
    assert isinstance(reader, Groove), "data of other languages are refused"

    bars = min(bars, len(prepared.bars(row)))  # the others are as long as the piece

    def music(number: int | None, start: int = 0) -> Notes | None:
        if number is None or len(prepared.bars(number)) < start + bars:
            return None
        return first_bars(reader.notes(np.asarray(prepared.ids(number))), bars, start)

    piece, found = music(row), []
    assert piece is not None, "a row is given"
    beside = {"next": music(row, bars), "same": music(same), "other": music(other)}
    about = {"piece": prepared.name(row), "style": int(prepared.pieces.style[row])}
    hidden = [part for part in hidden_parts(piece) if speaker.parts[part] in hide]
    works = [accompany(loaded, speaker, piece, part, seed=seed) for part in hidden]
    yield works
    for part, work in zip(hidden, works, strict=True):
        others = {"written": speaker.notes(work.whole()), **beside}
        rows = compared(piece, part, others) + density(piece, part, bars, others)
        found += [{**about, "part": speaker.parts[part], **one} for one in rows]
    return found


Found = tuple[str, list[Playable], Experiment, dict[str, Any]]


def whole_pieces(playables: Sequence[Playable], choice: Choice) -> Iterator[Found | str]:
    """Yield the kind of each, who takes part, the experiment and its facts; or a sentence for one that cannot be."""
    language = choice.prepared.language
    same = [model for model in playables if model.language.name == language.name]
    can_end = same if language.can_end() else []
    related = [model for model in playables if model.language.family == language.family]
    grooves = related if language.family == "groove" else []
    possible = {
        # The songs of piano music are long enough to return.
        "form": (
            related if language.family == "remi" else [],
            partial(form, prompt_bars=8, bars=56),
        ),
        "infilling": (can_end, partial(infilling, gap=4)),
        "accompaniment": (
            [model for model in grooves if model.language.parts],
            partial(accompaniment, hide=PARTS, bars=8),
        ),
    }
    for kind, (able, make) in possible.items():
        if not able:
            continue
        try:
            experiment, facts = make(able, choice)
        except ValueError as error:  # no piece has so many bars
            yield f"{kind} on {choice.data} is left out: {error}"
        else:
            yield kind, able, experiment, facts
