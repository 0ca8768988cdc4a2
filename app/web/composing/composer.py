"""Other processes compose for the server: requests go there through pipes, and new tokens come back.

A second process, and more where there are processors, begins when there is more to do than a step carries well. A
request stays where its music began. What it gives does not depend on where that is (musicgen/generation/engine.py).
In a process there is an engine a model, in turns.

The server has an interpreter of its own for what visitors see. In one with the engine, each of a step's hundreds of
calls would wait for it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING

from app.web.process import keep_memory_flat
from musicgen.common.processes import CONTEXT, processors, started_apart
from musicgen.common.workers import end_with_parent
from musicgen.continuation import Player
from musicgen.generation.request import Order, Progress

if TYPE_CHECKING:
    from musicgen.generation.engine import Engine
    from musicgen.generation.job import Job

LOOK_SECONDS = 0.05  # between two looks for who has gone
MANY_ROWS = 4  # at work in a process, from which another one is worth its memory
TOGETHER_ROWS = 4  # more than elsewhere, from which loading the model there is worth it
MOST_PROCESSES = 4
LOST = "the process that composed has ended; try again"
KILLED = (
    "the system ended the process that composed, most likely for want of memory; "
    "try again, and with fewer takes or bars if that does not help"
)
DYING_SECONDS = 2  # between the end of a process's pipe and its own
LOG = logging.getLogger(__name__)
KEPT = 3  # models in memory, and more where all are at work
REPORT_SECONDS = 0.02  # between two reports of what has been written


class RemoteJob(Progress):
    """A request that another process is at work on, and what is known of it here."""

    def __init__(self, task: Task, cancelled: Callable[[], bool] = lambda: False) -> None:
        super().__init__(task.order.request.variations)
        self.task, self.cancelled = task, cancelled
        self.place = 0  # in line, from 1; 0 once it is at work
        self.told_to_end = False

    def add(self, news: News) -> None:
        """Note what has come of it."""
        for row, new in zip(self.rows, news.rows, strict=False):
            row += new
        self._bars, self.place = news.bars, news.place
        self.error, self.bound = news.error, news.bound
        if news.ended:
            self.ended.set()


class EngineProcess:
    """A process that composes, and the jobs it is at."""

    def __init__(self, share: int) -> None:
        """Start one of so many that share the machine's memory."""
        self.jobs: dict[int, RemoteJob] = {}
        self.ready = False
        self.connection, theirs = CONTEXT.Pipe()
        self._process = CONTEXT.Process(target=compose, args=(theirs, share), daemon=True)
        with started_apart():
            self._process.start()
        theirs.close()

    @property
    def rows(self) -> int:
        """How many variations it is at."""
        return sum(len(job.rows) for job in self.jobs.values())

    @property
    def models(self) -> set[str]:
        """Whose music it is at."""
        return {job.task.model.given for job in self.jobs.values()}

    def give(self, job: RemoteJob) -> None:
        """Let it do a job; what cannot be sent is no work of anybody's."""
        self.send(job.task)
        self.jobs[job.task.number] = job

    def send(self, message: Task | int) -> None:
        """Send a request, or the number of one that nobody waits for any more.

        To a process that has died it is lost, which `receive` finds out.
        """
        with suppress(OSError):
            self.connection.send(message)

    def receive(self) -> None:
        """Take in what it has to say; an error of the pipe says that it has died."""
        for news in self.connection.recv():
            if (job := self.jobs.get(news.number)) is None:
                continue  # another process has it by now
            job.add(news)
            if news.ended:
                del self.jobs[news.number]
        self.ready = True

    def end(self) -> None:
        """End it, whatever it is at."""
        self._process.kill()
        self._process.join()
        self.connection.close()

    def give_up(self, *, has_died: bool) -> None:
        """End it; tell those who wait for its music why there will be no more of it, as a sentence if it was killed."""
        if has_died:
            self._process.join(DYING_SECONDS)
        killed = (self._process.exitcode or 0) < 0
        self.end()
        for job in self.jobs.values():
            job.error = ValueError(KILLED) if killed else RuntimeError(LOST)
            job.ended.set()
        self.jobs = {}


class Composer:
    """Has requests done by processes of its own; `most` of them at a time."""

    def __init__(self, most: int | None = None) -> None:
        self._most = most or max(1, min(MOST_PROCESSES, processors()))
        self._numbers = count()
        self.processes: list[EngineProcess] = []
        self._lock = threading.Lock()
        self._closed = False
        self._wake, self._woken = CONTEXT.Pipe()  # ends a wait for news where a process is new
        threading.Thread(target=self._watch, daemon=True).start()

    def start(self) -> None:
        """Start the first process, so that who comes first need not wait for it."""
        with self._lock:
            self._process("")

    def take(
        self,
        model: Player,
        wanted: Order,
        cancelled: Callable[[], bool] = lambda: False,
        *,
        owner: str = "",
        most_tokens: int | None = None,
    ) -> RemoteJob:
        """Have a request to a model done; the job's `ended` is set at last."""
        number = next(self._numbers)
        task = Task(number=number, model=model, order=wanted, owner=owner, most_tokens=most_tokens)
        job = RemoteJob(task, cancelled)
        with self._lock:
            self._process(model.given).give(job)
        return job

    @property
    def requests(self) -> int:
        """How many requests are here."""
        return sum(len(process.jobs) for process in self.processes)

    def close(self) -> None:
        """End all work; who waits for it waits for ever, as the program ends."""
        with self._lock:
            self._closed = True
            for process in self.processes:
                process.end()
            self.processes = []
            self._wake.send(None)

    def _process(self, model: str) -> EngineProcess:
        """Return the process that has least to do, or hardly more and the same model at work.

        A step takes as long as it has rows. Where each process has much to do, another one starts for those to come.
        """
        if self._closed:
            raise RuntimeError("the server ends")
        if len(self.processes) < self._most and all(
            process.ready and process.rows >= MANY_ROWS for process in self.processes
        ):
            self.processes.append(EngineProcess(self._most))
            self._wake.send(None)
        ready = [process for process in self.processes if process.ready] or self.processes
        return min(
            ready, key=lambda process: process.rows - TOGETHER_ROWS * (model in process.models)
        )

    def _watch(self) -> None:
        """Take in news, and let go whom nobody waits for."""
        looked = 0.0
        while not self._closed:
            with self._lock:
                processes = {process.connection: process for process in self.processes}
            try:
                ready = wait([self._woken, *processes], LOOK_SECONDS)
            except OSError:  # closed meanwhile
                continue
            if self._woken in ready:
                self._woken.recv()
            for connection, process in processes.items():
                if connection in ready:
                    self._receive(process)
            if time.monotonic() > looked + LOOK_SECONDS:
                looked = time.monotonic()
                for process in processes.values():
                    self._let_go(process)

    def _receive(self, process: EngineProcess) -> None:
        with self._lock:
            if process not in self.processes:
                return
            was_ready = process.ready
            try:
                process.receive()
                if not was_ready:
                    self._relieve_others(process)
            except Exception as error:  # this thread goes on: nobody else tells of an end
                has_died = isinstance(error, EOFError | OSError)
                if not has_died:
                    LOG.exception("what a process that composes said was not understood")
                self.processes.remove(process)
                process.give_up(has_died=has_died)

    def _relieve_others(self, new: EngineProcess) -> None:
        """Give a process that has just become ready what others were asked for last and have not begun to write."""
        for process in self.processes:
            for number, job in [*process.jobs.items()][::-1]:
                if process.rows - len(job.rows) <= new.rows:
                    break
                if not any(job.rows) and not job.told_to_end:
                    del process.jobs[number]
                    process.send(number)
                    new.give(job)

    def _let_go(self, process: EngineProcess) -> None:
        with self._lock:
            for job in [*process.jobs.values()]:
                if not job.told_to_end and job.cancelled():
                    job.told_to_end = True
                    process.send(job.task.number)


@dataclass(frozen=True, kw_only=True)
class Task:
    """A request as the server sends it."""

    number: int
    model: Player
    order: Order
    owner: str  # with whose other requests it shares its turns
    most_tokens: int | None = None  # of a variation, after which it ends


@dataclass(frozen=True, kw_only=True)
class News:
    """What has come of a request since the last report."""

    number: int
    rows: list[list[int]]  # new tokens by variation
    bars: int = 0  # new ones that are whole in each variation that still is written
    place: int = 0  # in line, from 1; 0 at work
    ended: bool = False
    error: Exception | None = None
    bound: Exception | None = None  # why the music ends before its length


@dataclass
class _AtWork:
    """A request at work, and what was said of it."""

    job: Job
    model: str
    place: int = 0


class Engines:
    """The engines of the last few models; of those at work, the one that had least works next."""

    def __init__(self, share: int = 1) -> None:
        """Take the memory that one of so many processes can have."""
        self._share = share
        # By the names their models were found by. One that is idle has the prompts that it read last.
        self._engines: OrderedDict[str, Engine] = OrderedDict()
        self._had: dict[str, float] = {}  # seconds of each that is at work
        self._at_work: dict[int, _AtWork] = {}  # by number
        self._failed: list[News] = []

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do."""
        return not self._had

    def take(self, task: Task) -> None:
        """Take a request in; one that cannot be done is news at once."""
        try:
            self._take(task)
        except Exception as error:  # of this request alone: a model that is damaged, say
            self._failed.append(News(number=task.number, rows=[], ended=True, error=_plain(error)))

    def _take(self, task: Task) -> None:
        from musicgen.generation.job import Job  # torch comes with it

        engine, name, most = self._engine(task.model), task.model.given, task.most_tokens

        def is_long() -> bool:
            return most is not None and job.steps >= most

        job = Job(engine.model, task.order, is_long, task.owner)
        # Who comes has no claim from when nobody wanted it.
        self._had.setdefault(name, min(self._had.values(), default=0.0))
        self._at_work[task.number] = _AtWork(job, name)
        engine.add(job)

    def leave(self, number: int) -> None:
        """Let a request go with the next step."""
        if number in self._at_work:
            self._at_work[number].job.cancelled = lambda: True

    def work(self) -> None:
        """Let the model that had least do a little."""
        from musicgen.generation.engine import one_thread

        name = min(self._had, key=lambda name: self._had[name])
        engine, begun = self._engines[name], time.monotonic()
        try:
            with one_thread():
                engine.work()
        except Exception as error:  # of the model, not of one request: nobody may wait for ever
            engine.fail(error)
        self._had[name] += time.monotonic() - begun
        if engine.idle:
            del self._had[name]

    def news(self) -> list[News]:
        """Return what is new since the last time."""
        found, self._failed = self._failed, []
        for number, one in [*self._at_work.items()]:
            job = one.job
            ended, rows = job.ended.is_set(), job.fresh()
            place = 0 if ended or job.steps else self._engines[one.model].place(job)
            if ended or any(rows) or place != one.place:
                one.place = place
                found.append(
                    News(
                        number=number,
                        rows=rows,
                        bars=job.bars,
                        place=place,
                        ended=ended,
                        error=_plain(job.error),
                        bound=_plain(job.bound),
                    )
                )
            if ended:
                del self._at_work[number]
        return found

    def _engine(self, model: Player) -> Engine:
        """Return a model's engine; the last few stay."""
        from musicgen.generation.engine import MOST_BYTES, Engine

        if model.given not in self._engines:
            most_bytes = MOST_BYTES // self._share
            engine = Engine(model.performer, listeners=True, most_bytes=most_bytes)
            idle = [name for name in self._engines if name not in self._had]
            for name in idle[: max(0, len(self._engines) - KEPT + 1)]:
                del self._engines[name]
            self._engines[model.given] = engine
        self._engines.move_to_end(model.given)
        return self._engines[model.given]


def compose(connection: Connection, share: int) -> None:
    """Compose what comes through a connection, until it is closed, as one of so many that share the memory."""
    end_with_parent()
    keep_memory_flat()
    from musicgen.generation.batch import compile_ahead  # torch comes with it

    compile_ahead()  # takes seconds on a first visit, so before anybody waits for a note
    engines, reported = Engines(share), 0.0
    with suppress(EOFError, OSError):
        connection.send([])  # ready
        while True:
            _hear(connection, engines)
            if not engines.idle:
                engines.work()
            if engines.idle or time.monotonic() > reported + REPORT_SECONDS:
                reported = time.monotonic()
                if news := engines.news():
                    connection.send(news)


def _hear(connection: Connection, engines: Engines) -> None:
    """Take in what has been sent; where there is nothing to do, wait for it."""
    while engines.idle or connection.poll():
        message = connection.recv()
        if isinstance(message, int):
            engines.leave(message)
            continue
        engines.take(message)
        if engines.idle:
            return  # it failed, which is news


def _plain(error: Exception | None) -> Exception | None:
    """Return an error as one that any process can read."""
    if error is None or type(error) is ValueError:
        return error
    return RuntimeError(f"{type(error).__name__}: {error}")
