"""Close connections that send nothing, never finish a request's headers, or do not read their answers.

uvicorn waits for them without end, and each is an open file: so one client has a part of those that there can be.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import Counter
from typing import Any, ClassVar

from uvicorn import config
from uvicorn.protocols.http.auto import AutoHTTPProtocol

MOST_CONNECTIONS = 2048  # of one client, as of all who come through one proxy …
SHARE = 4  # … and no more than a quarter of the files that can be open
HEAD_SECONDS = 15
UNREAD_SECONDS = 60  # in which a buffer's worth of an answer is to be read: 64 KB


class ImpatientProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """HTTP as uvicorn speaks it, with a clock that runs while no request is at work."""

    _open: ClassVar[Counter[str]] = Counter()  # connections, by client
    _client = ""
    _late: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Start the clock; hang up on who has too many."""
        super().connection_made(transport)
        self._client = str((transport.get_extra_info("peername") or [""])[0])
        self._open[self._client] += 1
        if self._open[self._client] > most_of_one():
            transport.abort()
            return
        self._late = asyncio.get_running_loop().call_later(HEAD_SECONDS, self._give_up)

    def data_received(self, data: bytes) -> None:
        """Stop it where a head has come whole, and start it where another one begins."""
        super().data_received(data)
        if self._is_at_work():
            self._stop()
        elif self._late is None:
            self._late = asyncio.get_running_loop().call_later(HEAD_SECONDS, self._give_up)

    def pause_writing(self) -> None:
        """Start another clock where an answer waits to be read."""
        super().pause_writing()
        transport: Any = getattr(self, "transport", None)
        self._unread = asyncio.get_running_loop().call_later(UNREAD_SECONDS, transport.abort)

    def resume_writing(self) -> None:
        """Stop it where it was."""
        self._stop_unread()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop both."""
        self._open[self._client] -= 1
        if not self._open[self._client]:
            del self._open[self._client]
        self._stop()
        self._stop_unread()
        super().connection_lost(exc)

    def _is_at_work(self) -> bool:
        cycle: Any = getattr(self, "cycle", None)
        return cycle is not None and not cycle.response_complete

    def _stop(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _stop_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _give_up(self) -> None:
        self._late = None
        transport: Any = getattr(self, "transport", None)
        if transport is not None and not self._is_at_work():
            transport.close()


def most_of_one() -> int:
    """Return how many connections one client can have."""
    if sys.platform == "win32":
        return MOST_CONNECTIONS
    import resource

    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(MOST_CONNECTIONS, files // SHARE) if files > 0 else MOST_CONNECTIONS


def close_slow_connections() -> None:
    """Let servers that are started from here on speak HTTP so; who speaks none fills no log."""
    logging.getLogger("uvicorn.error").addFilter(lambda record: record.levelno > logging.WARNING)
    config.HTTP_PROTOCOLS["auto"] = f"{__name__}:{ImpatientProtocol.__name__}"
