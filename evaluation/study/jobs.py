"""Measurements as jobs: each is done once, by one of several processes or machines, and its result stored as JSON.

A job is known by what it measures: the function's name, its arguments, and whatever identifies the model and the data,
wherever these lie.
A result is kept as soon as it is there, so that work that was broken off goes on where it stopped, and work that was
done is not done again. What a job raises as ValueError or OSError is an answer too: the other jobs go on, and it is
tried again the next time.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from musicgen.common.workers.pool import Workers, as_done, at_most
from musicgen.common.workers.process import Failed
from tokenization.whole_file import write_whole

REVISION = 1  # another number forgets all results: to be changed with what a measurement means


@dataclass(frozen=True, kw_only=True)
class Job:
    """A call of a function of a module, with plain data as arguments and as result."""

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
    jobs: Sequence[Job],
    *,
    folder: Path | None = None,
    workers: Workers = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Done]:
    """Return what comes of each job, in their order; results are kept in the folder, if one is given."""
    if folder is None:
        with tempfile.TemporaryDirectory() as passing:
            return run(jobs, folder=Path(passing), workers=workers, progress=progress)
    folder.mkdir(parents=True, exist_ok=True)
    kept = [_found(folder, job) for job in jobs]
    open_ = [job for job, x in zip(jobs, kept, strict=True) if x is None or x.error]
    before = len(jobs) - len(open_)
    progress(before, len(jobs))
    with closing(as_done(_done, open_, workers=at_most(workers, len(open_)))) as answers:
        for done, (index, found) in enumerate(answers, before + 1):
            _keep(folder, open_[index], _told(found))
            progress(done, len(jobs))
    found = [_found(folder, job) for job in jobs]
    return [Done(error="its result is not there any more") if x is None else x for x in found]


def _told(found: Done | Failed) -> Done:
    return Done(error=found.reason) if isinstance(found, Failed) else found


def _done(job: Job) -> Done:
    began = time.perf_counter()
    try:
        result = job.measure(**job.arguments, **job.places)
    except (ValueError, OSError) as error:
        return Done(error=" ".join(str(error).split()))
    return Done(result=result, seconds=round(time.perf_counter() - began, 3))


def _found(folder: Path, job: Job) -> Done | None:
    """Return what is kept of a job; a damaged file is as good as none."""
    try:
        content = json.loads((folder / f"{job.key}.json").read_text(encoding="utf-8"))
        return Done(**content["done"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _keep(folder: Path, job: Job, done: Done) -> None:
    """Write what came of a job, whole or not at all."""
    path = folder / f"{job.key}.json"
    known = {"arguments": dict(job.arguments), "identity": dict(job.identity)}
    content = {**known, "done": vars(done)}
    write_whole(path, json.dumps(content).encode())
