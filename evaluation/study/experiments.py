"""The experiments of the evaluation: which jobs each consists of, and what its results say together."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evaluation.study import measures
from evaluation.study.jobs import Done, Job, run
from evaluation.study.models import identity_of, is_stochastic, probed_length
from musicgen.common.workers.pool import Workers
from musicgen.playable import Playable

if TYPE_CHECKING:
    from tokenization.prepared import Prepared

PIECES_A_JOB = 4


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """Jobs of one kind, and what becomes of their results: plain data, a list of models in it."""

    jobs: list[tuple[Playable, Job]]
    compose: Callable[[list[tuple[Playable, Done]]], dict[str, Any]]
    piece: Callable[[Job], str] | None = None  # of a job, where results do without a piece


def conduct(
    experiments: Mapping[str, Experiment],
    *,
    folder: Path | None = None,
    workers: Workers = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Return the result of each experiment, and sentences about what failed in them."""
    jobs = [job for experiment in experiments.values() for _, job in experiment.jobs]
    done = iter(run(jobs, folder=folder, workers=workers, progress=progress))
    results, failures = {}, []
    for name, experiment in experiments.items():
        found = [(subject, next(done)) for subject, _ in experiment.jobs]
        if experiment.piece is None:
            failed = {subject.name: one.error for subject, one in found if one.error}
            failures += [f"{label} is left out of {name}: {why}" for label, why in failed.items()]
        else:
            failed = {}
            failures += [
                f"{experiment.piece(job)} is left out of {name} for {subject.name}: {one.error}"
                for (subject, job), (_, one) in zip(experiment.jobs, found, strict=True)
                if one.error
            ]
        whole = [(s, one) for s, one in found if not one.error and s.name not in failed]
        results[name] = experiment.compose(whole)
    return results, failures


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """Pieces of a prepared data set that models are tried on."""

    prepared: Prepared
    rows: list[int]
    length: int

    @property
    def identity(self) -> dict[str, Any]:
        """What identifies the pieces; which of them, a job's arguments say."""
        return {"data": self.prepared.meta["checksum"]}

    @property
    def language(self) -> str:
        """The language they are in."""
        return self.prepared.meta["language"]["language"]

    def facts(self) -> dict[str, Any]:
        """Return what is to be said of them beside results."""
        lengths = self.prepared.pieces.length[self.rows]
        return {
            "folder": str(self.prepared.folder),
            "checksum": self.prepared.meta["checksum"],
            "language": self.language,
            "pieces": len(self.rows),
            "whole": int((lengths > self.length).sum()),
            "rows": hashlib.sha256(str(self.rows).encode()).hexdigest()[:16],
        }


def held_out(folder: str | Path, length: int, pieces: int, split: str, seed: int) -> HeldOut:
    """Choose pieces of a split, one row a file: those that fill the length first, in the order of the files."""
    from tokenization.prepared import Prepared

    prepared = Prepared.open(folder)
    prepared.verify()  # results are kept under its checksum
    rows = prepared.rows(split)
    files = prepared.pieces.file[rows]
    random = np.random.default_rng(seed)
    drawn = np.array([random.choice(rows[files == file]) for file in np.unique(files)], dtype=int)
    if not len(drawn):
        raise ValueError(f"{folder} has no piece in its {split} split; another --split may have")
    fills = prepared.pieces.length[drawn] > length
    chosen = drawn[np.argsort(~fills, kind="stable")][:pieces]
    return HeldOut(prepared=prepared, rows=chosen.tolist(), length=length)


def language_of_data(folder: str | Path) -> str:
    """Return the language of a prepared data set."""
    from tokenization.prepared import Prepared

    return Prepared.open(folder).meta["language"]["language"]


def default_length(subjects: Sequence[Playable]) -> int:
    """Return how far to look: four times the longest trained length."""
    from evaluation.likelihood import FAR

    return int(FAR * max(probed_length(subject) for subject in subjects))


def speaking(
    subjects: Sequence[Playable], language: str, what: str
) -> tuple[list[Playable], list[str]]:
    """Return the models that speak a language, and a sentence about those that do not."""
    able = [subject for subject in subjects if subject.language.name == language]
    return able, left_out_of(what, language, subjects)


def left_out_of(what: str, language: str, subjects: Sequence[Playable]) -> list[str]:
    """Say which models speak another language, one sentence a language."""
    others: dict[str, list[str]] = {}
    for subject in subjects:
        if subject.language.name != language:
            others.setdefault(subject.language.name, []).append(subject.name)
    return [
        f"left out of {what}, which is in {language}, for speaking {other}: {', '.join(names)}"
        for other, names in others.items()
    ]


def extrapolation(
    subjects: Sequence[Playable], pieces: HeldOut, *, seed: int, device: str
) -> Experiment:
    """Measure the loss by position to the length, within the trained length and past it."""
    from evaluation.likelihood import apart, edges_of, growth, summary

    edges = {s.name: edges_of(s.trained_length, pieces.length) for s in subjects}
    jobs = [
        job for s in subjects for job in _loss_jobs(s, pieces, edges[s.name], None, seed, device)
    ]

    def compose(found: list[tuple[Playable, Done]]) -> dict[str, Any]:
        gathered = _gathered(found)
        models = [
            {**_named(s), **summary(losses, edges[s.name], s.trained_length), "seconds": seconds}
            for s, losses, seconds in gathered
        ]
        if len(gathered) > 1 and len({tuple(edges[s.name]) for s, *_ in gathered}) == 1:
            losses, borders = [x for _, x, _ in gathered], edges[gathered[0][0].name]
            for model, curve in zip(models, apart(losses, borders), strict=True):
                model["apart"] = curve
            grown = growth(losses, borders, gathered[0][0].trained_length)
            for model, one in zip(models, grown or [], strict=False):
                model["growth"] = one
        return {"data": pieces.facts(), "length": pieces.length, "models": models}

    return Experiment(jobs=jobs, compose=compose)


def realisations(
    subjects: Sequence[Playable], pieces: HeldOut, *, seed: int, device: str
) -> Experiment:
    """Measure the loss within the trained length with a quarter to four times the realisations trained with."""
    from evaluation.likelihood import change, summary

    jobs, tried = [], {}
    for subject in subjects:
        if is_stochastic(subject):
            trained = subject.config["position"]["realisations"]
            tried[subject.name] = sorted({max(1, int(trained * f)) for f in (0.25, 0.5, 1, 2, 4)})
            edges = [0, probed_length(subject)]
            for number in tried[subject.name]:
                jobs += _loss_jobs(subject, pieces, edges, number, seed, device)

    def compose(found: list[tuple[Playable, Done]]) -> dict[str, Any]:
        models = []
        for subject, losses, seconds in _gathered(found):
            numbers, size = tried[subject.name], len(pieces.rows)
            length, trained = probed_length(subject), subject.config["position"]["realisations"]
            parts = {n: losses[i * size : (i + 1) * size] for i, n in enumerate(numbers)}
            tests = [
                {
                    "realisations": number,
                    **summary(part, [0, length], length)["parts"]["trained"],
                    "change": change(part, parts[trained]),
                }
                for number, part in parts.items()
            ]
            models.append(
                {**_named(subject), "trained": trained, "tests": tests, "seconds": seconds}
            )
        return {"data": pieces.facts(), "models": models}

    return Experiment(jobs=jobs, compose=compose)


def positions(
    subjects: Sequence[Playable], *, tokens: int | None, drawn: bool, seed: int, device: str
) -> Experiment:
    """Probe the encodings with sequences of one token; if it is drawn, look at templates and attention too."""
    jobs = []
    for subject in subjects:
        arguments = {"length": probed_length(subject), "seed": seed}
        common = {
            "places": {"model": subject.given, "device": device},
            "identity": identity_of(subject),
        }
        probing = {**arguments, "tokens": tokens}
        jobs.append((subject, Job(measure=measures.probes, arguments=probing, **common)))
        if drawn:
            jobs.append((subject, Job(measure=measures.pictures, arguments=arguments, **common)))

    def compose(found: list[tuple[Playable, Done]]) -> dict[str, Any]:
        from evaluation.probes import best_heads

        models: dict[str, dict[str, Any]] = {}
        for subject, done in found:
            model = models.setdefault(subject.name, {**_named(subject), "seconds": 0.0})
            model["seconds"] = round(model["seconds"] + done.seconds, 1)
            if "table" in done.result:
                best = {f"best_{name}": best_heads(rows) for name, rows in done.result.items()}
                model["probes"] = {**done.result, **best, "length": probed_length(subject)}
            else:
                model.update(done.result)
        return {"models": list(models.values())}

    return Experiment(jobs=jobs, compose=compose)


def _loss_jobs(
    subject: Playable,
    pieces: HeldOut,
    edges: Sequence[int],
    number: int | None,
    seed: int,
    device: str,
) -> list[tuple[Playable, Job]]:
    folder = str(pieces.prepared.folder)
    parts = [pieces.rows[i : i + PIECES_A_JOB] for i in range(0, len(pieces.rows), PIECES_A_JOB)]
    return [
        (
            subject,
            Job(
                measure=measures.losses,
                arguments={
                    "rows": rows,
                    "edges": list(edges),
                    "seed": seed,
                    "realisations": number,
                },
                places={"model": subject.given, "data": folder, "device": device},
                identity={**identity_of(subject), **pieces.identity},
            ),
        )
        for rows in parts
    ]


def _named(subject: Playable) -> dict[str, Any]:
    """Return what each result says of its model."""
    return {
        "model": subject.name,
        "number": subject.number,
        "encoding": subject.encoding,
        "language": subject.language.name,
        "sha256": subject.sha256,
        "trained_length": subject.trained_length,
    }


def _gathered(found: list[tuple[Playable, Done]]) -> list[tuple[Playable, list[Any], float]]:
    """Return each model once, with the results of all its jobs joined, and their seconds."""
    joined: dict[str, tuple[Playable, list[Any], float]] = {}
    for subject, done in found:
        _, results, seconds = joined.get(subject.name, (subject, [], 0.0))
        joined[subject.name] = (subject, results + done.result, round(seconds + done.seconds, 2))
    return list(joined.values())
