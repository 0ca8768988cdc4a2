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


class Turns:
    """A line in front of the thread that works; first come, first served, and back to its end after a turn."""

    def __init__(self) -> None:
        self._line: SimpleQueue[tuple[Iterator[object], Future[bool]]] = SimpleQueue()
        threading.Thread(target=self._serve, daemon=True).start()

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

    def _serve(self) -> None:
        while True:
            work, turn = self._line.get()
            try:
                turn.set_result(_done_for_now(work))
            except BaseException as error:  # it belongs to whose work it is
                turn.set_exception(error)
            del work, turn  # waiting for the next, nothing of this one is held


def _done_for_now(work: Iterator[object]) -> bool:
    """Work for a turn; says whether there is more to do."""
    over = time.monotonic() + TURN_SECONDS
    return any(time.monotonic() >= over for _ in work)
