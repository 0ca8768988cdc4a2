"""By which names a server may be called, and by which pages.

A page from elsewhere can make a browser send requests here, with its own address as their origin. And a site can let
its own name lead to this machine (DNS rebinding): then the page is of that origin, and the name betrays it.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Refused(Exception):
    """A request that is not answered, and a sentence that says why."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, f"{sentence[0].upper()}{sentence[1:]}."


class Names:
    """What the server at a host is called: addresses in numbers, names that are known, and nothing else."""

    def __init__(self, host: str, known: Iterable[str] = ()) -> None:
        self._loopback_alone = host in LOOPBACK
        own = socket.gethostname().lower()
        self._known = {"localhost", host.lower(), *(name.lower() for name in known)}
        if not self._loopback_alone:
            self._known |= {own, f"{own}.local"}

    def add(self, address: str) -> None:
        """Let the server be called by the name of an address, as that of a tunnel."""
        self._known.add((urlsplit(address).hostname or address).lower())

    def check(self, host: str) -> None:
        """Refuse a request to another name than the server's."""
        name = _name(host)
        if name is None or not (name in self._known or self._is_ours(name)):
            raise Refused(
                421,
                "this server is not known by that name; `musicgen app --known-as NAME` tells it of one",
            )

    def _is_ours(self, name: str) -> bool:
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or not self._loopback_alone


def is_from_elsewhere(method: str, headers: Mapping[bytes, bytes]) -> bool:
    """Say whether a page of another site sent a request; to follow a link from there is no harm."""
    origin = headers.get(b"origin")
    if origin is not None:
        return origin.lower().partition(b"://")[2] != headers.get(b"host", b"").lower()
    follows = method == "GET" and headers.get(b"sec-fetch-mode", b"navigate") == b"navigate"
    return headers.get(b"sec-fetch-site") == b"cross-site" and not follows


def _name(host: str) -> str | None:
    """Return the name in a Host header, without its port."""
    try:
        found = urlsplit(f"//{host}")
        whole = found.netloc == host and "@" not in host and found.port != 0  # it may be no number
        return found.hostname if whole else None
    except ValueError:
        return None
