"""Work spread over processes: answers in order, and a process that dies costs only its own task.

An executor of the standard library would do, but for its answer to a death: it drops all tasks under
way and does not say which one killed the process. Here every process holds one task at a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Generic, TypeVar

from musicgen.common.processes import CONTEXT, interrupts_held

Task = TypeVar("Task")
Answer = TypeVar("Answer")

AHEAD = 32  # tasks a process may be ahead of the slowest: it bounds the answers that wait
MEMORY_BYTES = 2 << 30  # more than this beyond what its program takes, no task needs


@dataclass(frozen=True)
class Failed:
    """What stands for the answer to a task that ended its process or took too long."""

    reason: str


def in_order(
    function: Callable[[Task], Answer],
    tasks: Iterable[Task],
    *,
    workers: int,
    limit_seconds: float = 300.0,
) -> Generator[Answer | Failed, None, None]:
    """Yield function(task) for each task, in the order of the tasks.

    With no workers it runs in this process, where nothing guards against a death.
    """
    if workers < 1:
        yield from map(function, tasks)
        return
    pool = [_Worker(function) for _ in range(workers)]
    try:
        yield from _run(pool, iter(enumerate(tasks)), limit_seconds)
    finally:
        for worker in pool:
            worker.stop()


def _run(
    pool: list[_Worker[Task, Answer]], tasks: Iterator[tuple[int, Task]], limit_seconds: float
) -> Iterator[Answer | Failed]:
    answers: dict[int, Answer | Failed] = {}
    following, given, more = 0, 0, True
    while True:
        for worker in pool:
            if more and worker.index is None and given < following + AHEAD * len(pool):
                numbered = next(tasks, None)
                more = numbered is not None
                if numbered is not None:
                    worker.give(*numbered)
                    given += 1
        busy = [worker for worker in pool if worker.index is not None]
        if not busy:
            return
        ready = wait([worker.connection for worker in busy], timeout=1.0)
        for worker in busy:
            index = worker.index
            assert index is not None, "a busy worker has a task"
            if worker.connection in ready:
                answers[index] = worker.take()
            elif time.monotonic() - worker.since > limit_seconds:
                worker.restart()
                answers[index] = Failed(f"it takes longer than {limit_seconds:g} seconds")
        while following in answers:
            yield answers.pop(following)
            following += 1


class _Worker(Generic[Task, Answer]):
    """A process, and the task it is at."""

    def __init__(self, function: Callable[[Task], Answer]) -> None:
        self._function = function
        self.index: int | None = None
        self.since = 0.0
        self._start()

    def _start(self) -> None:
        self.connection, theirs = CONTEXT.Pipe()
        self._process = CONTEXT.Process(target=_work, args=(self._function, theirs), daemon=True)
        with interrupts_held():
            self._process.start()
        theirs.close()

    def give(self, index: int, task: Task) -> None:
        self.index, self.since = index, time.monotonic()
        with suppress(OSError):  # it died idle; `take` finds that out
            self.connection.send(task)

    def take(self) -> Answer | Failed:
        """Return the answer that is ready, or why there will be none."""
        self.index = None
        try:
            return self.connection.recv()
        except (EOFError, OSError):
            self._process.join()
            code = self._process.exitcode
            self.restart()
            how = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
            return Failed(f"reading it ended the process ({how})")

    def restart(self) -> None:
        self.stop()
        self.index = None
        self._start()

    def stop(self) -> None:
        self.connection.close()
        self._process.kill()
        self._process.join()
        self._process.close()


def _work(function: Callable[[Task], Answer], connection: Connection) -> None:
    """Answer tasks until the process that sends them is gone."""
    _bound_memory()
    while True:
        try:
            task = connection.recv()
        except (EOFError, OSError):
            return
        try:
            answer: Answer | Failed = function(task)
        except Exception as error:  # whatever it is, it is of this task alone, and it is told
            answer = Failed(f"a fault of this program: {type(error).__name__}: {error}")
        connection.send(answer)


def _bound_memory() -> None:
    """Let a task that asks for too much fail, not the machine; only Linux can tell what is in use."""
    statistics = Path("/proc/self/statm")
    if not statistics.exists():
        return
    import resource

    used = int(statistics.read_text().split()[0]) * resource.getpagesize()
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    limit = (
        used + MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(hard, used + MEMORY_BYTES)
    )
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
