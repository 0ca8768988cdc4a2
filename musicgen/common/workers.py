"""Work spread over processes, of this machine or of a cluster, where the end of a process costs only its own task.

An executor of the standard library drops all tasks under way when a process dies, and does not say which one ended it.
Here every process holds one task at a time, and ends when the one that started it does.

On many machines the workers of a dask scheduler do the work (https://distributed.dask.org). Each hands its tasks to
a process of its own, so that a task fails as on one machine. If a worker is lost, dask gives its tasks to another.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import re
import sys
import time
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing.connection import Connection, wait
from pathlib import Path
from threading import Thread, local
from typing import Any, Generic, TypeVar

from musicgen.common.processes import CONTEXT, processors, started_apart

LOOK_SECONDS = 1.0  # a task is looked at this often; more between two looks is not held against it


class TaskClock:
    """Measures what a task has taken: the processor time of its process, and how long that stood still.

    By the clock on the wall, a machine that was suspended or busy would give up files that another machine prepares.
    """

    def __init__(self, process: int) -> None:
        self._process = process
        self._begun = self._used = processor_seconds(process)
        self._looked, self._still = time.monotonic(), 0.0

    def is_late(self, seconds: float) -> bool:
        """Say whether the task has had so much processor time, or has not moved for as long."""
        used, now = processor_seconds(self._process), time.monotonic()
        self._still = (
            0.0 if used != self._used else self._still + min(now - self._looked, LOOK_SECONDS)
        )
        self._used, self._looked = used, now
        return used - self._begun > seconds or self._still > seconds


def processor_seconds(process: int) -> float:
    """Return the processor time of a process; 0 where the system does not tell, which is anywhere but on Linux."""
    if sys.platform != "linux":
        return 0.0
    try:
        return time.clock_gettime(~process << 3 | 2)  # clock_getcpuclockid(3)
    except OSError:  # it has ended
        return 0.0


Task = TypeVar("Task")
Answer = TypeVar("Answer")

TRIES = 2  # what ends a process so often is the task's fault; once may be anybody's, as where memory runs out


@dataclass(frozen=True)
class Failed:
    """What stands for the answer to a task that failed, ended its process or took too long."""

    reason: str
    is_fault: bool = field(default=False, compare=False)  # of this program, not of the task


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """What a task may take, beyond which it is given up."""

    seconds: float | None = None  # of processor time, or without any
    memory_bytes: int | None = None  # beyond what the program takes


UNBOUNDED = Bounds()


class Worker(Generic[Task, Answer]):
    """A process, and the task it is at."""

    def __init__(
        self,
        function: Callable[[Task], Answer],
        bounds: Bounds,
        *,
        threads: int | None = 1,
        folder: str | None = None,
        idle_seconds: float | None = None,
    ) -> None:
        self._work = (function, bounds.memory_bytes, folder, idle_seconds)
        self._bounds, self._threads = bounds, threads
        self._task: Task | None = None
        self._tries = 0
        self._start()

    def _start(self) -> None:
        ours, theirs = CONTEXT.Pipe()
        process = CONTEXT.Process(target=_serve, args=(*self._work, theirs), daemon=True)
        with started_apart(self._threads):
            process.start()
        theirs.close()
        self.connection, self._process = ours, process

    def give(self, task: Task) -> None:
        """Let it do a task."""
        self._task, self._tries = task, 0
        self._send()

    def _send(self) -> None:
        self._tries += 1
        self._clock = TaskClock(self._process.pid or 0)
        with suppress(OSError):  # it died idle; `take` finds that out
            self.connection.send(self._task)

    def ask(self, task: Task) -> Answer | Failed:
        """Return the answer to a task, or why there is none."""
        self.give(task)
        while not (answers := self.take()):
            wait([self.connection], timeout=LOOK_SECONDS)
        return answers[0]

    def take(self) -> list[Answer | Failed]:
        """Return the answer that is ready, or why there will be none; nothing where that is not known yet."""
        if not self.connection.poll():
            seconds = self._bounds.seconds
            if seconds is None or not self._clock.is_late(seconds):
                return []
            self._restart()
            return [Failed(f"it takes longer than {seconds:g} seconds")]
        try:
            return [self.connection.recv()]
        except (EOFError, OSError):
            self._process.join()
            code = self._process.exitcode
            self._restart()
            if self._tries < TRIES:
                self._send()
                return []
            how = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
            return [Failed(f"working on it ended the process twice ({how})")]

    def _restart(self) -> None:
        self.stop()
        self._start()

    def stop(self) -> None:
        """End the process, whatever it is at; once it has ended, as after a start that failed, this does nothing."""
        self.connection.close()
        with suppress(ValueError):  # it is closed
            self._process.kill()
            self._process.join()
            self._process.close()


def attempt(function: Callable[[Task], Answer], task: Task) -> Answer | Failed:
    """Return the answer to a task; whatever goes wrong fails this task alone and is reported."""
    try:
        return function(task)
    except (ValueError, OSError) as error:
        return Failed(" ".join(str(error).split()))
    except MemoryError:
        return Failed("it takes more memory than there is")
    except Exception as error:
        return Failed(f"a fault of this program: {type(error).__name__}: {error}", is_fault=True)


def _serve(
    function: Callable[[Task], Answer],
    memory_bytes: int | None,
    folder: str | None,
    idle_seconds: float | None,
    connection: Connection,
) -> None:
    """Answer tasks until the process that sends them is gone, or has sent none for long."""
    end_with_parent()
    if folder is not None:
        os.chdir(folder)
    if memory_bytes is not None:
        _bound_memory(memory_bytes)
    with suppress(EOFError, OSError):
        while connection.poll(idle_seconds):
            connection.send(attempt(function, connection.recv()))


def end_with_parent() -> None:
    """End this process with the one that started it."""
    parent = multiprocessing.parent_process()
    assert parent is not None, "only a started process calls this"

    def end_after_it() -> None:
        parent.join()
        os._exit(1)

    Thread(target=end_after_it, daemon=True).start()


def _bound_memory(beyond: int) -> None:
    """Let a task that asks for too much fail, not the machine; only Linux can tell what is in use."""
    statistics = Path("/proc/self/statm")
    if not statistics.exists():
        return
    import resource

    limit = int(statistics.read_text().split()[0]) * resource.getpagesize() + beyond
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(
        resource.RLIMIT_AS, (limit if hard == resource.RLIM_INFINITY else min(hard, limit), hard)
    )


Workers = int | str  # how many processes of this machine, or the address of a scheduler of others

AHEAD = 32  # tasks a process may be ahead of the slowest: it bounds the answers that wait

SUBMITTED = 256  # tasks that are with the scheduler, beyond the oldest that is not done
ADDRESS = re.compile(r"(tcp|tls)://(\[[\da-fA-F:]+\]|[\w.-]+):\d{1,5}")
CONNECT_SECONDS = 15
IDLE_SECONDS = 60  # after which a process ends that is given no task


class _OfThread(local):
    """A run, and the process that works for it."""

    run = ""
    process: Any = None


_of_thread = _OfThread()


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
    bounds: Bounds = UNBOUNDED,
) -> Generator[Answer | Failed, None, None]:
    """Yield function(task) for each task, in the order of the tasks; see `as_done`."""
    waiting: dict[int, Answer | Failed] = {}
    following = 0
    with closing(as_done(function, tasks, workers=workers, bounds=bounds)) as running:
        for index, answer in running:
            waiting[index] = answer
            while following in waiting:
                yield waiting.pop(following)
                following += 1


def as_done(
    function: Callable[[Task], Answer],
    tasks: Iterable[Task],
    *,
    workers: Workers,
    bounds: Bounds = UNBOUNDED,
) -> Generator[tuple[int, Answer | Failed], None, None]:
    """Yield the number of a task and function(task) as soon as that is there.

    With no workers it runs in this process, where nothing guards against a death, and an error is one here.
    """
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
    under_way: dict[int, Worker[Task, Answer]] = {}
    given = 0
    with ExitStack() as pool:
        idle = []
        for _ in range(workers):
            idle.append(Worker(function, bounds, threads=threads))
            pool.callback(idle[-1].stop)
        while True:
            ahead = given - min(under_way, default=given)
            for index, task in islice(tasks, min(len(idle), AHEAD * workers - ahead)):
                under_way[index] = worker = idle.pop()
                worker.give(task)
                given = index + 1
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
        from distributed import KilledWorker, as_completed

        under_way: dict[Any, int] = {}
        completed = as_completed(loop=client.loop)
        given = 0
        try:
            while True:
                ahead = given - min(under_way.values(), default=given)
                for index, task in islice(tasks, SUBMITTED - ahead):
                    future = client.submit(do, run, function, bounds, folder, task, pure=False)
                    under_way[future] = index
                    completed.add(future)
                    given = index + 1
                if not under_way:
                    return
                future = next(completed)
                index = under_way.pop(future)
                try:
                    answer = future.result()
                except KilledWorker:
                    answer = Failed("the workers that had it were lost, one after the other")
                except CancelledError as error:
                    raise ConnectionError(f"the scheduler at {address} is gone") from error
                yield index, answer
        finally:
            with suppress(Exception):  # there may be no scheduler any more
                client.cancel([*under_way], force=True)


def do(
    run: str,
    function: Callable[[Task], Answer],
    bounds: Bounds,
    folder: str,
    task: Task,
) -> Answer | Failed:
    """Do a task in the process that this thread of a worker has for a run; it goes on to the run's next tasks."""
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"a worker does not see {folder}; with a scheduler, all see it")
    # Dask's workers are daemons, which may have no children; these end by themselves when their parent does.
    multiprocessing.current_process().daemon = False
    if _of_thread.run != run:
        if _of_thread.process is not None:
            _of_thread.process.stop()
        process = Worker(function, bounds, folder=folder, idle_seconds=IDLE_SECONDS)
        _of_thread.run, _of_thread.process = run, process
    return _of_thread.process.ask(task)


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
    _check_answer(address)
    with distributed.Client(address, timeout=CONNECT_SECONDS, set_as_default=False) as client:
        try:
            client.wait_for_workers(1, timeout=CONNECT_SECONDS)
        except TimeoutError as error:
            raise ValueError(
                f"the scheduler at {address} has no workers: dask worker {address}"
            ) from error
        yield client


def _check_answer(address: str) -> None:
    """Refuse an address where no scheduler answers: dask's client would wait for ever for what says nothing."""
    from distributed.core import rpc
    from distributed.security import Security

    async def ask() -> None:
        settings = Security().get_connection_args("client")
        async with rpc(address, timeout=CONNECT_SECONDS, connection_args=settings) as scheduler:
            await scheduler.versions()

    try:
        asyncio.run(asyncio.wait_for(ask(), 2 * CONNECT_SECONDS))
    except Exception as error:  # of bytes that are none of dask's, it raises anything
        raise ValueError(f"no scheduler answers at {address}") from error
