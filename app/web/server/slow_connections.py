"""Close connections that send nothing, or never more than the beginning of a request's headers.

uvicorn waits for them without end, and each is an open file.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn import config
from uvicorn.protocols.http.auto import AutoHTTPProtocol

HEAD_SECONDS = 15


class ImpatientProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """HTTP as uvicorn speaks it, with a clock that runs while no request is at work."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Start the clock."""
        super().connection_made(transport)
        self._late = asyncio.get_running_loop().call_later(HEAD_SECONDS, self._give_up)

    def data_received(self, data: bytes) -> None:
        """Stop it where a head has come whole, and start it where another one begins."""
        super().data_received(data)
        if self._is_at_work():
            self._stop()
        elif self._late is None:
            self._late = asyncio.get_running_loop().call_later(HEAD_SECONDS, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop it."""
        self._stop()
        super().connection_lost(exc)

    def _is_at_work(self) -> bool:
        cycle: Any = getattr(self, "cycle", None)
        return cycle is not None and not cycle.response_complete

    def _stop(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _give_up(self) -> None:
        self._late = None
        transport: Any = getattr(self, "transport", None)
        if transport is not None and not self._is_at_work():
            transport.close()


def close_slow_connections() -> None:
    """Let servers that are started from here on speak HTTP so."""
    config.HTTP_PROTOCOLS["auto"] = f"{__name__}:{ImpatientProtocol.__name__}"
