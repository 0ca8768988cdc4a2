"""Work spread over processes, of this machine or of a cluster, where the end of a process costs only its own task.

An executor of the standard library would do, but for its answer to a death: it drops all tasks under way and does not
say which one ended the process. Here every process holds one task at a time.

On many machines the workers of a dask scheduler do the work (https://distributed.dask.org). A worker of the cluster
hands each task to a process of its own, which may die or be ended without it. So a task that fails does so by the same
rules and in the same words as on one machine. If a worker is lost with its machine, dask gives its tasks to another.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import re
import uuid
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from multiprocessing.connection import wait
from threading import Lock
from typing import Any, TypeVar

from musicgen.common.processes import processors
from musicgen.common.workers.process import LOOK_SECONDS, Bounds, Failed, Worker

Task = TypeVar("Task")
Answer = TypeVar("Answer")
Workers = int | str  # how many processes of this machine, or the address of a scheduler of others

AHEAD = 32  # tasks a process may be ahead of the slowest: it bounds the answers that wait

ALIKE = ("dask", "distributed")  # what all machines have in the same version
SUBMITTED = 256  # tasks that are with the scheduler, beyond the oldest that is not done
ADDRESS = re.compile(r"(tcp|tls)://(\[[\da-fA-F:]+\]|[\w.-]+):\d{1,5}")
CONNECT_SECONDS = 15
IDLE_SECONDS = 600  # a process ends that waits for so long: whoever gave it tasks is gone

_processes: dict[str, list[Worker[Any, Any]]] = {}  # those that wait for a task, by run
_ended: set[str] = set()  # runs
_lock = Lock()


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


def as_done_elsewhere(
    function: Callable[[Task], Answer],
    tasks: Iterator[tuple[int, Task]],
    address: str,
    bounds: Bounds,
) -> Iterator[tuple[int, Answer | Failed]]:
    """Yield the number of a task and function(task) as soon as that is there."""
    run, folder = uuid.uuid4().hex, os.getcwd()
    with _client(address) as client:
        from distributed import as_completed

        under_way: dict[Any, int] = {}
        completed = as_completed(loop=client.loop)
        given, more = 0, True
        try:
            while True:
                while more and given < min(under_way.values(), default=given) + SUBMITTED:
                    numbered = next(tasks, None)
                    more = numbered is not None
                    if numbered is not None:
                        future = client.submit(
                            do, run, function, bounds, folder, numbered[1], pure=False
                        )
                        under_way[future] = numbered[0]
                        completed.add(future)
                        given += 1
                if not under_way:
                    return
                future = next(completed)
                yield under_way.pop(future), _answer(future, address)
        finally:
            with suppress(Exception):  # there may be no scheduler any more
                client.cancel([*under_way], force=True)
                client.run(end, run)


def do(
    run: str,
    function: Callable[[Task], Answer],
    bounds: Bounds,
    folder: str,
    task: Task,
) -> Answer | Failed:
    """Do a task in a process of this worker's; those of a run go on to its next tasks."""
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"a worker does not see {folder}; with a scheduler, all see it")
    # Dask's workers are daemons, which may have no children; these end by themselves when their parent does.
    multiprocessing.current_process().daemon = False
    with _lock:
        idle = _processes.get(run)
        process = idle.pop() if idle else None
    process = process or Worker(function, bounds, folder=folder, idle_seconds=IDLE_SECONDS)
    process.give(task)
    answers: list[Answer | Failed] = []
    while not answers:
        wait([process.connection], timeout=LOOK_SECONDS)
        answers = process.take()
    with _lock:
        if run not in _ended:
            _processes.setdefault(run, []).append(process)
            return answers[0]
    process.stop()
    return answers[0]


def end(run: str) -> None:
    """End the processes that a run has left on this worker."""
    with _lock:
        _ended.add(run)
        left = _processes.pop(run, [])
    for process in left:
        process.stop()


def _answer(future: Any, address: str) -> Any:
    from distributed import KilledWorker

    try:
        return future.result()
    except KilledWorker:
        return Failed("the workers that had it were lost, one after the other")
    except CancelledError as error:
        raise ConnectionError(f"the scheduler at {address} is gone") from error
    except (OSError, ValueError):
        raise
    except Exception as error:  # what dask says where it cannot make sense of a task
        raise ValueError(
            f"{address} cannot do this work: is musicgen on its machines? {error}"
        ) from error


@contextmanager
def _client(address: str) -> Iterator[Any]:
    try:
        import distributed
    except ModuleNotFoundError as error:
        raise ValueError(
            "a scheduler takes dask: run pip install '.[cluster]' in the clone of musicgen"
        ) from error
    if not ADDRESS.fullmatch(address):
        raise ValueError(f"{address} is no address of a scheduler; tcp://HOST:8786 is one")
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what matters is said here
    warnings.filterwarnings("ignore", "Mismatched versions")
    _check_versions({f"the scheduler at {address}": _versions_at(address)})
    with distributed.Client(address, timeout=CONNECT_SECONDS, set_as_default=False) as client:
        try:
            client.wait_for_workers(1, timeout=CONNECT_SECONDS)
        except TimeoutError as error:
            raise ValueError(
                f"the scheduler at {address} has no workers: dask worker {address}"
            ) from error
        found: Any = client.get_versions()
        _check_versions({f"the worker at {name}": has for name, has in found["workers"].items()})
        yield client


def _versions_at(address: str) -> Any:
    """Return what a scheduler says it has; whatever else listens there may say anything, or nothing for ever."""
    from distributed.core import rpc
    from distributed.security import Security

    async def asked() -> Any:
        settings = Security().get_connection_args("client")
        async with rpc(address, timeout=CONNECT_SECONDS, connection_args=settings) as scheduler:
            return await scheduler.versions()

    try:
        return asyncio.run(asyncio.wait_for(asked(), 2 * CONNECT_SECONDS))
    except (OSError, asyncio.TimeoutError) as error:
        raise ValueError(f"no scheduler answers at {address}") from error
    except Exception as error:  # of bytes that are none of dask's, it raises anything
        raise ValueError(f"what answers at {address} is no scheduler of dask") from error


def _check_versions(everyone: dict[str, Any]) -> None:
    """Refuse another dask than ours: they may understand each other in part, or wait for ever."""
    from distributed.versions import get_versions

    ours = get_versions()["packages"]
    for who, answer in everyone.items():
        theirs = (answer or {}).get("packages") or {}
        for name in ALIKE:
            if theirs.get(name) != ours[name]:
                raise ValueError(
                    f"{who} has {name} {theirs.get(name)}, and here is {ours[name]}; "
                    f"on all machines: pip install {name}=={ours[name]}"
                )
