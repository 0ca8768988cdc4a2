"""Turns at the processor: one thread generates for everybody, a moment for each in line.

Threads of their own would spend their time in waiting for the interpreter; and for each thread that has
ever multiplied, the library of matrices keeps megabytes of room to work in.

The next turn is that of the client who lately had the least, and within a client's they go round: who asks for much
waits the longer, and who comes anew is heard at once.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future

TURN_SECONDS = 0.1
BACK_SECONDS = 0.02  # in which somebody who lately had least comes back for more
LAST_TURN_SECONDS = 5  # a long prompt takes longer than a turn

Asked = tuple[Iterator[object], "Future[bool]"]


class Turns:
    """A line a client in front of the thread that works; after a turn, both go back to the end of theirs."""

    def __init__(self) -> None:
        self._lines: dict[str, deque[Asked]] = {}
        self._had: dict[str, float] = {}  # seconds of turns by client, lately
        self._now = 0.0  # what who had least has had: with so much, newcomers begin
        self._change = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def ahead(self, client: str = "") -> int:
        """Return about how many turns pass until one that a client asks for now."""
        with self._change:
            return len(self._lines.get(client, ())) * max(1, len(self._lines))

    def taken(self, work: Iterator[object], client: str = "") -> Iterator[None]:
        """Have some work done in turns; yields after each."""
        while True:
            turn: Future[bool] = Future()
            with self._change:
                if client not in self._lines:  # who comes has no claim from when they were away
                    self._had[client] = max(self._had.get(client, 0.0), self._now)
                self._lines.setdefault(client, deque()).append((work, turn))
                self._change.notify()
            if not turn.result():
                return
            yield

    def close(self) -> None:
        """End after the turn under way: a program that ends while a thread multiplies is aborted."""
        with self._change:
            self._closed = True
            self._change.notify()
        self._thread.join(LAST_TURN_SECONDS)

    def _serve(self) -> None:
        back = None  # who has had a turn, and may want another at once
        while (asked := self._next(back)) is not None:
            client, work, turn = asked
            back = client
            begun = time.monotonic()
            try:
                turn.set_result(_done_for_now(work))
            except BaseException as error:  # it belongs to whose work it is
                turn.set_exception(error)
            self._count(client, time.monotonic() - begun)
            del asked, work, turn  # waiting for the next, nothing of this one is held

    def _count(self, client: str, seconds: float) -> None:
        """Add to what a client had, and forget who has no more than is given to newcomers."""
        self._had[client] = self._had.get(client, 0.0) + seconds
        with self._change:
            kept = {
                one: had for one, had in self._had.items() if had > self._now or one in self._lines
            }
            self._had = kept

    def _next(self, back: str | None) -> tuple[str, Iterator[object], Future[bool]] | None:
        """Wait for work, and take that of the client who had least."""
        with self._change:
            self._change.wait_for(lambda: self._lines or self._closed)
            if back is not None and self._had.get(back, 0.0) <= min(
                self._had.get(one, 0.0) for one in self._lines or [back]
            ):  # or every other turn would be another's, who had more
                self._change.wait_for(lambda: back in self._lines or self._closed, BACK_SECONDS)
            if self._closed:
                return None
            client = min(self._lines, key=lambda one: self._had.get(one, 0.0))
            self._now = max(self._now, self._had.get(client, 0.0))
            work, turn = self._lines[client].popleft()
            if not self._lines[client]:
                del self._lines[client]
            return client, work, turn


def _done_for_now(work: Iterator[object]) -> bool:
    """Work for a turn; says whether there is more to do."""
    over = time.monotonic() + TURN_SECONDS
    return any(time.monotonic() >= over for _ in work)
