"""Accompaniment and whole pieces as experiments: which pieces, what they are compared with, and what comes of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from evaluation.accompaniment import ROLES
from evaluation.study.experiments import Experiment, taking_part
from evaluation.study.form_and_infilling import form, held_out_piece, infilling
from evaluation.study.piece_jobs import Choice, Measure, by_piece, drawn, facts, model_of
from musicgen.playable import Playable
from tokenization.prepared import Prepared
from tokenization.score import Notes, Score


def accompaniment(
    playables: Sequence[Playable], choice: Choice, *, hide: Sequence[str], bars: int
) -> tuple[Experiment, dict[str, Any]]:
    """Return the experiment, a job a model and piece, and what is to be said of the pieces."""
    from evaluation.accompaniment import summary

    prepared, data, split = choice.prepared, choice.data, choice.split
    able = [model for model in playables if model.language.parts]
    left_out = taking_part(able, playables, "accompaniment", "ensemble")
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
    """Return how what a model writes for each hidden part of a piece compares with it and with the references."""
    from evaluation.accompaniment import (
        accompany,
        compared,
        density,
        hidden_parts,
        part_of,
        some_bars,
    )

    loaded, prepared = model_of(model, device), Prepared.open(data)
    speaker = loaded.language
    whole = held_out_piece(data, row, speaker)
    bars = min(bars, whole.bars)  # the others are as long as the piece

    def music(number: int | None) -> Score | None:
        score = None if number is None else held_out_piece(data, number, speaker).score
        return None if score is None else some_bars(score, bars)

    piece, found = some_bars(whole.score, bars), []
    if piece is None:
        return []
    ids = speaker.encode(speaker.arrange(piece)).ids
    piece = speaker.decode(ids)
    names = speaker.part_names(ids)
    hidden = {name: track for name, track in hidden_parts(piece).items() if name in hide}
    works = [accompany(loaded, ids, names[track], seed=seed) for track in hidden.values()]
    yield works
    following, others = some_bars(whole.score, bars, bars), [music(same), music(other)]
    about = {"piece": prepared.name(row), "style": int(prepared.pieces.style[row])}
    for (name, track), work in zip(hidden.items(), works, strict=True):
        beside: dict[str, Notes | None] = {
            "written": part_of(speaker.decode(work.whole()), track),
            "next": part_of(following, track),
        }
        for label, score in zip(("same", "other"), others, strict=True):
            there = None if score is None else hidden_parts(score).get(name)
            beside[label] = part_of(score, there)
        rows = compared(piece, track, beside) + density(piece, track, bars, beside)
        found += [{**about, "part": name, **one} for one in rows]
    return found


Found = tuple[str, list[Playable], Experiment, dict[str, Any]]


def whole_pieces(playables: Sequence[Playable], choice: Choice) -> Iterator[Found | str]:
    """Yield the kind of each, who takes part, the experiment and its facts; or a sentence for one that cannot be."""
    language = choice.prepared.language
    same = [model for model in playables if model.language.name == language.name]
    can_end = same if language.can_end() else []
    possible = {
        # The songs of piano music are long enough to return.
        "form": (
            [] if language.name == "groove" else same,
            partial(form, prompt_bars=8, bars=56),
        ),
        "infilling": (can_end, partial(infilling, gap=4)),
        "accompaniment": (
            [model for model in same if model.language.parts],
            partial(accompaniment, hide=ROLES, bars=8),
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
