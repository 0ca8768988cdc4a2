"""Work spread over processes, of this machine or of a cluster, where the end of a process costs only its own task.

An executor of the standard library would do, but for its answer to a death: it drops all tasks under way and does not
say which one ended the process. Here every process holds one task at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from multiprocessing.connection import wait
from typing import TypeVar

from musicgen.common.processes import processors
from musicgen.common.workers.process import LOOK_SECONDS, Bounds, Failed, Worker

Task = TypeVar("Task")
Answer = TypeVar("Answer")
Workers = int | str  # how many processes of this machine, or the address of a scheduler of others

AHEAD = 32  # tasks a process may be ahead of the slowest: it bounds the answers that wait


def at_most(workers: Workers, tasks: int) -> Workers:
    """Return as many workers as have something to do; a single one is this process."""
    if isinstance(workers, str):
        return workers
    return min(workers, tasks) if min(workers, tasks) > 1 else 0


def in_order(
    function: Callable[[Task], Answer],
    tasks: Iterable[Task],
    *,
    workers: Workers,
    limit_seconds: float | None = None,
    memory_bytes: int | None = None,
) -> Generator[Answer | Failed, None, None]:
    """Yield function(task) for each task, in the order of the tasks; see `as_done`."""
    waiting: dict[int, Answer | Failed] = {}
    following = 0
    running = as_done(
        function, tasks, workers=workers, limit_seconds=limit_seconds, memory_bytes=memory_bytes
    )
    try:
        for index, answer in running:
            waiting[index] = answer
            while following in waiting:
                yield waiting.pop(following)
                following += 1
    finally:
        running.close()


def as_done(
    function: Callable[[Task], Answer],
    tasks: Iterable[Task],
    *,
    workers: Workers,
    limit_seconds: float | None = None,
    memory_bytes: int | None = None,
) -> Generator[tuple[int, Answer | Failed], None, None]:
    """Yield the number of a task and function(task) as soon as that is there.

    With no workers it runs in this process, where nothing guards against a death, and an error is one here.
    """
    bounds = Bounds(seconds=limit_seconds, memory_bytes=memory_bytes)
    numbered = enumerate(tasks)
    if isinstance(workers, str):
        from musicgen.common.workers.cluster import as_done_elsewhere

        yield from as_done_elsewhere(function, numbered, workers, bounds)
    elif workers < 1:
        yield from ((index, function(task)) for index, task in numbered)
    else:
        yield from _here(function, numbered, workers, bounds)


def _here(
    function: Callable[[Task], Answer],
    tasks: Iterator[tuple[int, Task]],
    workers: int,
    bounds: Bounds,
) -> Iterator[tuple[int, Answer | Failed]]:
    threads = max(1, processors() // workers)
    pool: list[Worker[Task, Answer]] = []
    try:
        for _ in range(workers):
            pool.append(Worker(function, bounds, threads=threads))
        yield from _run(pool, tasks)
    finally:
        for worker in pool:
            worker.stop()


def _run(
    pool: list[Worker[Task, Answer]], tasks: Iterator[tuple[int, Task]]
) -> Iterator[tuple[int, Answer | Failed]]:
    under_way: dict[int, Worker[Task, Answer]] = {}
    idle = [*pool]
    given, more = 0, True
    while True:
        while more and idle and given < min(under_way, default=given) + AHEAD * len(pool):
            numbered = next(tasks, None)
            more = numbered is not None
            if numbered is not None:
                under_way[numbered[0]] = worker = idle.pop()
                worker.give(numbered[1])
                given += 1
        if not under_way:
            return
        wait([worker.connection for worker in under_way.values()], timeout=LOOK_SECONDS)
        for index, worker in [*under_way.items()]:
            for answer in worker.take():
                idle.append(under_way.pop(index))
                yield index, answer
