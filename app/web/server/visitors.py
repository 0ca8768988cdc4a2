"""The visitors who are there at this moment: whose page is open, and who waits for answers."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from app.web.server.sessions import Sessions

GONE_SECONDS = 20  # without anybody who reads, a job has lost its client


@dataclass(frozen=True, kw_only=True)
class Asker:
    """Who wants something done, and until when they are there."""

    client: str  # whose turns are shared among all that they ask for
    is_gone: Callable[[float], bool] = lambda since: False
    is_reading: Callable[[], bool] = lambda: True


class Visitors:
    """Counts open pages and readers; `sessions` has what each visitor was given."""

    def __init__(self, sessions: Sessions) -> None:
        self.sessions = sessions
        self._readers: Counter[str] = Counter()
        self._read: dict[str, float] = {}  # when somebody last read, by session

    @contextmanager
    def stays(self, name: str, client: str) -> Iterator[None]:
        """Note that somebody's page is open for as long as this lasts."""
        session = self.sessions.admit(name, client)
        self.sessions.came(session)
        try:
            yield
        finally:
            self.sessions.went(session)

    @contextmanager
    def reads(self, name: str) -> Iterator[None]:
        """Note that somebody waits for the answers to a session's jobs."""
        self._readers[name] += 1
        try:
            yield
        finally:
            self._read[name] = time.monotonic()
            self._readers[name] -= 1
            if not self._readers[name]:
                del self._readers[name]

    def asker(self, request: Any) -> Asker:
        """Return who sent a request of gradio's."""
        name, client = str(request.session_hash), client_of(request)
        return Asker(
            client=client,
            is_gone=lambda since: self.is_gone(name, since),
            is_reading=lambda: self.is_read(name),
        )

    def is_gone(self, name: str, since: float) -> bool:
        """Say whether nobody has read a session's answers for a while; `since` is when the job began."""
        last = max(since, self._read.get(name, 0.0))
        return not self._readers[name] and time.monotonic() > last + GONE_SECONDS

    def is_read(self, name: str) -> bool:
        """Say whether somebody waits for a session's answers at this moment."""
        return self._readers[name] > 0

    def forget_readers(self, waiting: Container[str]) -> None:
        """Forget who last read, but of sessions in which somebody waits for something."""
        for name in [name for name in self._read if name not in waiting]:
            del self._read[name]


def client_of(request: Any) -> str:
    """Return the address that a request of gradio's came from."""
    return request.client.host if request.client else ""
