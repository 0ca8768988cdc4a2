"""A process that composes for the server: an engine a model, in turns, for requests that come through a pipe.

The server has an interpreter of its own for what visitors see. In one with the engine, each of a step's hundreds of
calls would wait for it.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from app.web.server.process import keep_memory_flat
from musicgen.common.workers.process import end_with_parent
from musicgen.continuation import Player
from musicgen.generation.request import Order

if TYPE_CHECKING:
    from musicgen.generation.engine import Engine
    from musicgen.generation.job import Job

KEPT = 3  # models in memory
REPORT_SECONDS = 0.02  # between two reports of what has been written


@dataclass(frozen=True, kw_only=True)
class Task:
    """A request as the server sends it."""

    number: int
    model: Player
    order: Order
    owner: str  # with whose other requests it shares its turns
    most_tokens: int | None = None  # of a variation, after which it ends


@dataclass(frozen=True, kw_only=True)
class Leave:
    """The number of a request that nobody waits for any more."""

    number: int


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
    given_up: bool = False


class Engines:
    """The engines at work, each for as long as somebody wants music of its model; the one that had least works next."""

    def __init__(self, share: int = 1) -> None:
        """Take the memory that one of so many processes can have."""
        self._share = share
        self._models: OrderedDict[str, Player] = OrderedDict()  # by the names they were found by
        self._engines: dict[str, Engine] = {}
        self._had: dict[str, float] = {}  # seconds of each
        self._at_work: dict[int, _AtWork] = {}  # by number
        self._failed: list[News] = []

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do."""
        return not self._engines

    def take(self, task: Task) -> None:
        """Take a request in; one that cannot be done is news at once."""
        try:
            self._take(task)
        except Exception as error:  # of this request alone: a model that is damaged, say
            self._failed.append(News(number=task.number, rows=[], ended=True, error=_plain(error)))

    def _take(self, task: Task) -> None:
        from musicgen.generation.engine import MOST_BYTES, Engine  # torch comes with it
        from musicgen.generation.job import job_of

        model, name = self._model(task.model), task.model.given

        def over() -> bool:
            long = task.most_tokens is not None and job.steps >= task.most_tokens
            return long or self._at_work[task.number].given_up

        job = job_of(model.performer, task.order, over, task.owner)
        if name not in self._engines:  # who comes has no claim from when nobody wanted it
            most_bytes = MOST_BYTES // self._share
            engine = Engine(model.performer, listeners=True, most_bytes=most_bytes)
            self._engines[name] = engine
            self._had[name] = min(self._had.values(), default=0.0)
        self._at_work[task.number] = _AtWork(job, name)
        self._engines[name].add(job)

    def leave(self, number: int) -> None:
        """Let a request go with the next step."""
        if number in self._at_work:
            self._at_work[number].given_up = True

    def work(self) -> None:
        """Let the model that had least do a little."""
        from musicgen.generation.engine import one_thread

        name = min(self._engines, key=lambda name: self._had[name])
        engine, begun = self._engines[name], time.monotonic()
        try:
            with one_thread():
                engine.work()
        except Exception as error:  # of the model, not of one request: nobody may wait for ever
            engine.fail(error)
        self._had[name] += time.monotonic() - begun
        if engine.idle:
            del self._engines[name], self._had[name]

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

    def _model(self, model: Player) -> Player:
        """Return a model with its weights; the last few stay."""
        known = self._models.setdefault(model.given, model)
        self._models.move_to_end(model.given)
        while len(self._models) > KEPT:
            self._models.popitem(last=False)
        return known


def compose(connection: Connection, share: int = 1) -> None:
    """Compose what comes through a connection, until it is closed, as one of so many that share the memory."""
    end_with_parent()
    keep_memory_flat()
    _compile_loops()
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
        if isinstance(message, Leave):
            engines.leave(message.number)
            continue
        engines.take(message)
        if engines.idle:
            return  # it failed, which is news


def _plain(error: Exception | None) -> Exception | None:
    """Return an error as one that any process can read."""
    if error is None or type(error) is ValueError:
        return error
    return RuntimeError(f"{type(error).__name__}: {error}")


def _compile_loops() -> None:
    """Compile the loops of a token, which takes seconds on a first visit, before anybody waits for a note."""
    from musicgen.generation.batch import compile_ahead

    compile_ahead()
