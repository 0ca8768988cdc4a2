"""Processes that read files, with limits on memory and time.

In the server process, a file that takes seconds would block all visitors for as long.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from tokenization.limits import MusicFileError
from tokenization.workers import Bounds, Failed, Worker

MOST_READERS = 6  # processes at a time, 60 MB each
SPARED = 4  # of these, reserved for clients that have none running
RENDERER = 2  # of these that a renderer of sound counts as: 20 minutes take it a gigabyte
IDLE = 2  # kept for the next files
# SECURITY.md promises reading within 2 seconds and this memory; writing a long piece as a score takes 6.
BOUNDS = Bounds(seconds=10, memory_bytes=1 << 30)
NICE = 5  # lower priority than composing, since playback must not wait for files
Answer = TypeVar("Answer")
Call = tuple[Callable[..., Any], tuple[Any, ...]]


class Readers:
    """A pool of processes for reading, started as needed and ended when late."""

    def __init__(self) -> None:
        self._idle: list[Worker[Call, Any]] = []
        self._busy: Counter[str] = Counter()  # running calls by client
        self._changed = threading.Condition()

    def ask(self, client: str, name: str, function: Callable[..., Answer], *values: Any) -> Answer:
        """Call a function of plain data in another process; error messages refer to the file by `name`."""
        with self.place(client, 1), self._lent() as reader:
            answer = reader.ask((function, values))
        if isinstance(answer, Failed):
            if answer.is_fault:
                raise RuntimeError(answer.reason)
            raise MusicFileError(f"{name} cannot be read: {answer.reason}; use an excerpt")
        if isinstance(answer, MusicFileError):
            raise answer
        return answer

    @contextmanager
    def place(self, client: str, size: int = RENDERER) -> Iterator[None]:
        """Let a client have a process within the context, waiting until there is a place for it."""

        def fits() -> bool:
            spared = SPARED if self._busy[client] else 0
            return self._busy.total() + size <= MOST_READERS - spared

        with self._changed:
            self._changed.wait_for(fits)
            self._busy[client] += size
        try:
            yield
        finally:
            with self._changed:
                self._busy -= Counter({client: size})  # drops clients without any
                self._changed.notify_all()

    @contextmanager
    def _lent(self) -> Iterator[Worker[Call, Any]]:
        """Lend a process."""
        with self._changed:
            reader = self._idle.pop() if self._idle else None
        reader = reader or Worker(_called, BOUNDS, threads=None)
        try:
            yield reader
        except BaseException:  # its call has not returned
            reader.stop()
            raise
        if len(self._idle) < IDLE:
            self._idle.append(reader)
        else:
            reader.stop()


def _called(call: Call) -> Any:
    """Return the result of a call; return rather than raise a ValueError, so that its message is kept."""
    function, values = call
    if hasattr(os, "nice"):
        os.nice(max(0, NICE - os.nice(0)))
    try:
        return function(*values)
    except ValueError as error:
        return MusicFileError(str(error))
