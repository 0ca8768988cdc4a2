"""The engines of a process that composes, one for each model, and what is said of a request there."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol

from musicgen.continuation import Player
from musicgen.generation.engine import MOST_BYTES, Engine
from musicgen.generation.request import Job, Order, Progress


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits of a request, at which it ends."""

    seconds: float = math.inf
    tokens: float = math.inf  # per variation


NONE = Limits()


@dataclass(frozen=True, kw_only=True)
class Task:
    """A request as sent to a process."""

    number: int
    model: Player
    order: Order
    owner: str  # requests of one owner share their turns
    limits: Limits = NONE


@dataclass(frozen=True, kw_only=True)
class News:
    """A report on a request: what is new since the last one."""

    number: int
    rows: list[tuple[int, list[int]]]  # of each variation, how many tokens stay, and the new ones
    bars: int = 0  # complete new bars in every variation that is still being written
    ended: bool = False
    error: Exception | None = None
    bound: Exception | None = None  # why the music ended before its length


class Writing(Progress, ABC):
    """The progress of a request, as it is reported."""

    def __init__(self, task: Task) -> None:
        super().__init__(task.order.request.variations)
        self.task = task

    def add(self, news: News) -> None:
        """Add a report."""
        for row, (stay, new) in zip(self.rows, news.rows, strict=False):
            row[stay:] = new
        self._bars = news.bars
        self.error, self.bound = news.error, news.bound
        if news.ended:
            self.ended.set()

    @abstractmethod
    def cancel(self) -> None:
        """End the request at the next step."""

    @abstractmethod
    def settle(self, take: int) -> None:
        """Let a take, by number, go on as it is shown, whatever the critic prefers."""

    @abstractmethod
    def wait(self, seconds: float) -> bool:
        """Wait for the end for at most some seconds; return whether it has come."""


class Composing(Protocol):
    """Composes requests: in other processes (composer.py), or in this one (alone.py)."""

    @property
    def requests(self) -> int:
        """The number of current requests."""
        ...

    def take(
        self, model: Player, wanted: Order, *, owner: str = "", limits: Limits = NONE
    ) -> Writing:
        """Start a request to a model; the job's `ended` is set at its end."""
        ...


class Engines:
    """The engines of the models in use; the busy ones take steps in turn."""

    def __init__(self, share: int = 1) -> None:
        """Use at most 1/share of the memory."""
        self._share = share
        # By model name. Idle engines keep the prompts that they read last.
        self._engines: dict[str, Engine] = {}
        self._at_work: dict[int, Job] = {}  # by number
        self._failed: list[News] = []

    @property
    def idle(self) -> bool:
        """Whether no request is running."""
        return all(engine.idle for engine in self._engines.values())

    def take(self, task: Task) -> None:
        """Add a request; if it fails, that is reported next."""
        try:
            self._take(task)
        except Exception as error:  # fails this request alone, as with a damaged model
            self._failed.append(News(number=task.number, rows=[], ended=True, error=_plain(error)))

    def _take(self, task: Task) -> None:
        engine, most, late = (
            self._engine(task.model),
            task.limits.tokens,
            time.monotonic() + task.limits.seconds,
        )

        def is_long() -> bool:
            return job.steps >= most or time.monotonic() > late

        job = Job(task.order, is_long, task.owner)
        self._at_work[task.number] = job
        engine.add(job)

    def leave(self, number: int) -> None:
        """Cancel a request at the next step."""
        if number in self._at_work:
            self._at_work[number].cancelled = lambda: True

    def settle(self, number: int, take: int) -> None:
        """Let a take of a request go on from its first row."""
        if number in self._at_work:
            self._at_work[number].settled.add(take)

    def work(self) -> None:
        """Let each busy engine take a step."""
        for engine in self._engines.values():
            if not engine.idle:
                try:
                    engine.work()
                except Exception as error:  # of the model: fail all its requests
                    engine.fail(error)

    def news(self) -> list[News]:
        """Return the reports since the last call."""
        found, self._failed = self._failed, []
        for number, job in [*self._at_work.items()]:
            ended, rows = job.ended.is_set(), job.fresh()
            if ended or any(new for _, new in rows):
                found.append(
                    News(
                        number=number,
                        rows=rows,
                        bars=job.bars,
                        ended=ended,
                        error=_plain(job.error),
                        bound=_plain(job.bound),
                    )
                )
            if ended:
                del self._at_work[number]
        return found

    def _engine(self, model: Player) -> Engine:
        """Return the engine of a model."""
        if model.given not in self._engines:
            most_bytes = MOST_BYTES // self._share
            engine = Engine(model.network, listeners=True, most_bytes=most_bytes)
            self._engines[model.given] = engine
        return self._engines[model.given]


def _plain(error: Exception | None) -> Exception | None:
    """Return an error in a form that can be unpickled in any process."""
    if error is None or isinstance(error, ValueError):
        return None if error is None else ValueError(str(error))
    return RuntimeError(f"{type(error).__name__}: {error}")
