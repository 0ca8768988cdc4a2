"""One thread composes for everybody, with an engine a model; models that are asked for take turns at the processor.

Threads of their own would spend their time in waiting for the interpreter; and for each thread that has ever
multiplied, the library of matrices keeps megabytes of room to work in.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from musicgen.generation.engine import Engine
    from musicgen.generation.job import Job
    from musicgen.model.performer import Performer

LAST_TURN_SECONDS = 5  # a piece of a long prompt takes longer than a step


class Composer:
    """The engines at work, each for as long as somebody wants music of its model; the one that had least works next."""

    def __init__(self) -> None:
        self._engines: dict[int, Engine] = {}  # by the identity of the model
        self._had: dict[int, float] = {}  # seconds of each
        self._change = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def take(self, job: Job, model: Performer) -> None:
        """Have a job of a model done; its `ended` is set at last."""
        from musicgen.generation.engine import Engine  # torch comes with it

        with self._change:
            if id(model) not in self._engines:  # who comes has no claim from when nobody wanted it
                self._engines[id(model)] = Engine(model, listeners=True)
                self._had[id(model)] = min(self._had.values(), default=0.0)
            self._engines[id(model)].add(job)
            self._change.notify()

    def place(self, job: Job) -> int:
        """Return where in line a request stands, from 1; 0 once it is at work."""
        with self._change:
            engines = list(self._engines.values())
        return max((engine.place(job) for engine in engines), default=0)

    @property
    def requests(self) -> int:
        """How many requests are here."""
        with self._change:
            return sum(map(len, self._engines.values()))

    def close(self) -> None:
        """End after the step under way: a program that ends while a thread multiplies is aborted."""
        with self._change:
            self._closed = True
            self._change.notify()
        self._thread.join(LAST_TURN_SECONDS)

    def _serve(self) -> None:
        while (key := self._next()) is not None:
            self._work(key)

    def _work(self, key: int) -> None:
        from musicgen.generation.threads import threads_for

        engine, begun = self._engines[key], time.monotonic()
        try:
            with threads_for(engine.model):
                engine.work()
        except Exception as error:  # of the model, not of one request: nobody may wait for ever
            engine.fail(error)
        with self._change:
            self._had[key] += time.monotonic() - begun
            if engine.idle:
                del self._engines[key], self._had[key]

    def _next(self) -> int | None:
        """Wait for work, and return the model that had least."""
        with self._change:
            self._change.wait_for(lambda: self._engines or self._closed)
            return None if self._closed else min(self._engines, key=lambda key: self._had[key])
