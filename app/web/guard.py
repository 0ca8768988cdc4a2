"""What a request may be: by which name it calls the server, from which page, where to, how large, and how many at once.

A page from elsewhere can make a browser send requests here, with its own address as their origin. And a site can let
its own name lead to this machine (DNS rebinding): then the page is of that origin, and the name betrays it. What is
refused is answered with a sentence that repeats nothing of it.
"""

from __future__ import annotations

import ipaddress
import os
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

LOOPBACK = ("127.0.0.1", "localhost", "::1")
API = "/gradio_api"
UPLOAD_BYTES = 1 << 20
JSON_BYTES = 1 << 16
FORM_BYTES = UPLOAD_BYTES + JSON_BYTES + (1 << 14)  # a file, and what is asked for of it
MOST_VALUES = 10_000  # in a body of JSON: commas cost more to read than letters
BODY_SECONDS = 20  # for the whole of it
DESK = ("open", "ahead", "write", "stop", "sound", "score")  # what the page's scripts ask for
FORMS = (f"{API}/upload", *(f"/desk/{name}" for name in DESK))
# What else may be sent anything, and what can be read. gradio has more, and would fetch addresses for who asks.
POSTED = tuple(f"{API}/{name}" for name in ("queue/join", "cancel", "reset"))
CALL = f"{API}/call/"
POSTED_BELOW = (f"{API}/run/", CALL)
READ = {
    "", "/config", "/favicon.ico", "/robots.txt",
    *(f"{API}/{name}" for name in ("info", "app_id", "startup-events", "login_check", "queue/status", "queue/data")),
}  # fmt: skip
READ_BELOW = ("/musicgen/", *(f"{API}/{name}" for name in ("file=", "heartbeat/", "call/")))
ANSWERS = (CALL, f"{API}/queue/data")  # of the requests of programs
MCP = f"{API}/mcp"
SERVER = b"x-gradio-server"  # what gradio would name in its answers instead, whatever it is
# The browser fetches nothing that this server does not have, whatever a part of the page asks for.
POLICY = (
    "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; media-src 'self' data: blob:; font-src 'self' data:; worker-src 'self' blob:; "
    "connect-src 'self' data: blob:; object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'self'"
)
HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-robots-tag", b"noindex"),
]


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


def _name(host: str) -> str | None:
    """Return the name in a Host header, without its port."""
    try:
        found = urlsplit(f"//{host}")
        whole = found.netloc == host and "@" not in host and found.port != 0  # it may be no number
        return found.hostname if whole else None
    except ValueError:
        return None


def is_from_elsewhere(method: str, headers: Mapping[bytes, bytes]) -> bool:
    """Say whether a page of another site sent a request; to follow a link from there is no harm."""
    origin = headers.get(b"origin")
    if origin is not None:
        return origin.lower().partition(b"://")[2] != headers.get(b"host", b"").lower()
    follows = method == "GET" and headers.get(b"sec-fetch-mode", b"navigate") == b"navigate"
    return headers.get(b"sec-fetch-site") == b"cross-site" and not follows


# How many requests are at work at a time: the page's and those of programs together.

MOST_AT_WORK = 96
MOST_OF_ONE = 24  # of one client …
FEW_OF_ONE = 4  # … where so many are at work of all: the other places are for others
BYTES_A_MINUTE = 8 << 20  # of files that programs of one client send
GONE_SECONDS = 20  # without an answer being read, a client has left what it asked for


class Room:
    """Counts requests at work, and answers that are being read, by client; from any thread."""

    def __init__(self) -> None:
        self._at_work: Counter[str] = Counter()
        self._readers: Counter[str] = Counter()
        # When a client that has requests at work last read or asked.
        self._last: dict[str, float] = {}
        self._minute, self._sent = 0, Counter[str]()  # bytes of files, by client
        self._lock = Lock()

    def count(self, client: str, size: int) -> None:
        """Add a file that a client sends; refuse what is too much for a minute."""
        with self._lock:
            if (minute := int(time.monotonic() // 60)) != self._minute:
                self._minute, self._sent = minute, Counter()
            if self._sent[client] and self._sent[client] + size > BYTES_A_MINUTE:
                raise Refused(429, "you have sent too much in the last minute; send it in a while")
            self._sent[client] += size

    @contextmanager
    def place(self, client: str) -> Iterator[None]:
        """Take a place for as long as this lasts; refuse a client that has many, as many as leave room for others."""
        with self._lock:
            own, together = self._at_work[client], self._at_work.total()
            if own >= (MOST_OF_ONE if together < MOST_OF_ONE else FEW_OF_ONE):
                raise Refused(429, f"{own} of your requests are at work; wait for one of them")
            if together >= MOST_AT_WORK:
                raise Refused(503, "too many requests are at work; send it again in a while")
            self._at_work[client] += 1
            self._last[client] = time.monotonic()
        try:
            yield
        finally:
            with self._lock:
                self._at_work -= Counter([client])  # which drops who has none
                if not self._at_work[client]:
                    self._last.pop(client, None)

    @contextmanager
    def reading(self, client: str) -> Iterator[None]:
        """Note that a client reads an answer for as long as this lasts."""
        with self._lock:
            self._readers[client] += 1
        try:
            yield
        finally:
            with self._lock:
                self._readers -= Counter([client])
                if client in self._last:
                    self._last[client] = time.monotonic()

    def is_read(self, client: str) -> bool:
        """Say whether a client reads an answer at this moment."""
        return self._readers[client] > 0

    def is_gone(self, client: str) -> bool:
        """Say whether a client has not read for a while."""
        last = self._last.get(client, -GONE_SECONDS)
        return not self.is_read(client) and time.monotonic() > last + GONE_SECONDS


# Files that programs send and are given lie in one folder, and are bounded together.

FULL_DISK = "The disk of the server is full; tell who runs it, or try again in a while."
FILES_BYTES = 1 << 30
MOST_FILES = 2000
OLD_SECONDS = 3600
SPARED_SECONDS = 60  # younger files are not deleted to make room: somebody is at it


def make_room(folder: Path, size: int = 0) -> None:
    """Delete files that are old, and the oldest where there is no room for one more; refuse it where all are new."""
    found = []
    for place, _, names in os.walk(folder):  # which goes on where a folder is gone by now
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
        with suppress(OSError):  # it holds something else
            path.parent.rmdir()
        total, left = total - stat.st_size, left - 1
    if size and not fits():
        raise Refused(507, "too many files have come in the last minute; send it again in a while")


class Guard:
    """Lets a request in, or answers it with a refusal; every answer has our headers (ASGI middleware)."""

    def __init__(self, app: Any, *, names: Names, room: Room, files: Path) -> None:
        self.app, self.names, self.room, self.files = app, names, room, files

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle a request."""
        if scope["type"] == "websocket":  # no endpoint is one
            return await send({"type": "websocket.close", "code": 1008})
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        started = False

        async def send_with_headers(message: Any) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message = {**message, "headers": [*message.get("headers", []), *HEADERS]}
            await send(message)

        try:
            await self._let_in(scope, receive, send_with_headers)
        except Refused as refused:
            if not started:
                await answer(refused)(scope, receive, send_with_headers)

    async def _let_in(self, scope: Any, receive: Any, send: Any) -> None:
        headers = {name.lower(): value for name, value in scope["headers"]}
        # By the second one, which a proxy says, gradio names this server.
        for name in (b"host", *{b"x-forwarded-host"} & headers.keys()):
            self.names.check(headers.get(name, b"").decode("latin-1").partition(",")[0].strip())
        scope = {**scope, "headers": [one for one in scope["headers"] if one[0].lower() != SERVER]}
        method, path = scope["method"], scope["path"].rstrip("/")
        client = scope["client"][0] if scope.get("client") else ""
        if is_from_elsewhere(method, headers):
            raise Refused(403, "this server answers its own pages alone, not those of other sites")
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
        known = is_form or path in POSTED or path.startswith((*POSTED_BELOW, MCP))
        if method != "POST" or not known:
            raise Refused(405, "nothing can be sent to this address")
        if path == FORMS[0]:  # what does not say its size counts as the largest
            said = headers.get(b"content-length", b"")
            self.room.count(client, int(said) if said.isdigit() else FORM_BYTES)
        body = await _taken(FORM_BYTES if is_form else JSON_BYTES, headers, scope, receive)
        if not is_form:
            _check_json(body, self.files)
        elif path == FORMS[0]:
            # Of a number to watch it by, gradio would keep a record.
            scope = {**scope, "query_string": b""}
            await anyio.to_thread.run_sync(make_room, self.files, len(body))
        reading = (
            nullcontext() if path in POSTED or path.startswith(CALL) else self.room.reading(client)
        )
        with self.room.place(client), reading:
            await self.app(scope, _again(body, receive), send)


async def _taken(most: int, headers: Mapping[bytes, bytes], scope: Any, receive: Any) -> bytes:
    """Return the body of a request, which has to be small and to come in time."""
    too_large = Refused(413, f"the request is larger than the {most >> 10} KB that are taken here")
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
        raise Refused(400, "the request broke off") from None
    except TimeoutError:
        raise Refused(408, f"the request had not come after {BODY_SECONDS} s") from None
    return bytes(body)


def _check_json(body: bytes, files: Path) -> None:
    """Refuse what is no JSON, more of it than anything here takes, or about files that were not sent here.

    gradio would fetch a file from another address.
    """
    if body.count(b",") > MOST_VALUES:
        raise Refused(413, "the request holds more values than anything here takes")
    try:
        content = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise Refused(400, "the request is not JSON, as RFC 8259 has it") from None
    if not isinstance(content, dict):
        raise Refused(400, "the request is JSON, but no object with names and values")
    todo: list[Any] = [content]
    while todo:
        one = todo.pop()
        todo += one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
        if isinstance(one, dict) and "path" in one and not _is_in(files, one["path"]):
            raise Refused(400, "this file was not sent to this server: upload it first")


def _is_in(folder: Path, path: Any) -> bool:
    """Say whether a file lies in a folder, or in one within."""
    with suppress(ValueError, OSError):  # of a name that is none
        found = Path(path).resolve() if isinstance(path, str) else folder
        return folder.resolve() in found.parents and found.is_file()
    return False


def _again(body: bytes, receive: Any) -> Any:
    """Give a body that has been read once more."""
    given = False

    async def receive_again() -> Any:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again


def answer(refused: Refused) -> JSONResponse:
    """Return the answer to a request that is refused."""
    headers = {"connection": "close"}  # of a body that was not read, the rest is not waited for
    return JSONResponse({"detail": refused.sentence}, refused.status, headers)
