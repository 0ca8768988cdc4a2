"""The extrapolation experiment: the loss by position, within the trained length and past it.

Each job reads a few pieces. If jobs fail, models are compared on the pieces that all of them have read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from evaluation import likelihood
from evaluation.likelihood import Loss
from evaluation.study.experiments import Experiment, Found, job_of, model_fields
from evaluation.study.piece_jobs import Choice, held_out
from musicgen.playable import Playable, load
from tokenization.prepared import Prepared

PIECES_A_JOB = 4


def extrapolation(
    playables: Sequence[Playable],
    choice: Choice,
    *,
    length: int | None = None,
    control: bool = False,
) -> Experiment:
    """Measure the loss by position up to `length`, by default 4 times the longest trained length.

    With `control`, tokens past the trained length are also predicted from a context no longer than it.
    """
    able, pieces, left_out = held_out(playables, choice, length)
    edges = {model.name: likelihood.edges_of(model.trained_length, pieces.length) for model in able}
    jobs = [
        job_of(
            model, losses, choice.device, choice.prepared, rows=rows, edges=edges[model.name], seed=choice.seed,
            window=model.trained_length if control and model.trained_length < pieces.length else None,
        )
        for model in able
        for rows in rows_by_job(pieces.rows)
    ]  # fmt: skip

    def compose(found: Found) -> dict[str, Any]:
        read: dict[str, dict[int, Loss]] = {}
        seconds = dict.fromkeys(edges, 0.0)
        for playable, job, done in found:
            own = zip(job.arguments["rows"], done.result, strict=True)
            read.setdefault(playable.name, {}).update(own)
            seconds[playable.name] += done.seconds
        rows = _common_rows(pieces.rows, read)
        measured = [one for one in able if rows and set(rows) <= read.get(one.name, {}).keys()]
        every = [[read[one.name][row] for row in rows] for one in measured]
        models: list[dict[str, Any]] = []
        for playable, own in zip(measured, every, strict=True):
            borders, trained = edges[playable.name], playable.trained_length
            model = {**model_fields(playable), **likelihood.summary(own, borders, trained)}
            model["seconds"] = round(seconds[playable.name], 2)
            if all("nearby" in loss for loss in own):
                model["control"] = likelihood.context_difference(own, borders, trained)
            models.append(model)
        if len(measured) > 1 and len({tuple(edges[one.name]) for one in measured}) == 1:
            borders, trained = edges[measured[0].name], measured[0].trained_length
            relative = likelihood.relative_curves(every, borders)
            for model, curve in zip(models, relative, strict=True):
                model["apart"] = curve
            grown = likelihood.growth(every, borders, trained)
            for model, one in zip(models, grown or [], strict=False):
                model["growth"] = one
        return {"data": replace(pieces, rows=rows).facts(), "models": models}

    facts = {"length": pieces.length, "left_out": left_out}
    return Experiment(jobs=jobs, compose=compose, prepared=choice.prepared, facts=facts)


def losses(
    *,
    model: str,
    data: str,
    rows: Sequence[int],
    edges: Sequence[int],
    seed: int,
    device: str,
    window: int | None,
) -> list[Loss]:
    """Return the losses of some pieces of a data set, each with its own noise for stochastic encodings."""
    performer, prepared = load(model, device).performer, Prepared.open(data)
    return [
        likelihood.piece_loss(performer, np.asarray(prepared.ids(row)), edges, seed + row, window)
        for row in rows
    ]


def rows_by_job(rows: Sequence[int]) -> list[Sequence[int]]:
    """Split pieces into jobs."""
    return [rows[i : i + PIECES_A_JOB] for i in range(0, len(rows), PIECES_A_JOB)]


def _common_rows(rows: Sequence[int], read: Mapping[str, Mapping[int, Loss]]) -> list[int]:
    """Return the pieces that all models have read; if there are none, drop the models that have read fewest."""
    most_first = sorted(read.values(), key=len, reverse=True)
    for models in range(len(most_first), 0, -1):
        shared = [row for row in rows if all(row in losses for losses in most_first[:models])]
        if shared:
            return shared
    return []
