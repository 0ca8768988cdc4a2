"""Turns at the processor: one thread generates for everybody, a moment for each in line.

Threads of their own would spend their time in waiting for the interpreter; and for each thread that has
ever multiplied, the library of matrices keeps megabytes of room to work in.

Turns go round among clients, and each client's among what they asked for: who asks for much waits the longer.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Iterator
from concurrent.futures import Future

TURN_SECONDS = 0.1
LAST_TURN_SECONDS = 5  # a long prompt takes longer than a turn

Asked = tuple[Iterator[object], "Future[bool]"]


class Turns:
    """A line a client in front of the thread that works; after a turn, both go back to the end of theirs."""

    def __init__(self) -> None:
        self._lines: OrderedDict[str, deque[Asked]] = OrderedDict()
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
        while (asked := self._next()) is not None:
            work, turn = asked
            try:
                turn.set_result(_done_for_now(work))
            except BaseException as error:  # it belongs to whose work it is
                turn.set_exception(error)
            del asked, work, turn  # waiting for the next, nothing of this one is held

    def _next(self) -> Asked | None:
        """Wait for work, and take that of the client whose last turn is longest ago."""
        with self._change:
            self._change.wait_for(lambda: self._lines or self._closed)
            if self._closed:
                return None
            client, line = self._lines.popitem(last=False)
            asked = line.popleft()
            if line:
                self._lines[client] = line  # behind the others
            return asked


def _done_for_now(work: Iterator[object]) -> bool:
    """Work for a turn; says whether there is more to do."""
    over = time.monotonic() + TURN_SECONDS
    return any(time.monotonic() >= over for _ in work)
