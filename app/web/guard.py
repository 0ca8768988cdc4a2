"""Checks every request: the host name, the origin, the path, the size, and the number of concurrent requests.

Other sites can make a browser send requests here, with their own origin. A site can also let its own name resolve to
this machine (DNS rebinding): then the origin matches, but the host name does not. Refusals are one sentence, which
repeats nothing of the request.
"""

from __future__ import annotations

import ipaddress
import os
import re
import secrets
import socket
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import urlsplit

import anyio
import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse

from app.web.desk import ACTIONS
from app.web.page import POLICY

LOOPBACK = ("127.0.0.1", "localhost", "::1")
API = "/gradio_api"
UPLOAD_BYTES = 1 << 20
JSON_BYTES = 1 << 16
FORM_BYTES = UPLOAD_BYTES + JSON_BYTES + (1 << 14)  # a file and the request for it
MOST_VALUES = 10_000  # in a JSON body: many values cost more to parse than long ones
BODY_SECONDS = 20  # for the whole body
COMPOSING = "/desk/write"  # brings along a second file, which is written into, as base64
FORMS = (f"{API}/upload", *(f"/desk/{name}" for name in ACTIONS))
WRITE = "/write"  # for other programs of the user
WRITE_BYTES = FORM_BYTES * 4 // 3  # a file as base64
# The other allowed paths, for POST and for GET. gradio has more, some of which fetch URLs for the client.
POSTED = tuple(f"{API}/{name}" for name in ("queue/join", "cancel", "reset"))
CALL = f"{API}/call/"
POSTED_BELOW = (f"{API}/run/", CALL)
READ = {
    "", "/config", "/favicon.ico", "/robots.txt",
    *(f"{API}/{name}" for name in ("info", "app_id", "startup-events", "login_check", "queue/status", "queue/data")),
}  # fmt: skip
READ_BELOW = ("/musicgen/", *(f"{API}/{name}" for name in ("file=", "heartbeat/", "call/")))
ANSWERS = (CALL, f"{API}/queue/data")  # to the requests of programs
MCP = f"{API}/mcp"
NO_ADDRESS = "this server fetches no address; send the file itself, in base64, to the tool write"
ADDRESS = re.compile(r"\s*\w+://")
TOKEN_MISSING = (
    "this server is open to the network, so programs must send the token of ~/.musicgen/server.json: "
    "Authorization: Bearer TOKEN"
)
SERVER = b"x-gradio-server"  # gradio would use its value as the server's URL in answers, unchecked
HEADERS = [
    (b"content-security-policy", f"{POLICY}; frame-ancestors 'self'".encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-robots-tag", b"noindex"),
]


class Refused(Exception):
    """A refused request, with the reason as a sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, f"{sentence[0].upper()}{sentence[1:]}."


class Names:
    """The host names that the server answers to: numeric addresses and known names."""

    def __init__(self, host: str, known: Iterable[str] = ()) -> None:
        self._loopback_alone = host in LOOPBACK
        own = socket.gethostname().lower()
        self._known = {"localhost", host.lower(), *(name.lower() for name in known)}
        if not self._loopback_alone:
            self._known |= {own, f"{own}.local"}

    def add(self, address: str) -> None:
        """Add the host name of a URL, such as that of a tunnel."""
        self._known.add((urlsplit(address).hostname or address).lower())

    def check(self, host: str) -> None:
        """Refuse a request to a host name that is not the server's."""
        name = _name(host)
        if name is None or not (name in self._known or self._is_ours(name)):
            raise Refused(
                421,
                "this server does not answer to that name; add it by `musicgen app --known-as NAME`",
            )

    def _is_ours(self, name: str) -> bool:
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or not self._loopback_alone


def _name(host: str) -> str | None:
    """Return the name in a Host header, without its port."""
    try:
        found = urlsplit(f"//{host}")
        is_valid = (
            found.netloc == host and "@" not in host and found.port != 0
        )  # the port may be invalid
        return found.hostname if is_valid else None
    except ValueError:
        return None


def is_cross_site(method: str, headers: Mapping[bytes, bytes]) -> bool:
    """Return whether a page of another site sent a request; following a link from there is allowed."""
    origin = headers.get(b"origin")
    if origin is not None:
        return origin.lower().partition(b"://")[2] != headers.get(b"host", b"").lower()
    follows = method == "GET" and headers.get(b"sec-fetch-mode", b"navigate") == b"navigate"
    return headers.get(b"sec-fetch-site") == b"cross-site" and not follows


# The number of concurrent requests, of the page and of programs together.

MOST_AT_WORK = 96
MOST_OF_ONE = 24  # per client, while fewer than this are running in total
FEW_OF_ONE = 4  # per client otherwise, so that others find room
BYTES_A_MINUTE = 8 << 20  # of uploads per client
REFUSALS_A_MINUTE = 20  # per client that are answered at once …
REFUSED_SECONDS = 1.0  # … and later ones after so long: who asks on and on costs others less
GONE_SECONDS = 20  # without reading an answer, after which a client is considered gone


class Room:
    """Counts running requests and answers being read, by client; thread-safe."""

    def __init__(self) -> None:
        self._at_work: Counter[str] = Counter()
        self._readers: Counter[str] = Counter()
        # The last time that a client with running requests sent one or stopped reading an answer.
        self._last: dict[str, float] = {}
        # Of the current minute, by client: bytes sent, and refusals.
        self._minute, self._sent, self._refused = 0, Counter[str](), Counter[str]()
        self._lock = Lock()

    def count(self, client: str, size: int) -> None:
        """Count an upload of a client; refuse it if it exceeds the limit per minute."""
        with self._lock:
            self._begin_minute()
            if self._sent[client] and self._sent[client] + size > BYTES_A_MINUTE:
                raise Refused(429, "you have sent too much in the last minute; try again later")
            self._sent[client] += size

    def wait_of(self, client: str) -> float:
        """Count a refusal of a client; return the seconds to wait before it is answered."""
        with self._lock:
            self._begin_minute()
            self._refused[client] += 1
            return REFUSED_SECONDS if self._refused[client] > REFUSALS_A_MINUTE else 0.0

    def _begin_minute(self) -> None:
        if (minute := int(time.monotonic() // 60)) != self._minute:
            self._minute, self._sent, self._refused = minute, Counter(), Counter()

    @contextmanager
    def place(self, client: str) -> Iterator[None]:
        """Count a running request within the context; refuse it if the client or all clients have too many."""
        with self._lock:
            own, together = self._at_work[client], self._at_work.total()
            if own >= (MOST_OF_ONE if together < MOST_OF_ONE else FEW_OF_ONE):
                raise Refused(429, f"{own} of your requests are running; wait for one to finish")
            if together >= MOST_AT_WORK:
                raise Refused(503, "too many requests are running; try again in a moment")
            self._at_work[client] += 1
            self._last[client] = time.monotonic()
        try:
            yield
        finally:
            with self._lock:
                self._at_work -= Counter([client])  # drops clients without any
                if not self._at_work[client]:
                    self._last.pop(client, None)

    @contextmanager
    def reading(self, client: str) -> Iterator[None]:
        """Count an answer as being read within the context."""
        with self._lock:
            self._readers[client] += 1
        try:
            yield
        finally:
            with self._lock:
                self._readers -= Counter([client])
                if client in self._last:
                    self._last[client] = time.monotonic()

    def is_reading(self, client: str) -> bool:
        """Return whether a client is reading an answer."""
        return self._readers[client] > 0

    def is_gone(self, client: str) -> bool:
        """Return whether a client has not read an answer for a while."""
        last = self._last.get(client, -GONE_SECONDS)
        return not self.is_reading(client) and time.monotonic() > last + GONE_SECONDS


# The files of programs, uploads and answers, are in one folder with a common limit.

FULL_DISK = "The server's disk is full; tell its operator, or try again later."
FILES_BYTES = 1 << 30
MOST_FILES = 2000
OLD_SECONDS = 3600
SPARED_SECONDS = 60  # younger files may be in use and are not deleted to make room


def make_room(folder: Path, size: int = 0) -> None:
    """Delete old files, and the oldest until one of `size` bytes fits; refuse it if the rest are too new."""
    found = []
    for place, _, names in os.walk(folder):  # tolerates folders that vanish meanwhile
        for path in (Path(place) / name for name in names):
            with suppress(OSError):
                found.append((path.lstat(), path))
    total, left, now = sum(stat.st_size for stat, _ in found), len(found), time.time()

    def fits() -> bool:
        return total + size <= FILES_BYTES and left < MOST_FILES

    for stat, path in sorted(found, key=lambda file: file[0].st_mtime):
        age = now - stat.st_mtime
        if age < OLD_SECONDS and (fits() or age < SPARED_SECONDS):
            break
        path.unlink(missing_ok=True)
        with suppress(OSError):  # not empty
            path.parent.rmdir()
        total, left = total - stat.st_size, left - 1
    if size and not fits():
        raise Refused(507, "too many files have arrived in the last minute; try again later")


class Guard:
    """ASGI middleware that passes a request on or refuses it, and adds our headers to every answer."""

    def __init__(self, app: Any, *, names: Names, room: Room, files: Path, token: str = "") -> None:
        """Check requests to an application; `token` is what programs must know to write in one step, if anything."""
        self.app, self.names, self.room, self.files = app, names, room, files
        self._bearer = f"Bearer {token}".encode() if token else b""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle a request."""
        if scope["type"] == "websocket":  # there are no websocket endpoints
            return await send({"type": "websocket.close", "code": 1008})
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        started, client = False, scope["client"][0] if scope.get("client") else ""

        async def send_with_headers(message: Any) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message = {**message, "headers": [*message.get("headers", []), *HEADERS]}
            await send(message)

        try:
            await self._let_in(scope, receive, send_with_headers, client)
        except Refused as refused:
            if not started:
                refused.__traceback__ = None  # which would keep the body
                await anyio.sleep(self.room.wait_of(client))
                await answer(refused)(scope, receive, send_with_headers)

    async def _let_in(self, scope: Any, receive: Any, send: Any, client: str) -> None:
        headers = {name.lower(): value for name, value in scope["headers"]}
        # gradio uses the second header, set by proxies, as the name of this server.
        for name in (b"host", *{b"x-forwarded-host"} & headers.keys()):
            self.names.check(headers.get(name, b"").decode("latin-1").partition(",")[0].strip())
        scope = {**scope, "headers": [one for one in scope["headers"] if one[0].lower() != SERVER]}
        method, path = scope["method"], scope["path"].rstrip("/")
        if is_cross_site(method, headers):
            raise Refused(403, "this server answers only its own pages, not those of other sites")
        if method in ("GET", "HEAD"):
            known = path in READ or path.startswith((*READ_BELOW, MCP))
            if not known or "://" in path:
                raise Refused(404, "there is nothing at this address")
            if not path.startswith(ANSWERS):
                return await self.app(scope, receive, send)
            with self.room.reading(client):
                return await self.app(scope, receive, send)
        if method == "OPTIONS" or (method == "DELETE" and path.startswith(MCP)):
            return await self.app(scope, receive, send)
        is_form = path in FORMS
        known = is_form or path in (WRITE, *POSTED) or path.startswith((*POSTED_BELOW, MCP))
        if method != "POST" or not known:
            raise Refused(405, "nothing can be sent to this address")
        if path == WRITE and not secrets.compare_digest(
            headers.get(b"authorization", b"") if self._bearer else b"", self._bearer
        ):
            raise Refused(401, TOKEN_MISSING)
        if path == FORMS[0]:  # without a size, the largest is assumed
            said = headers.get(b"content-length", b"")
            self.room.count(client, int(said) if said.isdigit() else FORM_BYTES)
        is_tool = path.startswith(MCP)
        most = FORM_BYTES if is_form else JSON_BYTES
        most = WRITE_BYTES if is_tool or path == WRITE else most
        most += WRITE_BYTES if path == COMPOSING else 0
        body = await _read_body(most, headers, scope, receive)
        if not (is_form or path == WRITE):
            _check_json(body, self.files, inline=is_tool)
        elif path == FORMS[0]:
            # The query could hold an upload id, for which gradio would keep a record.
            scope = {**scope, "query_string": b""}
            await anyio.to_thread.run_sync(make_room, self.files, len(body))
        reading = (
            nullcontext() if path in POSTED or path.startswith(CALL) else self.room.reading(client)
        )
        with self.room.place(client), reading:
            await self.app(scope, _replayed(body, receive), send)


async def _read_body(most: int, headers: Mapping[bytes, bytes], scope: Any, receive: Any) -> bytes:
    """Return the body of a request; refuse one that is too large or too slow."""
    too_large = Refused(413, f"the request is larger than the limit of {most >> 10} KB")
    length = headers.get(b"content-length", b"0")
    if not length.isdigit() or int(length) > most:
        raise too_large
    body = bytearray()
    try:
        with anyio.fail_after(BODY_SECONDS):
            async for part in Request(scope, receive).stream():
                body += part
                if len(body) > most:
                    raise too_large
    except ClientDisconnect:
        raise Refused(400, "the request was cut off") from None
    except TimeoutError:
        raise Refused(408, f"the request did not arrive within {BODY_SECONDS} s") from None
    return bytes(body)


def _check_json(body: bytes, files: Path, *, inline: bool = False) -> None:
    """Refuse a body that is not a JSON object, has too many values, or names files that were not uploaded.

    gradio would fetch a file from another address; with `inline`, files of tools come in the request alone.
    """
    if body.count(b",") > MOST_VALUES:
        raise Refused(413, "the request has more values than any endpoint accepts")
    try:
        content = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise Refused(400, "the request is not valid JSON (RFC 8259)") from None
    if not isinstance(content, dict):
        raise Refused(400, "the request is not a JSON object")
    calls_tool = inline and content.get("method") == "tools/call"
    todo: list[Any] = [content]
    while todo:
        one = todo.pop()
        todo += one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
        if calls_tool and isinstance(one, str) and ADDRESS.match(one):
            raise Refused(400, NO_ADDRESS)
        if isinstance(one, dict) and "path" in one and not _is_in(files, one["path"]):
            raise Refused(400, "this file was not sent to this server: upload it first")


def _is_in(folder: Path, path: Any) -> bool:
    """Return whether a path is an existing file below a folder."""
    with suppress(ValueError, OSError):  # invalid paths
        found = Path(path).resolve() if isinstance(path, str) else folder
        return folder.resolve() in found.parents and found.is_file()
    return False


def _replayed(body: bytes, receive: Any) -> Any:
    """Return a `receive` that first gives a body that has been read already."""
    given = False

    async def receive_again() -> Any:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again


def answer(refused: Refused) -> JSONResponse:
    """Return the response to a refused request."""
    headers = {"connection": "close"}  # do not wait for the rest of an unread body
    return JSONResponse({"detail": refused.sentence}, refused.status, headers)
