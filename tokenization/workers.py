"""Parallel work over processes, where a process that dies costs only its own task.

When a process dies, an executor of the standard library drops all running tasks, and does not say which one killed it.
Here every process has one task at a time, and ends when its parent ends. An executor of another library, such as
dask's, can spread the tasks over many machines instead.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent import futures
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing.connection import Connection, wait
from pathlib import Path
from threading import Thread
from typing import Generic, TypeVar

from tokenization.processes import CONTEXT, processors, started_apart

LOOK_SECONDS = 1.0  # between two checks of a task
HANGS = 10  # a task hangs if it has taken this many times the processor time that it may use
TIMED = hasattr(signal, "setitimer")  # not on Windows, where only HANGS bounds a task

Task = TypeVar("Task")
Answer = TypeVar("Answer")

TRIES = 2  # a task that kills its process this often is at fault; once can have another cause, such as lack of memory


@dataclass(frozen=True)
class Failed:
    """The answer to a task that failed, killed its process or took too long."""

    reason: str
    is_fault: bool = field(default=False, compare=False)  # of this program, not of the task


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """The limits of a task, beyond which it fails."""

    seconds: float | None = None  # of processor time
    memory_bytes: int | None = None  # in addition to what the program itself takes


UNBOUNDED = Bounds()


class Worker(Generic[Task, Answer]):
    """A process and its current task."""

    def __init__(
        self, function: Callable[[Task], Answer], bounds: Bounds, *, threads: int | None = 1
    ) -> None:
        self._function, self._bounds, self._threads = function, bounds, threads
        self._task: Task | None = None
        self._tries, self._given = 0, 0.0
        self._start()

    def _start(self) -> None:
        ours, theirs = CONTEXT.Pipe()
        work = (self._function, self._bounds, theirs)
        process = CONTEXT.Process(target=_serve, args=work, daemon=True)
        with started_apart(self._threads):
            process.start()
        theirs.close()
        self.connection, self._process = ours, process

    def give(self, task: Task) -> None:
        """Start a task."""
        self._task, self._tries = task, 0
        self._send()

    def _send(self) -> None:
        self._tries += 1
        self._given = time.monotonic()
        with suppress(OSError):  # the process died while idle, which `take` will notice
            self.connection.send(self._task)

    def ask(self, task: Task, is_wanted: Callable[[], bool] = lambda: True) -> Answer | Failed:
        """Do a task and return its answer; it fails as soon as it is found that it is not wanted any more."""
        self.give(task)
        while not (answers := self.take()):
            if not is_wanted():
                return Failed("nobody waits for it any more")
            wait([self.connection], timeout=LOOK_SECONDS)
        return answers[0]

    def take(self) -> list[Answer | Failed]:
        """Return the answer in a list if it is ready or the task has failed, else an empty list."""
        seconds = self._bounds.seconds or math.inf
        late = Failed(f"it takes longer than {seconds:g} seconds")
        if not self.connection.poll():
            if time.monotonic() < self._given + HANGS * seconds:
                return []
            self._restart()
            return [late]
        try:
            return [self.connection.recv()]
        except (EOFError, OSError):
            self._process.join()
            code = self._process.exitcode
            self._restart()
            if TIMED and code == -signal.SIGPROF:
                return [late]
            if self._tries < TRIES:
                self._send()
                return []
            how = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
            return [Failed(f"it ended the process twice ({how})")]

    def _restart(self) -> None:
        self.stop()
        self._start()

    def stop(self) -> None:
        """Kill the process, whatever it is doing; do nothing if it has ended, as after a failed restart."""
        self.connection.close()
        with suppress(ValueError):  # already closed
            self._process.kill()
            self._process.join()
            self._process.close()


def _attempt(function: Callable[[Task], Answer], bounds: Bounds, task: Task) -> Answer | Failed:
    """Return the answer to a task, or `Failed` with the reason for any exception.

    A task that uses more processor time than it may ends this process by SIGPROF.
    """
    try:
        _set_timer(bounds.seconds)
        return function(task)
    except (ValueError, OSError) as error:
        return Failed(" ".join(str(error).split()))
    except MemoryError:
        return Failed("it takes more memory than is available")
    except Exception as error:
        return Failed(f"a fault of this program: {type(error).__name__}: {error}", is_fault=True)
    finally:
        _set_timer(None)


def _set_timer(seconds: float | None) -> None:
    """End this process by SIGPROF after this much processor time; None stops the timer."""
    if TIMED:
        signal.setitimer(signal.ITIMER_PROF, seconds or 0)


def _serve(function: Callable[[Task], Answer], bounds: Bounds, connection: Connection) -> None:
    """Answer tasks until the connection closes."""
    end_with_parent()
    if bounds.memory_bytes is not None:
        _bound_memory(bounds.memory_bytes)
    with suppress(EOFError, OSError):
        while True:
            connection.send(_attempt(function, bounds, connection.recv()))


def end_with_parent() -> None:
    """End this process when its parent ends: on Linux at once, elsewhere when a thread gets to run."""
    parent = multiprocessing.parent_process()
    assert parent is not None, "only child processes call this"
    if sys.platform == "linux":  # SIGIO ends a process there, even while a library keeps the GIL
        import fcntl

        pipe = parent.sentinel  # which the system closes with the parent
        fcntl.fcntl(pipe, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) | os.O_ASYNC)

    def end_after_parent() -> None:
        parent.join()
        os._exit(1)

    Thread(target=end_after_parent, daemon=True).start()


def _bound_memory(extra: int) -> None:
    """Limit the memory of this process to what it has and `extra` bytes; only on Linux, which reports its memory."""
    statistics = Path("/proc/self/statm")
    if not statistics.exists():
        return
    import resource

    limit = int(statistics.read_text().split()[0]) * resource.getpagesize() + extra
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(
        resource.RLIMIT_AS, (limit if hard == resource.RLIM_INFINITY else min(hard, limit), hard)
    )


Workers = int | futures.Executor  # a number of processes, or what runs tasks on other machines

AHEAD = 32  # tasks per process that can be started beyond the oldest unfinished one, which bounds the waiting answers
AHEAD_ELSEWHERE = 1024  # the same for all other machines together


def limit_workers(workers: Workers, tasks: int) -> Workers:
    """Limit the number of processes to the number of tasks; 0 means this process, which does a single task."""
    if isinstance(workers, futures.Executor):
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
    next_index = 0
    with closing(as_done(function, tasks, workers=workers, bounds=bounds)) as running:
        for index, answer in running:
            waiting[index] = answer
            while next_index in waiting:
                yield waiting.pop(next_index)
                next_index += 1


def as_done(
    function: Callable[[Task], Answer],
    tasks: Iterable[Task],
    *,
    workers: Workers,
    bounds: Bounds = UNBOUNDED,
) -> Generator[tuple[int, Answer | Failed], None, None]:
    """Yield the index of each task and function(task) as soon as it is done.

    With 0 workers, tasks run in this process: errors are raised, and a crash is not contained.
    """
    numbered = enumerate(tasks)
    if isinstance(workers, futures.Executor):
        yield from _elsewhere(function, numbered, workers, bounds)
        return
    if workers < 1:
        yield from ((index, function(task)) for index, task in numbered)
        return
    threads = max(1, processors() // workers)
    running: dict[int, Worker[Task, Answer]] = {}
    started = 0
    with ExitStack() as pool:
        idle = []
        for _ in range(workers):
            idle.append(Worker(function, bounds, threads=threads))
            pool.callback(idle[-1].stop)
        while True:
            ahead = started - min(running, default=started)
            for index, task in islice(numbered, min(len(idle), AHEAD * workers - ahead)):
                running[index] = worker = idle.pop()
                worker.give(task)
                started = index + 1
            if not running:
                return
            wait([worker.connection for worker in running.values()], timeout=LOOK_SECONDS)
            for index, worker in [*running.items()]:
                for answer in worker.take():
                    idle.append(running.pop(index))
                    yield index, answer


def _elsewhere(
    function: Callable[[Task], Answer],
    numbered: Iterator[tuple[int, Task]],
    executor: futures.Executor,
    bounds: Bounds,
) -> Generator[tuple[int, Answer | Failed], None, None]:
    """Yield what `as_done` yields; memory is bounded by the machines, and a lost machine's tasks fail."""
    running: dict[futures.Future[Answer | Failed], int] = {}
    started = 0
    try:
        while True:
            ahead = started - min(running.values(), default=started)
            for index, task in islice(numbered, AHEAD_ELSEWHERE - ahead):
                running[executor.submit(_attempt, function, bounds, task)] = index
                started = index + 1
            if not running:
                return
            for future in futures.wait(running, return_when=futures.FIRST_COMPLETED).done:
                index = running.pop(future)
                error = future.exception()
                yield (
                    index,
                    future.result() if error is None else Failed(f"its machine failed: {error}"),
                )
    finally:
        for future in running:
            future.cancel()
