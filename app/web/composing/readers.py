"""Processes that read visitors' files for the server, within bounds of memory and of processor time.

In the server's own process, a file that takes seconds would hold the interpreter for so long, and with it everybody.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import wait
from typing import Any, TypeVar

from app.web.server.sessions import Asker
from musicgen.common.workers.process import Bounds, Failed, Worker
from tokenization.midi.limits import MidiError

MOST_READERS = 6  # at a time, 60 MB each …
SPARED = 2  # … of which the last ones are for clients that have none at work …
KEPT = 2  # … and so many wait for the next file
# For reading, 2 seconds and as much memory are promised (SECURITY.md); a long piece as a score takes 6.
BOUNDS = Bounds(seconds=10, memory_bytes=1 << 30)
NICE = 5  # below those that compose: music that is heard must not wait for a file
LOOK_SECONDS = 0.05  # between two looks for who has gone
Answer = TypeVar("Answer")
Call = tuple[Callable[..., Any], tuple[Any, ...]]


class Readers:
    """Starts a process where none is free, and ends one that is late or at work for nobody."""

    def __init__(self) -> None:
        self._idle: list[Worker[Call, Any]] = []
        self._busy: Counter[str] = Counter()  # how many each client has at work
        self._changed = threading.Condition()

    def ask(self, asker: Asker, name: str, function: Callable[..., Answer], *values: Any) -> Answer:
        """Return what a function of plain data returns in another process; a sentence on failure calls it by a name."""
        begun = time.monotonic()
        with self._lent(asker, begun) as reader:
            reader.give((function, values))
            while not (answers := reader.take()):
                if asker.is_gone(begun):
                    raise _left(name)
                wait([reader.connection], LOOK_SECONDS)
        [answer] = answers
        if isinstance(answer, Failed):
            if answer.is_fault:
                raise RuntimeError(answer.reason)
            raise MidiError(f"{name} cannot be read: {answer.reason}; give a part of it")
        if isinstance(answer, MidiError):
            raise answer
        return answer

    @contextmanager
    def _lent(self, asker: Asker, begun: float) -> Iterator[Worker[Call, Any]]:
        """Lend a process once one is free for this client, and somebody is there for the answer."""
        with self._changed:
            while not (asker.is_reading() and self._has_room(asker.client)):
                if asker.is_gone(begun):
                    raise _left("the file")
                self._changed.wait(LOOK_SECONDS)
            self._busy[asker.client] += 1
            reader = self._idle.pop() if self._idle else None
        try:
            reader = reader or Worker(_called, BOUNDS, threads=None)
            try:
                yield reader
            except BaseException:  # in the middle of its work
                reader.stop()
                raise
            if len(self._idle) < KEPT:
                self._idle.append(reader)
            else:
                reader.stop()
        finally:
            with self._changed:
                self._busy -= Counter([asker.client])  # which drops who has none
                self._changed.notify_all()

    def _has_room(self, client: str) -> bool:
        return self._busy.total() < MOST_READERS - (SPARED if self._busy[client] else 0)


def _called(call: Call) -> Any:
    """Return the answer to a call, or what is wrong with the file as a value, so that it keeps its sentence."""
    function, values = call
    if hasattr(os, "nice"):
        os.nice(max(0, NICE - os.nice(0)))
    try:
        return function(*values)
    except ValueError as error:
        return MidiError(str(error))


def _left(name: str) -> MidiError:
    return MidiError(
        f"{name} was not read to its end: nobody waited for it any more; send it again"
    )
