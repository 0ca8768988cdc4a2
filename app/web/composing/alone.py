"""Composing and reading in this process, which has one user and no threads: who waits for a request works on it.

The classes take the place of those of composer.py and readers.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count
from typing import Any, TypeVar

from app.web.composing.engines import NONE, Engines, Limits, Task, Writing
from musicgen.continuation import Player
from musicgen.generation.request import Order
from tokenization.limits import MusicFileError

SHARE = 4  # of the memory that an engine may take: a tab has less than a server
Answer = TypeVar("Answer")


class OwnJob(Writing):
    """The progress of a request in this process."""

    def __init__(self, task: Task, composer: OwnComposer) -> None:
        super().__init__(task)
        self._composer = composer

    def cancel(self) -> None:
        """End the request at the next step."""
        self._composer.leave(self.task.number)

    def settle(self, take: int) -> None:
        """Let a take, by number, go on as it is shown."""
        self._composer.settle(self.task.number, take)

    def wait(self, seconds: float) -> bool:
        """Work for at most some seconds, or until the end; return whether it has come."""
        self._composer.work(seconds, self)
        return self.ended.is_set()


class OwnComposer:
    """Works on the requests of one user."""

    def __init__(self) -> None:
        self._engines, self._numbers = Engines(SHARE), count()
        self._jobs: dict[int, OwnJob] = {}

    @property
    def requests(self) -> int:
        """The number of current requests."""
        return len(self._jobs)

    def take(
        self, model: Player, wanted: Order, *, owner: str = "", limits: Limits = NONE
    ) -> OwnJob:
        """Start a request to a model; the job's `ended` is set at its end."""
        number = next(self._numbers)
        task = Task(number=number, model=model, order=wanted, owner=owner, limits=limits)
        job = self._jobs[number] = OwnJob(task, self)
        self._engines.take(task)
        return job

    def leave(self, number: int) -> None:
        """Cancel a request at the next step."""
        self._engines.leave(number)

    def settle(self, number: int, take: int) -> None:
        """Let a take of a request go on as it is shown."""
        self._engines.settle(number, take)

    def work(self, seconds: float, job: OwnJob | None = None) -> bool:
        """Work on all requests for some seconds, or until one has ended; return whether there is more to do."""
        late = time.monotonic() + seconds
        self._report()
        while self._jobs and time.monotonic() < late and not (job and job.ended.is_set()):
            self._engines.work()
            self._report()
        return bool(self._jobs)

    def _report(self) -> None:
        for news in self._engines.news():
            self._jobs[news.number].add(news)
            if news.ended:
                del self._jobs[news.number]


def read_here(client: str, name: str, function: Callable[..., Answer], *values: Any) -> Answer:
    """Call a function of plain data, as readers do in another process."""
    try:
        return function(*values)
    except ValueError as error:
        raise MusicFileError(str(error)) from None
