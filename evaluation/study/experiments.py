"""Experiments: measurements of models, split into jobs whose results are stored, and combined at the end."""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import lru_cache
from inspect import isgeneratorfunction
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import musicgen
import tokenization
from musicgen.continuation import Generation, run_together
from musicgen.playable import Playable, find
from tokenization.whole_file import make_folder, write_whole
from tokenization.workers import Failed, Workers, as_done, limit_workers

if TYPE_CHECKING:
    from tokenization.prepared import Prepared


UNTRAINED_LENGTH = 512  # assumed as the trained length of untrained models


def models_of(names: Sequence[str], device: str = "auto") -> list[Playable]:
    """Return the models by name, without duplicates, numbered and with unique names; weights are not loaded yet.

    A model is called by its own name, or else by its folder's, or else by the path as given.
    """
    found = [find(name, device) for name in dict.fromkeys(names)]
    choices = [(model.name, PurePath(model.given).name, model.given) for model in found]
    counts = [Counter(column) for column in zip(*choices, strict=True)]
    models = []
    for number, (model, own) in enumerate(zip(found, choices, strict=True)):
        unique = (name for name, count in zip(own, counts, strict=True) if count[name] == 1)
        models.append(replace(model, number=number, name=next(unique, model.given)))
    return models


def probed_length(model: Playable) -> int:
    """Return the trained length of a model, or a default for untrained models."""
    return model.trained_length or UNTRAINED_LENGTH


def model_fields(playable: Playable) -> dict[str, Any]:
    """Return the fields that identify a model in its results."""
    return {
        "model": playable.name,
        "number": playable.number,
        "encoding": playable.encoding,
        "language": playable.language.name,
        "sha256": playable.sha256,
        "trained_length": playable.trained_length,
    }


# Jobs: each measurement runs once, in one of several processes or machines, and its result is stored as JSON.
#
# A job is identified by the name of its function, its arguments, and hashes of the model and the data, wherever these
# are stored; if it generates music, also by the code that decides what is written, and by the critic, if one chooses.
# Results are written immediately, so that interrupted work can resume. A ValueError or OSError is stored as a result:
# the other jobs continue, and the failed job is retried next time. Jobs that generate music are run a few at a time, in
# one batch.

TOGETHER = 8  # jobs that generate in one batch
REVISION = 5  # increase when the meaning of a measurement changes, to invalidate all stored results
JUDGES = ("critic.py", "statistics.py", "harmony_statistics.py", "part_statistics.py")


@lru_cache(maxsize=2)
def version(*, chooses: bool) -> str:
    """Return the hash of the code that decides what models write; what only judges music counts if a critic chooses."""
    content = hashlib.sha256()
    for package in (musicgen, tokenization):
        folder = Path(str(package.__file__)).parent
        for path in sorted(path for kind in ("py", "wasm") for path in folder.rglob(f"*.{kind}")):
            if chooses or path.name not in JUDGES:
                content.update(path.relative_to(folder).as_posix().encode() + path.read_bytes())
    return content.hexdigest()


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """A function call with plain data as arguments and result.

    A function that generates music is a generator: it yields the generations, and continues once they are finished.
    """

    measure: Callable[..., Any]
    arguments: Mapping[str, Any]
    places: Mapping[str, Any] = field(default_factory=dict)  # further arguments: paths and device
    identity: Mapping[str, Any] = field(default_factory=dict)  # hashes of what the paths lead to

    @property
    def key(self) -> str:
        """The name under which the result is stored."""
        content = [REVISION, self.measure.__qualname__, dict(self.arguments), dict(self.identity)]
        text = json.dumps(content, sort_keys=True, default=str)
        return f"{self.measure.__name__}-{hashlib.sha256(text.encode()).hexdigest()[:20]}"


@dataclass(frozen=True, kw_only=True)
class Done:
    """The outcome of a job: a result or an error message."""

    result: Any = None
    error: str | None = None
    seconds: float = 0.0


def run(
    jobs: Sequence[Measurement],
    *,
    folder: Path | None = None,
    workers: Workers = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Done]:
    """Run the jobs that have no stored result, and return the outcomes of all in order.

    Results are stored in the folder, if one is given.
    """
    if folder is None:
        with tempfile.TemporaryDirectory() as temporary:
            return run(jobs, folder=Path(temporary), workers=workers, progress=progress)
    make_folder(folder, "name another one")
    stored = [_stored(folder, job) for job in jobs]
    pending = [job for job, x in zip(jobs, stored, strict=True) if x is None or x.error]
    done = len(jobs) - len(pending)
    progress(done, len(jobs))
    batches = _batches(pending, workers)
    with closing(
        as_done(_run_batch, batches, workers=limit_workers(workers, len(batches)))
    ) as answers:
        for index, outcomes in answers:
            if isinstance(outcomes, Failed):
                outcomes = [Done(error=outcomes.reason)] * len(batches[index])
            for job, outcome in zip(batches[index], outcomes, strict=True):
                _store(folder, job, outcome)
            done += len(batches[index])
            progress(done, len(jobs))
    stored = [_stored(folder, job) for job in jobs]
    return [Done(error="its stored result has disappeared") if x is None else x for x in stored]


def _batches(jobs: Sequence[Measurement], workers: Workers) -> list[list[Measurement]]:
    """Split jobs into batches: several that generate with one model, spread over the workers, or a single other job."""
    batches, generating = [], defaultdict(list)
    for job in jobs:
        if isgeneratorfunction(job.measure):
            generating[job.measure, tuple(job.places.items())].append(job)
        else:
            batches.append([job])
    for alike in generating.values():
        spread = max(1, workers) if isinstance(workers, int) else len(alike)
        size = min(TOGETHER, -(-len(alike) // spread))
        batches += [alike[first : first + size] for first in range(0, len(alike), size)]
    return batches


def _run_batch(jobs: Sequence[Measurement]) -> list[Done]:
    """Run jobs together, and generate the music for all of them in one batch."""
    began = time.perf_counter()
    found: list[Done | None] = [None] * len(jobs)
    running = {number: _start(job) for number, job in enumerate(jobs)}
    while running:
        works: list[Generation] = []
        for number, measure in [*running.items()]:
            try:
                works += next(measure)
            except StopIteration as end:
                found[number] = Done(result=end.value)
            except (ValueError, OSError) as error:
                found[number] = Done(error=" ".join(str(error).split()))
            if found[number]:
                del running[number]
        for _ in run_together(works) if works else ():
            pass
    seconds = round((time.perf_counter() - began) / len(jobs), 3)
    return [replace(one, seconds=seconds) for one in found if one is not None]


def _start(job: Measurement) -> Generator[Sequence[Generation], None, Any]:
    """Call a job's function; one that generates no music becomes a generator that yields nothing."""
    result = job.measure(**job.arguments, **job.places)
    return (yield from result) if isgeneratorfunction(job.measure) else result


def _stored(folder: Path, job: Measurement) -> Done | None:
    """Return the stored outcome of a job; None if its file is missing or damaged."""
    try:
        content = json.loads((folder / f"{job.key}.json").read_text(encoding="utf-8"))
        return Done(**content["done"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _store(folder: Path, job: Measurement, done: Done) -> None:
    """Store the outcome of a job atomically."""
    known = {"arguments": dict(job.arguments), "identity": dict(job.identity)}
    content = json.dumps({**known, "done": vars(done)})
    write_whole(folder / f"{job.key}.json", content.encode())


Job = tuple[Playable, Measurement]
"""A model and a measurement of it."""


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """Jobs of one kind, and a function that combines the results of a model's jobs into rows of plain data."""

    jobs: list[Job]
    compose: Callable[[Playable, list[Any]], list[dict[str, Any]]]
    # The data set of the pieces, if jobs are per piece; pieces whose jobs fail are left out.
    prepared: Prepared | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)  # about the pieces, added to the results


def job_of(
    playable: Playable,
    measure: Callable[..., Any],
    device: str,
    prepared: Prepared | None = None,
    **arguments: Any,
) -> Job:
    """Return the job that measures a model, on pieces of a prepared data set, if one is given."""
    data = {} if prepared is None else {"data": str(prepared.folder)}
    checksum = {} if prepared is None else {"data": prepared.meta["checksum"]}
    model = {"weights": playable.sha256 or playable.given, "config": playable.config}
    critic = playable.critic if arguments.get("draw", 1) > 1 else None
    code = {"code": version(chooses=critic is not None)} if isgeneratorfunction(measure) else {}
    chooser = {"critic": critic.sha256} if critic else {}
    measurement = Measurement(
        measure=measure,
        arguments=arguments,
        places={"model": playable.given, **data, "device": device},
        identity={**model, **checksum, **code, **chooser},
    )
    return playable, measurement


def conduct(
    experiments: Mapping[str, Experiment],
    *,
    folder: Path | None = None,
    workers: Workers = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Run experiments; return the facts and the rows of `models` of each, and a sentence for every failure."""
    jobs = [job for experiment in experiments.values() for _, job in experiment.jobs]
    done = iter(run(jobs, folder=folder, workers=workers, progress=progress))
    results, failures = {}, []
    for name, experiment in experiments.items():
        found = [(playable, job, next(done)) for playable, job in experiment.jobs]
        measured = {playable.name for playable, _, one in found if not one.error}
        failed: dict[str, str] = {}
        for playable, job, one in found:
            if one.error and experiment.prepared and playable.name in measured:
                lost = experiment.prepared.name(job.arguments["row"])
                failures.append(f"{lost} is left out of {name} for {playable.name}: {one.error}")
            elif one.error:
                failed[playable.name] = one.error
        failures += [f"{label} is left out of {name}: {why}" for label, why in failed.items()]
        models = []
        for playable in {one.name: one for one, _ in experiment.jobs}.values():
            if playable.name not in failed:
                own = [x.result for one, _, x in found if one.name == playable.name and not x.error]
                models += experiment.compose(playable, own)
        results[name] = {**experiment.facts, "models": models}
    return results, failures


def models_for_language(
    playables: Sequence[Playable], language: str, what: str
) -> tuple[list[Playable], list[str]]:
    """Return the models of a language, and a sentence for each other language about the models left out.

    Raises ValueError if no model is left.
    """
    able = [playable for playable in playables if playable.language.name == language]
    others: dict[str, list[str]] = {}
    for playable in playables:
        if playable.language.name != language:
            others.setdefault(playable.language.name, []).append(playable.name)
    left_out = [
        f"left out of {what}, which uses the language {language}: {', '.join(names)} ({other})"
        for other, names in others.items()
    ]
    if not able:
        raise ValueError("; ".join(left_out) + f"; name a model that uses {language}")
    return able, left_out
