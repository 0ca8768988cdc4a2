"""The ablations as an experiment: each part of each model taken away, the same pieces read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from evaluation.study.experiments import Experiment, HeldOut
from evaluation.study.jobs import Done, Job
from evaluation.study.models import identity_of, probed_length
from musicgen.loading import load
from musicgen.playable import Playable


def ablation(
    subjects: Sequence[Playable], pieces: HeldOut, *, seed: int, device: str
) -> Experiment:
    """Measure by how much the loss changes, within the trained length and past it, without each part."""
    jobs = []
    for subject in subjects:
        border = min(probed_length(subject), pieces.length)
        edges = sorted({0, border, pieces.length})
        arguments = {"rows": pieces.rows, "edges": edges, "seed": seed}
        places = {"model": subject.given, "data": str(pieces.prepared.folder), "device": device}
        identity = {**identity_of(subject), **pieces.identity}
        job = Job(measure=without_parts, arguments=arguments, places=places, identity=identity)
        jobs.append((subject, job))

    def compose(found: list[tuple[Playable, Done]]) -> dict[str, Any]:
        from evaluation.ablation import WHOLE, changes

        models = [
            {"model": subject.name, "part": part, **changes(done.result[WHOLE], losses)}
            for subject, done in found
            for part, losses in done.result.items()
            if part != WHOLE
        ]
        return {"data": pieces.facts(), "models": models}

    return Experiment(jobs=jobs, compose=compose)


def without_parts(
    *, model: str, data: str, rows: Sequence[int], edges: Sequence[int], seed: int, device: str
) -> dict[str, list[dict[str, Any]]]:
    """Return the loss of some pieces of a data set by part: of the whole model, and without each part that it has."""
    from evaluation.ablation import WHOLE, part_losses, parts_of
    from tokenization.prepared import Prepared

    performer, prepared = load(model, device).performer, Prepared.open(data)
    pieces = [(row, np.asarray(prepared.ids(row))) for row in rows]
    parts = [WHOLE, *parts_of(performer)]
    return {part: part_losses(performer, part, pieces, edges, seed) for part in parts}
