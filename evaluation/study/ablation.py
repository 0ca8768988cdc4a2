"""The ablations as an experiment: each part of each model taken away, the same pieces read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from evaluation.study.experiments import Experiment, Found, HeldOut, job_of
from evaluation.study.losses import rows_by_job
from evaluation.study.models import probed_length
from musicgen.loading import load
from musicgen.playable import Playable


def ablation(
    playables: Sequence[Playable],
    pieces: HeldOut,
    *,
    seed: int,
    device: str,
    layers: bool = False,
) -> Experiment:
    """Measure by how much the loss changes, within the trained length and past it, without each part or layer."""
    jobs = []
    for playable in playables:
        border = min(probed_length(playable), pieces.length)
        common = {"edges": sorted({0, border, pieces.length}), "seed": seed, "layers": layers}
        jobs += [
            job_of(playable, without_parts, device, pieces.prepared, rows=rows, **common)
            for rows in rows_by_job(pieces.rows)
        ]

    def compose(found: Found) -> dict[str, Any]:
        from evaluation.ablation import WHOLE, changes

        read: dict[str, dict[str, list[dict[str, Any]]]] = {}
        for playable, _, done in found:
            of_model = read.setdefault(playable.name, {})
            for part, losses in done.result.items():
                of_model.setdefault(part, []).extend(losses)
        models = [
            {"model": name, "part": part, **changes(of_model[WHOLE], losses)}
            for name, of_model in read.items()
            for part, losses in of_model.items()
            if part != WHOLE
        ]
        return {"data": pieces.facts(), "models": models}

    return Experiment(jobs=jobs, compose=compose, pieces=pieces.names)


def without_parts(
    *,
    model: str,
    data: str,
    rows: Sequence[int],
    edges: Sequence[int],
    seed: int,
    device: str,
    layers: bool,
) -> dict[str, list[dict[str, Any]]]:
    """Return the loss of some pieces of a data set by part: of the whole model, and without each part that it has."""
    from evaluation.ablation import WHOLE, part_losses, parts_of
    from tokenization.prepared import Prepared

    performer, prepared = load(model, device).performer, Prepared.open(data)
    pieces = [(row, np.asarray(prepared.ids(row))) for row in rows]
    parts = [WHOLE, *parts_of(performer, layers=layers)]
    return {part: part_losses(performer, part, pieces, edges, seed) for part in parts}
