"""Composing in separate processes: requests are sent to them through pipes, and new tokens are sent back.

A second process, and more if there are processors, starts when the others have enough rows for a step. A request that
has begun stays in its process; its result does not depend on which (musicgen/generation/engine.py).

The server keeps an interpreter to itself: the hundreds of calls of a step would compete with it for the GIL.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from contextlib import suppress
from itertools import count
from multiprocessing.connection import Connection

from app.web.composing.engines import NONE, Engines, Limits, News, Task, Writing
from app.web.process import keep_memory_flat
from musicgen.continuation import Player
from musicgen.generation.request import Order
from tokenization.processes import CONTEXT, processors, started_apart
from tokenization.workers import end_with_parent

MANY_ROWS = 4  # rows per process from which another process is worth its memory
TOGETHER_ROWS = 4  # rows more than elsewhere from which loading the model there is worth it
MOST_PROCESSES = 4
LOST = (
    "the composing process has ended, perhaps for lack of memory; "
    "try again, with fewer takes or bars if it happens again"
)
LOG = logging.getLogger(__name__)
REPORT_SECONDS = 0.02  # between reports of new tokens


class RemoteJob(Writing):
    """The progress of a request in a composing process."""

    def __init__(self, task: Task, process: EngineProcess) -> None:
        super().__init__(task)
        self._process, self._cancelled = process, False

    def cancel(self) -> None:
        """End the request at the next step."""
        if not self._cancelled:
            self._cancelled = True
            self._process.send(self.task.number)

    def settle(self, take: int) -> None:
        """Let a take, by number, go on as it is shown."""
        self._process.send((self.task.number, take))

    def wait(self, seconds: float) -> bool:
        """Wait for the end for at most some seconds; return whether it has come."""
        return self.ended.wait(seconds)


class EngineProcess:
    """A composing process with its jobs, and a thread that receives its reports."""

    def __init__(self, share: int, lock: threading.RLock) -> None:
        """Start a process that may use 1/share of the memory."""
        self.jobs: dict[int, RemoteJob] = {}
        self.models = set[str]()  # that it has loaded
        self.ready = self.ended = False
        self._lock, self._sending = lock, threading.Lock()
        self._connection, theirs = CONTEXT.Pipe()
        self._process = CONTEXT.Process(target=compose, args=(theirs, share), daemon=True)
        with started_apart():
            self._process.start()
        theirs.close()
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def rows(self) -> Counter[str]:
        """The number of variations it works on, by owner."""
        rows = Counter[str]()
        for job in self.jobs.values():
            rows[job.task.owner] += len(job.rows)
        return rows

    def add(self, task: Task) -> RemoteJob:
        """Register a request, which is sent next."""
        self.models.add(task.model.given)
        job = self.jobs[task.number] = RemoteJob(task, self)
        return job

    def give(self, task: Task) -> None:
        """Send a request that is registered, unless sending fails."""
        try:
            self.send(task)
        except Exception:
            with self._lock:
                self.jobs.pop(task.number, None)
            raise

    def send(self, message: Task | int | tuple[int, int]) -> None:
        """Send a request, the number of one to cancel, or with that of a take to settle; a dead process loses it.

        A large request waits for the end of a step, for which other processes do not wait.
        """
        with self._sending, suppress(OSError):
            self._connection.send(message)

    def receive(self, reports: list[News]) -> None:
        """Add reports to their jobs."""
        for news in reports:
            self.jobs[news.number].add(news)
            if news.ended:
                del self.jobs[news.number]
        self.ready = True

    def _listen(self) -> None:
        """Receive reports until the process ends, and fail the jobs that are left."""
        try:
            while True:
                reports = self._connection.recv()
                with self._lock:
                    self.receive(reports)
        except (EOFError, OSError):
            pass  # it has died
        except Exception:
            LOG.exception("a report of a composing process was not understood")
        with self._lock:
            self.end()
            for job in self.jobs.values():
                job.error = ValueError(LOST)
                job.ended.set()
            self.jobs = {}
            self._connection.close()

    def end(self) -> None:
        """Kill it."""
        self.ended = True
        self._process.kill()
        self._process.join()


class Composer:
    """Distributes requests over at most `most` composing processes."""

    def __init__(self, most: int | None = None) -> None:
        self._most = most or max(1, min(MOST_PROCESSES, processors()))
        self._numbers = count()
        self.processes: list[EngineProcess] = []
        self._lock = threading.RLock()
        self._closed = False

    def start(self) -> None:
        """Start the first process ahead of the first request."""
        with self._lock:
            self._process("", "")

    def take(
        self, model: Player, wanted: Order, *, owner: str = "", limits: Limits = NONE
    ) -> RemoteJob:
        """Start a request to a model; the job's `ended` is set at its end."""
        number = next(self._numbers)
        task = Task(number=number, model=model, order=wanted, owner=owner, limits=limits)
        with self._lock:
            process = self._process(model.given, owner)
            job = process.add(task)
        process.give(task)
        return job

    @property
    def requests(self) -> int:
        """The number of current requests."""
        return sum(len(process.jobs) for process in self.processes)

    def close(self) -> None:
        """Kill all processes at the end of the program; waiters are not notified."""
        with self._lock:
            self._closed = True
            for process in self.processes:
                process.jobs = {}
                process.end()

    def _process(self, model: str, owner: str) -> EngineProcess:
        """Return the process with the fewest rows, with a bonus for one that has loaded the model.

        The time of a step grows with its rows. If all processes have many, another one is started for later requests.
        While others compose, too, an owner's requests join each other in one process and leave the rest to them. Many
        rows of another owner count as a few, since they wait for new ones: of equal processes, that with most is best.
        """
        if self._closed:
            raise RuntimeError("the server is shutting down")
        self.processes = [process for process in self.processes if not process.ended]
        if len(self.processes) < self._most and all(
            process.ready and process.rows.total() >= MANY_ROWS for process in self.processes
        ):
            self.processes.append(EngineProcess(self._most, self._lock))
        ready = [process for process in self.processes if process.ready] or self.processes
        theirs = [process for process in ready if owner in process.rows]
        if theirs and any({*process.rows} - {owner} for process in ready):
            return theirs[0]

        def burden(process: EngineProcess) -> tuple[int, int]:
            rows = process.rows
            counted = sum(n if one == owner else min(MANY_ROWS, n) for one, n in rows.items())
            return counted - TOGETHER_ROWS * (model in process.models), -rows.total()

        return min(ready, key=burden)


def compose(connection: Connection, share: int) -> None:
    """Work on the requests of a connection until it is closed, with 1/share of the memory."""
    end_with_parent()
    keep_memory_flat()
    engines, reported = Engines(share), 0.0
    with suppress(EOFError, OSError):
        connection.send([])  # ready
        while True:
            _receive_all(connection, engines)
            if not engines.idle:
                engines.work()
            if engines.idle or time.monotonic() > reported + REPORT_SECONDS:
                reported = time.monotonic()
                if news := engines.news():
                    connection.send(news)


def _receive_all(connection: Connection, engines: Engines) -> None:
    """Receive all waiting messages; if idle, wait for one."""
    while engines.idle or connection.poll():
        message = connection.recv()
        if isinstance(message, int):
            engines.leave(message)
            continue
        if isinstance(message, tuple):
            engines.settle(*message)
            continue
        engines.take(message)
        if engines.idle:
            return  # it failed, which has to be reported
