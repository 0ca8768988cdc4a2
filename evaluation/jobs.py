"""Measurements as jobs: each is done once, by one of several processes, and its result kept as JSON.

A job is known by what it measures: the function's name, its arguments, and whatever identifies the model and the data.
A result is kept as soon as it is there, so that work that was broken off goes on where it stopped, and work that was
done is not done again. What a job raises as ValueError or OSError is its result too: the others go on.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

REVISION = 1  # another number forgets all results: to be changed with what a measurement means


@dataclass(frozen=True, kw_only=True)
class Job:
    """A call of a function of a module, with plain data as arguments and as result."""

    measure: Callable[..., Any]
    arguments: Mapping[str, Any]
    identity: Mapping[str, Any] = field(default_factory=dict)  # of what the arguments only name

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


class Results:
    """Results in a folder, one file each; without a folder none is kept."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)

    def find(self, job: Job) -> Done | None:
        """Return a result that is there; a damaged file is as good as none."""
        if self.folder is None:
            return None
        try:
            content = json.loads((self.folder / f"{job.key}.json").read_text(encoding="utf-8"))
            return Done(result=content["result"], seconds=content["seconds"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def keep(self, job: Job, done: Done) -> None:
        """Write a result, whole or not at all; errors are not kept."""
        if self.folder is None or done.error is not None:
            return
        path = self.folder / f"{job.key}.json"
        content = {"arguments": dict(job.arguments), "identity": dict(job.identity)}
        text = json.dumps({**content, "seconds": done.seconds, "result": done.result}, default=str)
        path.with_suffix(".new").write_text(text, encoding="utf-8")
        os.replace(path.with_suffix(".new"), path)


def run(
    jobs: Sequence[Job],
    *,
    folder: Path | None = None,
    workers: int = 1,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Done]:
    """Return what comes of each job, in their order; with one worker they run in this process."""
    results = Results(folder)
    found: list[Done | None] = [results.find(job) for job in jobs]
    open_ = [number for number, done in enumerate(found) if done is None]

    def finish(number: int, done: Done) -> None:
        results.keep(jobs[number], done)
        found[number] = done
        progress(len(jobs) - found.count(None), len(jobs))

    progress(len(jobs) - len(open_), len(jobs))
    workers = min(workers, len(open_))
    if workers <= 1:
        for number in open_:
            finish(number, _do(jobs[number]))
    else:
        _share(jobs, open_, workers, finish)
    return [done for done in found if done is not None]


def processors() -> int:
    """Return how many jobs can run at once."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _share(
    jobs: Sequence[Job], open_: Sequence[int], workers: int, finish: Callable[[int, Done], None]
) -> None:
    """Let processes do the jobs, one thread each: small models gain nothing from two."""
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_one_thread)
    try:
        futures = {pool.submit(_do, jobs[number]): number for number in open_}
        for future in as_completed(futures):
            finish(futures[future], future.result())
    finally:
        pool.shutdown(cancel_futures=True)


def _do(job: Job) -> Done:
    began = time.perf_counter()
    try:
        result = job.measure(**job.arguments)
    except (ValueError, OSError) as error:
        return Done(error=" ".join(str(error).split()))
    return Done(result=result, seconds=round(time.perf_counter() - began, 3))


def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)
