"""The extrapolation experiment: the loss by position, within the trained length and past it.

Each job reads a few pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    able, rows, facts = held_out(playables, choice, length)
    read_to: int = facts["length"]
    edges = {model.name: likelihood.edges_of(model.trained_length, read_to) for model in able}
    jobs = [
        job_of(
            model, losses, choice.device, choice.prepared, rows=own, edges=edges[model.name], seed=choice.seed,
            window=model.trained_length if control and model.trained_length < read_to else None,
        )
        for model in able
        for own in rows_by_job(rows)
    ]  # fmt: skip

    def compose(found: Found) -> dict[str, Any]:
        read: dict[str, list[Loss]] = {}
        for playable, _, done in found:
            read.setdefault(playable.name, []).extend(done.result)
        models = []
        for playable in able:
            if own := read.get(playable.name):
                measured = own, edges[playable.name], playable.trained_length
                model = {**model_fields(playable), **likelihood.summary(*measured)}
                if all("nearby" in loss for loss in own):
                    model["control"] = likelihood.context_difference(*measured)
                models.append(model)
        return {"models": models}

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
