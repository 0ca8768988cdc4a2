"""Turns at the processor: who generates works for a moment, then lets the next in line go on.

Without turns, threads that all hold the interpreter for microseconds spend their time in waiting for it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

TURN_SECONDS = 0.1


class Turns:
    """A line in front of some places; first come, first served, and back to its end after a turn."""

    def __init__(self, places: int) -> None:
        self._free = places
        self._line: deque[threading.Event] = deque()
        self._lock = threading.Lock()

    @property
    def waiting(self) -> int:
        """How many are in line."""
        return len(self._line)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for a place and hold it."""
        mine = threading.Event()
        with self._lock:
            if self._free:
                self._free -= 1
                mine.set()
            else:
                self._line.append(mine)
        mine.wait()
        try:
            yield
        finally:
            with self._lock:
                if self._line:
                    self._line.popleft().set()
                else:
                    self._free += 1

    def taken(self, work: Iterator[object]) -> Iterator[None]:
        """Do some work in turns; yields after each."""
        while True:
            with self.turn():
                over = time.monotonic() + TURN_SECONDS
                for _ in work:
                    if time.monotonic() >= over:
                        break
                else:
                    return
            yield
