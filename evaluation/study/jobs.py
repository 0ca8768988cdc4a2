"""Measurements as jobs: each is done once, by one of several processes or machines, and its result stored as JSON.

A job is known by what it measures: the function's name, its arguments, and whatever identifies the model and the data,
wherever these lie.
A result is kept as soon as it is there, so that work that was broken off goes on where it stopped, and work that was
done is not done again. What a job raises as ValueError or OSError is an answer too: the other jobs go on, and it is
tried again the next time.

Jobs for which a model writes are done a few at a time: what they ask for goes through the model in one batch.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from inspect import isgeneratorfunction
from pathlib import Path
from typing import Any

from musicgen.common.workers.pool import Workers, as_done, at_most
from musicgen.common.workers.process import Failed
from musicgen.continuation import Generation, together
from tokenization.whole_file import make_folder, write_whole

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
            for job, one in zip(parts[index], _told(found, len(parts[index])), strict=True):
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


def _told(found: list[Done] | Failed, jobs: int) -> list[Done]:
    return [Done(error=found.reason)] * jobs if isinstance(found, Failed) else found


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
    path = folder / f"{job.key}.json"
    known = {"arguments": dict(job.arguments), "identity": dict(job.identity)}
    content = {**known, "done": vars(done)}
    write_whole(path, json.dumps(content).encode())
