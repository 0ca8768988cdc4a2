"""A process that does one task at a time for another, and the end of which costs no more than that task.

It ends when the one that started it does, whatever ended that; what it computes takes its share of the processors.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread
from typing import Generic, TypeVar

from musicgen.common.processes import CONTEXT, interrupts_held

# What a task has taken so far: the processor time of its process, and how long that stood still.
#
# By the clock on the wall, a machine that was suspended, or busy with other work, would give up files that another
# machine prepares.

LOOK_SECONDS = 1.0  # a task is looked at this often; more between two looks is not held against it


class TaskClock:
    """Runs from its making on, as often as `is_late` is asked."""

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
THREADS = "OMP_NUM_THREADS"  # torch reads it when it is imported


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
        with interrupts_held(), _threads(self._threads):
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
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None, "only a started process calls this"
    parent.join()
    os._exit(1)


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


@contextmanager
def _threads(count: int | None) -> Iterator[None]:
    """Let a process started within compute in so many threads, unless the user has said how many, or None is said."""
    if count is None or THREADS in os.environ:
        yield
        return
    os.environ[THREADS] = str(count)
    try:
        yield
    finally:
        del os.environ[THREADS]
