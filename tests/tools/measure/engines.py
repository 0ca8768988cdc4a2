"""Engines for work over processes beside ours: how long they take, and what a task that ends its process costs.

    python -m tests.tools.measure.engines [--turns N] [--music FOLDER] [--only ENGINE …]

By turns: the start with two tasks that cost nothing, 1,000 such tasks, twenty tasks of which the eighth ends its
process, and the groove files of a folder, spelled. Dask comes with the extra `cluster`.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from musicgen.common.processes import CONTEXT, processors
from musicgen.common.workers.pool import in_order
from musicgen.common.workers.process import Failed
from training.data.prepare import spell
from training.data.sources import SOURCES
from training.data.sources.source import list_files

LOST = "lost"
Engine = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]


def ours(function: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
    """Do the tasks by the pool of this project."""
    for answer in in_order(function, tasks, workers=processors()):
        yield LOST if isinstance(answer, Failed) else answer


def executor(function: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
    """Do the tasks by that of the standard library."""
    with ProcessPoolExecutor(processors(), CONTEXT) as pool:
        yield from map(_found, [pool.submit(function, task) for task in tasks])


def dask(function: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
    """Do the tasks by a cluster of dask's on this machine, which gives up a task with the first worker it costs."""
    import dask
    from distributed import Client, LocalCluster

    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    dask.config.set({"distributed.scheduler.allowed-failures": 0})
    with (
        LocalCluster(processors(), threads_per_worker=1, dashboard_address="") as cluster,
        Client(cluster) as client,
    ):
        yield from map(_found, client.map(function, list(tasks), pure=False))


def _found(future: Any) -> Any:
    try:
        return future.result(60)
    except Exception:
        return LOST


def fatal(number: int) -> int:
    """End the process, if this is the eighth task."""
    time.sleep(0.01)
    if number == 7:
        os._exit(3)
    return number


def works(music: Path | None) -> dict[str, tuple[Callable[[Any], Any], Sequence[Any]]]:
    """Return what is to be done: a function and its tasks."""
    found = {
        "start": (abs, range(2)),
        "1,000 small tasks": (abs, range(1000)),
        "one of 20 ends its process": (fatal, range(20)),
    }
    if music is not None:
        pieces = SOURCES["groove"].find(list_files(music), 0.05).pieces
        found[f"{len(pieces)} groove files"] = (partial(spell, "groove", "groove"), pieces)
    return found


def main() -> int:
    """Measure by turns, and print."""
    engines: dict[str, Engine] = {"ours": ours, "executor": executor, "dask": dask}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--music", type=Path, metavar="FOLDER", help="a groove set")
    parser.add_argument("--only", choices=engines, nargs="+", default=[*engines])
    options = parser.parse_args()
    seconds: dict[tuple[str, str], list[float]] = defaultdict(list)
    lost: dict[tuple[str, str], int] = {}
    for _ in range(options.turns):
        for name, (function, tasks) in works(options.music).items():
            for engine in options.only:
                began = time.perf_counter()
                answers = [*engines[engine](function, tasks)]
                seconds[name, engine].append(time.perf_counter() - began)
                lost[name, engine] = sum(isinstance(x, str) and x == LOST for x in answers)
    for (name, engine), found in seconds.items():
        print(
            f"{name:28} {engine:10} {min(found):7.2f} to {max(found):.2f} s, {lost[name, engine]} lost"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
