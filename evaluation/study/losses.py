"""The experiments that read pieces: the loss past the trained length, and with other numbers of realisations.

A job reads a few pieces. Where one fails, the others count: models are compared over the pieces that all of them have
read, and the tests of one model over those that it has read in all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from evaluation.study import experiments
from evaluation.study.experiments import (
    Experiment,
    Found,
    HeldOut,
    Job,
    job_of,
    named,
    probed_length,
)
from musicgen.playable import Playable

if TYPE_CHECKING:
    from evaluation.likelihood import Loss

PIECES_A_JOB = 4


def extrapolation(
    playables: Sequence[Playable],
    pieces: HeldOut,
    *,
    seed: int,
    device: str,
    control: bool = False,
) -> Experiment:
    """Measure the loss by position to the length, within the trained length and past it.

    With a control, what lies past it is predicted once more, from no more tokens than the trained length.
    """
    from evaluation.likelihood import against_nearby, apart, edges_of, growth, summary

    edges = {model.name: edges_of(model.trained_length, pieces.length) for model in playables}
    jobs = [
        job
        for model in playables
        for job in _loss_jobs(
            model, pieces, edges[model.name], None, seed, device,
            window=model.trained_length if control and model.trained_length < pieces.length else None,
        )
    ]  # fmt: skip

    def compose(found: Found) -> dict[str, Any]:
        read = {name: by_number[None] for name, by_number in _by_piece(found).items()}
        rows = _of_all(pieces.rows, read)
        measured = [one for one in playables if rows and set(rows) <= read.get(one.name, {}).keys()]
        losses = [[read[one.name][row] for row in rows] for one in measured]
        models = [
            {
                **named(playable),
                **summary(own, edges[playable.name], playable.trained_length),
                "seconds": _seconds(found, playable),
            }
            for playable, own in zip(measured, losses, strict=True)
        ]
        for model, own, playable in zip(models, losses, measured, strict=True):
            if all("nearby" in loss for loss in own):
                model["control"] = against_nearby(
                    own, edges[playable.name], playable.trained_length
                )
        if len(measured) > 1 and len({tuple(edges[one.name]) for one in measured}) == 1:
            borders, trained = edges[measured[0].name], measured[0].trained_length
            for model, curve in zip(models, apart(losses, borders), strict=True):
                model["apart"] = curve
            grown = growth(losses, borders, trained)
            for model, one in zip(models, grown or [], strict=False):
                model["growth"] = one
        facts = replace(pieces, rows=rows).facts()
        return {"data": facts, "length": pieces.length, "models": models}

    return Experiment(jobs=jobs, compose=compose, pieces=pieces.names)


def realisations(
    playables: Sequence[Playable], pieces: HeldOut, *, seed: int, device: str
) -> Experiment:
    """Measure the loss within the trained length with a quarter to four times the realisations trained with."""
    from evaluation.likelihood import change, summary

    jobs = []
    for playable in playables:
        trained = playable.config["position"].get("realisations")
        if trained is not None:  # the encoding is stochastic
            edges = [0, probed_length(playable)]
            for number in sorted({max(1, int(trained * f)) for f in (0.25, 0.5, 1, 2, 4)}):
                jobs += _loss_jobs(playable, pieces, edges, number, seed, device)

    def compose(found: Found) -> dict[str, Any]:
        models, read = [], _by_piece(found)
        for playable in playables:
            by_number = read.get(playable.name, {})
            rows = [r for r in pieces.rows if all(r in losses for losses in by_number.values())]
            length = probed_length(playable)
            trained = playable.config["position"].get("realisations")
            if not rows or trained not in by_number:  # with which the others are compared
                continue
            parts = {n: [losses[row] for row in rows] for n, losses in by_number.items()}
            tests = [
                {
                    "realisations": number,
                    **summary(part, [0, length], length)["parts"]["trained"],
                    "change": change(part, parts[trained]),
                }
                for number, part in parts.items()
            ]
            seconds = _seconds(found, playable)
            models.append(
                {**named(playable), "trained": trained, "tests": tests, "seconds": seconds}
            )
        return {"data": pieces.facts(), "models": models}

    return Experiment(jobs=jobs, compose=compose, pieces=pieces.names)


def rows_by_job(rows: Sequence[int]) -> list[Sequence[int]]:
    """Return the pieces of each job."""
    return [rows[i : i + PIECES_A_JOB] for i in range(0, len(rows), PIECES_A_JOB)]


def _loss_jobs(
    playable: Playable,
    pieces: HeldOut,
    edges: Sequence[int],
    number: int | None,
    seed: int,
    device: str,
    window: int | None = None,
) -> list[Job]:
    common = {"edges": list(edges), "seed": seed, "realisations": number}
    common |= {"window": window} if window else {}
    return [
        job_of(playable, experiments.losses, device, pieces.prepared, rows=rows, **common)
        for rows in rows_by_job(pieces.rows)
    ]


def _by_piece(found: Found) -> dict[str, dict[int | None, dict[int, Loss]]]:
    """Return the losses by model, number of realisations and piece."""
    read: dict[str, dict[int | None, dict[int, Loss]]] = {}
    for playable, job, done in found:
        of_number = read.setdefault(playable.name, {}).setdefault(job.arguments["realisations"], {})
        of_number |= dict(zip(job.arguments["rows"], done.result, strict=True))
    return read


def _of_all(rows: Sequence[int], read: Mapping[str, Mapping[int, Loss]]) -> list[int]:
    """Return the pieces that all models have read; but for those that have read fewest, where that would be none."""
    most_first = sorted(read.values(), key=len, reverse=True)
    for models in range(len(most_first), 0, -1):
        shared = [row for row in rows if all(row in losses for losses in most_first[:models])]
        if shared:
            return shared
    return []


def _seconds(found: Found, playable: Playable) -> float:
    return round(sum(done.seconds for one, _, done in found if one.name == playable.name), 2)
