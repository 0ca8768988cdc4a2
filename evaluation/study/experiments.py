"""The experiments of the evaluation: which jobs each consists of, and what its results say together."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evaluation.study import measures
from evaluation.study.jobs import Done, Measurement, run
from evaluation.study.models import identity_of, probed_length
from musicgen.common.workers.pool import Workers
from musicgen.playable import Playable
from tokenization.wording import listed

if TYPE_CHECKING:
    from tokenization.prepared import Prepared

Job = tuple[Playable, Measurement]
"""What is measured of a model."""
Found = list[tuple[Playable, Measurement, Done]]
"""What came of jobs, those that failed left out."""


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """Jobs of one kind, and what becomes of their results: plain data, a list of models in it."""

    jobs: list[Job]
    compose: Callable[[Found], dict[str, Any]]
    # Of a job, where results do without them.
    pieces: Callable[[Measurement], Sequence[str]] | None = None
    beside: Mapping[str, Any] = field(
        default_factory=dict
    )  # said with results, as the command for them alone


def job_of(
    playable: Playable,
    measure: Callable[..., Any],
    device: str,
    prepared: Prepared | None = None,
    **arguments: Any,
) -> Job:
    """Return the job that measures a model, by pieces of a prepared data set if one is given."""
    data = {} if prepared is None else {"data": str(prepared.folder)}
    checksum = {} if prepared is None else {"data": prepared.meta["checksum"]}
    measurement = Measurement(
        measure=measure,
        arguments=arguments,
        places={"model": playable.given, **data, "device": device},
        identity={**identity_of(playable), **checksum},
    )
    return playable, measurement


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
        found = [(playable, job, next(done)) for playable, job in experiment.jobs]
        measured = {playable.name for playable, _, one in found if not one.error}
        partly = set() if experiment.pieces is None else measured  # models that do with the rest
        failed: dict[str, str] = {}
        for playable, job, one in found:
            if one.error and playable.name in partly:
                assert experiment.pieces is not None, "so it is in no other case"
                lost = experiment.pieces(job)
                failures.append(
                    f"{listed(lost)} {'is' if len(lost) == 1 else 'are'} left out of {name} for {playable.name}: "
                    f"{one.error}"
                )
            elif one.error:
                failed[playable.name] = one.error
        failures += [f"{label} is left out of {name}: {why}" for label, why in failed.items()]
        whole = [one for one in found if not one[2].error and one[0].name not in failed]
        results[name] = {**experiment.compose(whole), **experiment.beside}
    return results, failures


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """Pieces of a prepared data set that models are tried on."""

    prepared: Prepared
    split: str
    rows: list[int]
    length: int

    def names(self, job: Measurement) -> list[str]:
        """Return what the pieces of a job are called."""
        return [self.prepared.name(row) for row in job.arguments["rows"]]

    def facts(self) -> dict[str, Any]:
        """Return what is to be said of them beside results."""
        lengths = self.prepared.pieces.length[self.rows]
        return {
            "folder": str(self.prepared.folder),
            "checksum": self.prepared.meta["checksum"],
            "language": self.prepared.meta["language"]["language"],
            "split": self.split,
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
    return HeldOut(prepared=prepared, split=split, rows=chosen.tolist(), length=length)


def default_length(playables: Sequence[Playable]) -> int:
    """Return how far to look: four times the longest trained length."""
    from evaluation.likelihood import FAR

    return int(FAR * max(probed_length(playable) for playable in playables))


def speaking(
    playables: Sequence[Playable], language: str, what: str
) -> tuple[list[Playable], list[str]]:
    """Return the models that speak a language, and a sentence about those that do not."""
    able = [playable for playable in playables if playable.language.name == language]
    return able, left_out_of(what, language, playables)


def left_out_of(what: str, language: str, playables: Sequence[Playable]) -> list[str]:
    """Say which models speak another language, one sentence a language."""
    others: dict[str, list[str]] = {}
    for playable in playables:
        if playable.language.name != language:
            others.setdefault(playable.language.name, []).append(playable.name)
    return [
        f"left out of {what}, which is in {language}, for speaking {other}: {', '.join(names)}"
        for other, names in others.items()
    ]


def taking_part(
    able: Sequence[Playable], playables: Sequence[Playable], what: str, language: str
) -> list[str]:
    """Say which of the models are not able to take part; where none is, that is refused."""
    left_out = left_out_of(what, language, [each for each in playables if each not in able])
    if not able:
        raise ValueError("; ".join(left_out) + f"; name a model that speaks {language}")
    return left_out


def positions(
    playables: Sequence[Playable], *, tokens: int | None, drawn: bool, seed: int, device: str
) -> Experiment:
    """Probe the encodings with sequences of one token; if it is drawn, look at templates and attention too."""
    jobs = []
    for playable in playables:
        length = probed_length(playable)
        probes = job_of(playable, measures.probes, device, length=length, tokens=tokens, seed=seed)
        jobs.append(probes)
        if drawn:
            jobs.append(job_of(playable, measures.pictures, device, length=length, seed=seed))

    def compose(found: Found) -> dict[str, Any]:
        from evaluation.probes import best_heads

        models: dict[str, dict[str, Any]] = {}
        for playable, _, done in found:
            model = models.setdefault(playable.name, {**named(playable), "seconds": 0.0})
            model["seconds"] = round(model["seconds"] + done.seconds, 1)
            if "table" in done.result:
                best = {f"best_{name}": best_heads(rows) for name, rows in done.result.items()}
                model["probes"] = {**done.result, **best, "length": probed_length(playable)}
            else:
                model.update(done.result)
        return {"models": list(models.values())}

    return Experiment(jobs=jobs, compose=compose)


def named(playable: Playable) -> dict[str, Any]:
    """Return what each result says of its model."""
    return {
        "model": playable.name,
        "number": playable.number,
        "encoding": playable.encoding,
        "language": playable.language.name,
        "sha256": playable.sha256,
        "trained_length": playable.trained_length,
    }
