"""Turns at the processor: one thread generates for everybody, a moment for each in line.

Threads of their own would spend their time in waiting for the interpreter; and for each thread that has
ever multiplied, the library of matrices keeps megabytes of room to work in.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from queue import SimpleQueue

TURN_SECONDS = 0.1
LAST_TURN_SECONDS = 5  # a long prompt takes longer than a turn


class Turns:
    """A line in front of the thread that works; first come, first served, and back to its end after a turn."""

    def __init__(self) -> None:
        self._line: SimpleQueue[tuple[Iterator[object], Future[bool]] | None] = SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How many are in line."""
        return self._line.qsize()

    def taken(self, work: Iterator[object]) -> Iterator[None]:
        """Have some work done in turns; yields after each."""
        while True:
            turn: Future[bool] = Future()
            self._line.put((work, turn))
            if not turn.result():
                return
            yield

    def close(self) -> None:
        """End after the turn under way: a program that ends while a thread multiplies is aborted."""
        self._closed = True
        self._line.put(None)
        self._thread.join(LAST_TURN_SECONDS)

    def _serve(self) -> None:
        while (asked := self._line.get()) is not None and not self._closed:
            work, turn = asked
            try:
                turn.set_result(_done_for_now(work))
            except BaseException as error:  # it belongs to whose work it is
                turn.set_exception(error)
            del asked, work, turn  # waiting for the next, nothing of this one is held


def _done_for_now(work: Iterator[object]) -> bool:
    """Work for a turn; says whether there is more to do."""
    over = time.monotonic() + TURN_SECONDS
    return any(time.monotonic() >= over for _ in work)
