"""The experiments of the evaluation: what is measured, in which jobs, and what their results say together."""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from inspect import isgeneratorfunction
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from musicgen.common.workers import Failed, Workers, as_done, at_most
from musicgen.continuation import Continuation, Generation, together
from musicgen.generation.request import Request
from musicgen.generation.sampling import Sampling
from musicgen.pieces import no_prompt
from musicgen.playable import Playable, find, load
from tokenization.whole_file import make_folder, write_whole
from tokenization.wording import listed

if TYPE_CHECKING:
    from tokenization.prepared import Prepared


UNTRAINED_LENGTH = 512  # as which an untrained model is probed


def models_of(names: Sequence[str], device: str = "auto") -> list[Playable]:
    """Return the models of these names, each once, numbered, with names that differ; no weights are read yet."""
    found = [find(name, device) for name in dict.fromkeys(names)]
    # What a model is called by itself, else its folder, else the whole path.
    choices = [(model.name, PurePath(model.given).name, model.given) for model in found]
    taken = [Counter(column) for column in zip(*choices, strict=True)]
    return [
        replace(
            model,
            number=number,
            name=next(
                (name for name, seen in zip(of_model, taken, strict=True) if seen[name] == 1),
                model.given,
            ),
        )
        for number, (model, of_model) in enumerate(zip(found, choices, strict=True))
    ]


def probed_length(model: Playable) -> int:
    """Return the trained length, or one in its stead."""
    return model.trained_length or UNTRAINED_LENGTH


def facts_of(model: Playable) -> dict[str, Any]:
    """Return what is known of a model as plain data."""
    return {
        "given": model.given,
        "label": model.name,
        "language": model.language.name,
        "encoding": model.encoding,
        "trained_length": model.trained_length,
        "parameters": model.parameters,
        "sha256": model.sha256,
        "config": model.config,
        "training": model.training,
        "number": model.number,
    }


# What the evaluations measure of a model given by name, each a function of plain data, to be done in any process.

MAP_SAMPLES = 2  # generated pieces that a picture of attention is the mean of


def probes(
    *, model: str, length: int, tokens: int | None, seed: int, device: str
) -> dict[str, list[dict[str, Any]]]:
    """Return translation invariance and monotonicity by head, in table 7's ranges and in figure 4's."""
    from evaluation.probes import local_ranges, paper_ranges, probe

    performer = load(model, device).performer
    size = performer.config.vocabulary_size
    probed = np.unique(np.linspace(0, size - 1, min(tokens or size, size)).round().astype(int))
    table, figure = paper_ranges(length), local_ranges(length)
    limit = performer.config.longest or length * 2
    ranges = [where for where in [*table, *figure] if where.stop <= limit]
    found = probe(performer, ranges, probed.tolist(), seed)
    return {
        name: [row for row in found if any(vars(where).items() <= row.items() for where in part)]
        for name, part in (("table", table), ("figure", figure))
    }


def pictures(*, model: str, length: int, seed: int, device: str) -> dict[str, Any]:
    """Return the learned templates to the trained length, and attention maps of generated pieces past it."""
    from evaluation.attention import attention_maps, paper_layers, templates

    loaded = load(model, device)
    performer = loaded.performer
    limit = performer.config.longest or length * 2
    sampling = Sampling(temperature=1.0, top_p=0.95)
    request = Request(tokens=min(length + length // 2, limit) - 1, sampling=sampling)
    requests = [replace(request, seed=seed + number) for number in range(MAP_SAMPLES)]
    start = no_prompt(loaded.language)
    pieces = [Continuation(loaded, start, one).finish().sequences()[0] for one in requests]
    layers = paper_layers(performer.config.layers)
    return {
        "templates": templates(performer, length, layers[0], seed),
        "attention": attention_maps(performer, pieces, layers, seed),
    }


# Measurements as jobs: each is done once, by one of several processes or machines, and its result stored as JSON.
#
# A job is known by its function's name, its arguments, and what identifies the model and the data, wherever these lie.
# Results are kept at once, so that interrupted work goes on where it stopped. A ValueError or OSError is an answer too:
# the other jobs go on, and the job is tried again the next time. Jobs for which a model writes are done a few at a
# time, in one batch.

TOGETHER = 8  # jobs whose model writes for all of them at a time
REVISION = 3  # another number forgets all results: to be changed with what a measurement means


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """A call of a function of a module, with plain data as arguments and as result.

    A function that has a model write yields the works, and goes on once they are done.
    """

    measure: Callable[..., Any]
    arguments: Mapping[str, Any]
    places: Mapping[str, Any] = field(default_factory=dict)  # arguments that only say where
    identity: Mapping[str, Any] = field(default_factory=dict)  # what is there

    @property
    def key(self) -> str:
        """What the result is kept under."""
        content = [REVISION, self.measure.__qualname__, dict(self.arguments), dict(self.identity)]
        text = json.dumps(content, sort_keys=True, default=str)
        return f"{self.measure.__name__}-{hashlib.sha256(text.encode()).hexdigest()[:20]}"


@dataclass(frozen=True, kw_only=True)
class Done:
    """What came of a job: a result, or why there is none."""

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
    """Return what comes of each job, in their order; results are kept in the folder, if one is given."""
    if folder is None:
        with tempfile.TemporaryDirectory() as passing:
            return run(jobs, folder=Path(passing), workers=workers, progress=progress)
    make_folder(folder, "name another one")
    kept = [_found(folder, job) for job in jobs]
    open_ = [job for job, x in zip(jobs, kept, strict=True) if x is None or x.error]
    before = len(jobs) - len(open_)
    progress(before, len(jobs))
    parts, done = _parts(open_, workers), before
    with closing(as_done(_done, parts, workers=at_most(workers, len(parts)))) as answers:
        for index, found in answers:
            if isinstance(found, Failed):
                found = [Done(error=found.reason)] * len(parts[index])
            for job, one in zip(parts[index], found, strict=True):
                _keep(folder, job, one)
            done += len(parts[index])
            progress(done, len(jobs))
    found = [_found(folder, job) for job in jobs]
    return [Done(error="its result is not there any more") if x is None else x for x in found]


def _parts(jobs: Sequence[Measurement], workers: Workers) -> list[list[Measurement]]:
    """Return what is done at a time: a job, or a few of those for which one model writes, some for every worker."""
    parts, writing = [], defaultdict(list)
    for job in jobs:
        if isgeneratorfunction(job.measure):
            writing[job.measure, tuple(job.places.items())].append(job)
        else:
            parts.append([job])
    for alike in writing.values():
        share = len(alike) if isinstance(workers, str) else -(-len(alike) // max(1, workers))
        size = min(TOGETHER, share)
        parts += [alike[first : first + size] for first in range(0, len(alike), size)]
    return parts


def _done(jobs: Sequence[Measurement]) -> list[Done]:
    """Do some jobs, all that is written for them in one batch."""
    began = time.perf_counter()
    found: list[Done | None] = [None] * len(jobs)
    going = {number: _begun(job) for number, job in enumerate(jobs)}
    while going:
        works: list[Generation] = []
        for number, measure in [*going.items()]:
            try:
                works += next(measure)
            except StopIteration as end:
                found[number] = Done(result=end.value)
            except (ValueError, OSError) as error:
                found[number] = Done(error=" ".join(str(error).split()))
            if found[number]:
                del going[number]
        for _ in together(works) if works else ():
            pass
    seconds = round((time.perf_counter() - began) / len(jobs), 3)
    return [replace(one, seconds=seconds) for one in found if one is not None]


def _begun(job: Measurement) -> Generator[Sequence[Generation], None, Any]:
    """Call a job's function; one that writes nothing is one that yields nothing."""
    result = job.measure(**job.arguments, **job.places)
    return (yield from result) if isgeneratorfunction(job.measure) else result


def _found(folder: Path, job: Measurement) -> Done | None:
    """Return what is kept of a job; a damaged file is as good as none."""
    try:
        content = json.loads((folder / f"{job.key}.json").read_text(encoding="utf-8"))
        return Done(**content["done"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _keep(folder: Path, job: Measurement, done: Done) -> None:
    """Write what came of a job, whole or not at all."""
    known = {"arguments": dict(job.arguments), "identity": dict(job.identity)}
    content = json.dumps({**known, "done": vars(done)})
    write_whole(folder / f"{job.key}.json", content.encode())


Job = tuple[Playable, Measurement]
"""What is measured of a model."""
Found = list[tuple[Playable, Measurement, Done]]
"""What came of jobs, those that failed left out."""


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """Jobs of one kind, and what becomes of their results: plain data, a list of models in it."""

    jobs: list[Job]
    compose: Callable[[Found], dict[str, Any]]
    prepared: Prepared | None = None  # whose pieces jobs are of; results do without those that fail
    # Facts about the pieces, which stand with the results.
    facts: Mapping[str, Any] = field(default_factory=dict)


def job_of(
    playable: Playable,
    measure: Callable[..., Any],
    device: str,
    prepared: Prepared | None = None,
    *,
    places: Mapping[str, Any] | None = None,
    identity: Mapping[str, Any] | None = None,
    **arguments: Any,
) -> Job:
    """Return the job that measures a model, by pieces of a prepared data set if one is given, or of other places."""
    data = {} if prepared is None else {"data": str(prepared.folder)}
    checksum = {} if prepared is None else {"data": prepared.meta["checksum"]}
    model = {"weights": playable.sha256 or playable.given, "config": playable.config}
    measurement = Measurement(
        measure=measure,
        arguments=arguments,
        places={"model": playable.given, **data, **(places or {}), "device": device},
        identity={**model, **checksum, **(identity or {})},
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
        failed: dict[str, str] = {}
        for playable, job, one in found:
            if one.error and experiment.prepared and playable.name in measured:
                rows = job.arguments.get("rows") or [job.arguments["row"]]
                lost = [experiment.prepared.name(row) for row in rows]
                failures.append(
                    f"{listed(lost)} {'is' if len(lost) == 1 else 'are'} left out of {name} for {playable.name}: "
                    f"{one.error}"
                )
            elif one.error:
                failed[playable.name] = one.error
        failures += [f"{label} is left out of {name}: {why}" for label, why in failed.items()]
        whole = [one for one in found if not one[2].error and one[0].name not in failed]
        results[name] = {**experiment.facts, **experiment.compose(whole)}
    return results, failures


def taking_part(
    playables: Sequence[Playable], language: str, what: str
) -> tuple[list[Playable], list[str]]:
    """Return the models of a language, and a sentence about those of each other one; none at all are refused."""
    able = [playable for playable in playables if playable.language.name == language]
    others: dict[str, list[str]] = {}
    for playable in playables:
        if playable.language.name != language:
            others.setdefault(playable.language.name, []).append(playable.name)
    left_out = [
        f"left out of {what}, which is in the language {language}: {', '.join(names)}, in {other}"
        for other, names in others.items()
    ]
    if not able:
        raise ValueError("; ".join(left_out) + f"; name a model that uses {language}")
    return able, left_out


def positions(
    playables: Sequence[Playable], *, tokens: int | None, drawn: bool, seed: int, device: str
) -> Experiment:
    """Probe the encodings with sequences of one token; if it is drawn, look at templates and attention too."""
    jobs = []
    for playable in playables:
        length = probed_length(playable)
        jobs.append(job_of(playable, probes, device, length=length, tokens=tokens, seed=seed))
        if drawn:
            jobs.append(job_of(playable, pictures, device, length=length, seed=seed))

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
