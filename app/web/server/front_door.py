"""The door of the server: every request is looked at before gradio sees it (ASGI middleware).

By which name the server was called and from which page; how large the body is, how slowly it comes, whether it is
JSON; how much the same client has under way. What is refused is told in a sentence, and nothing of it is repeated.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs

import anyio
import orjson
from starlette.datastructures import Headers, UploadFile
from starlette.formparsers import MultiPartParser
from starlette.responses import Response
from uvicorn import config
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from app.web.server.jobs import Jobs
from app.web.server.names import Names, Refused, is_from_elsewhere
from app.web.server.sessions import Visitors
from app.web.server.uploads import Arrivals, make_room

# Check the form (multipart/form-data) of an upload before gradio reads it, which expects nothing but files.

MOST_FILES = 100  # in one form
FILES = "files"  # what each is called in it
# Who sends odd bytes writes nothing to the terminal.
logging.getLogger("python_multipart").addHandler(logging.NullHandler())


async def check_form(headers: Mapping[bytes, bytes], body: bytes) -> None:
    """Refuse a body that is no form of files."""

    async def whole() -> AsyncGenerator[bytes, None]:
        yield body

    parser = MultiPartParser(Headers(raw=[*headers.items()]), whole(), max_files=MOST_FILES)
    try:
        sent = (await parser.parse()).multi_items()
    except Exception:  # what it raises at odd bytes is of many kinds
        raise Refused(
            400, f"the request is no whole form, multipart/form-data, of {MOST_FILES} files at most"
        ) from None
    finally:
        for file in parser._files_to_close_on_error:  # also one that was cut off
            file.close()
    if not sent or any(name != FILES or not isinstance(file, UploadFile) for name, file in sent):
        raise Refused(
            400, f"the form is not one of whole files alone, each named and sent as {FILES}"
        )


API = "/gradio_api"
UPLOAD_BYTES = 1 << 20
JSON_BYTES = 1 << 16
UPLOAD_BODY_BYTES = UPLOAD_BYTES + (1 << 14)
MOST_VALUES = 10_000  # in a body of JSON: commas cost more to read than letters
BODY_SECONDS = 20  # for the whole of it
AT_ONCE = 2  # requests with a body that one client has answered at a time; the others wait
IN_WAITING = 64  # so many of one client
POSTED = {"queue/join", "cancel", "reset", "upload"}  # what may be sent anything, besides …
CALLED = ("run/", "call/")  # … functions by name
# What can be read. gradio has more, and would fetch addresses and write to the terminal for who asks.
READ = {
    "", "/config", "/theme.css", "/favicon.ico", "/manifest.json", "/robots.txt", "info", "openapi.json", "app_id",
    "startup-events", "login_check", "queue/status", "queue/data",
}  # fmt: skip
READ_BELOW = ("/static/", "/assets/", "/musicgen/", "file=", "heartbeat/", "call/")
SERVER = b"x-gradio-server"  # what gradio would name in its page instead, whatever it is
# The browser fetches nothing that this server does not have, whatever a part of the page asks for.
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; media-src 'self' data: blob:; font-src 'self' data:; worker-src 'self' blob:; "
    "connect-src 'self' data: blob:; object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'self'"
)
HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-robots-tag", b"noindex"),
]


class FrontDoor:
    """Lets a request in, or answers it with a refusal; every answer has our headers."""

    def __init__(
        self, app: Any, *, names: Names, visitors: Visitors, jobs: Jobs, uploads: Path
    ) -> None:
        self.app, self.names, self.visitors, self.jobs = app, names, visitors, jobs
        self.uploads, self.arrivals = uploads, Arrivals()
        self._lanes: dict[str, tuple[asyncio.Semaphore, list[None]]] = {}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle a request."""
        if scope["type"] == "websocket":  # nothing here speaks it
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
                await _answer(refused)(scope, receive, send_with_headers)

    async def _let_in(self, scope: Any, receive: Any, send: Any) -> None:
        headers = {name.lower(): value for name, value in scope["headers"]}
        # By the second one, which a proxy says, gradio names this server in its page.
        for name in (b"host", *{b"x-forwarded-host"} & headers.keys()):
            self.names.check(headers.get(name, b"").decode("latin-1").partition(",")[0].strip())
        scope = {**scope, "headers": [one for one in scope["headers"] if one[0].lower() != SERVER]}
        if is_from_elsewhere(scope["method"], headers):
            raise Refused(403, "this server answers its own pages alone, not those of other sites")
        path = scope["path"].rstrip("/")
        if scope["method"] in ("GET", "HEAD"):
            return await self._read(path, scope, receive, send)
        if scope["method"] == "OPTIONS":
            return await self.app(scope, receive, send)
        sent = path.removeprefix(f"{API}/")
        if scope["method"] != "POST" or not (sent in POSTED or sent.startswith(CALLED)):
            raise Refused(405, "nothing can be sent to this address")
        # All of it, before anybody waits for this request.
        body = await self._taken(sent, headers, receive)
        async with self._lane(_client(scope)):
            if sent == "upload":
                await check_form(headers, body)
                # Of a number to watch it by, gradio would keep a record.
                scope = {**scope, "query_string": b""}
                self.arrivals.count(_client(scope), len(body))
                await anyio.to_thread.run_sync(make_room, self.uploads, len(body))
            else:
                self._check(sent, body, _client(scope))
            await self.app(scope, _again(body, receive), send)

    async def _read(self, path: str, scope: Any, receive: Any, send: Any) -> None:
        asked = path.removeprefix(f"{API}/")
        if "://" in asked or not (asked in READ or asked.startswith(READ_BELOW)):
            raise Refused(404, "there is nothing at this address")
        # Files are given whole: gradio trips over odd parts, and repeats the request's headers.
        if asked.startswith("file="):
            asks = [(name, value) for name, value in scope["headers"] if name.lower() != b"range"]
            scope = {**scope, "headers": asks}
        stays, reads = self.visitors.stays, self.visitors.reads
        if asked.startswith("heartbeat/"):
            with stays(asked.removeprefix("heartbeat/"), _client(scope)):
                return await self.app(scope, receive, send)
        if asked == "queue/data":
            query = parse_qs(scope["query_string"].decode("latin-1"))
            with reads(self.jobs.session_with_answers(query.get("session_hash", [""])[0])):
                return await self.app(scope, receive, send)
        if asked.startswith("call/"):
            with self.jobs.being_read(asked.rsplit("/", 1)[1]) as name, reads(name):
                return await self.app(scope, receive, send)
        await self.app(scope, receive, send)

    async def _taken(self, sent: str, headers: Any, receive: Any) -> bytes:
        """Return the body of a request, which has to be small and to come in time."""
        most = UPLOAD_BODY_BYTES if sent == "upload" else JSON_BYTES
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > most:
            raise _too_large(most)
        body = bytearray()
        try:
            with anyio.fail_after(BODY_SECONDS):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Refused(400, "the request broke off")
                    body += message.get("body", b"")
                    if len(body) > most:
                        raise _too_large(most)
                    if not message.get("more_body", False):
                        return bytes(body)
        except TimeoutError:
            raise Refused(408, f"the request had not come after {BODY_SECONDS} s") from None

    def _check(self, sent: str, body: bytes, client: str) -> None:
        """Look into JSON: well formed, few values, and from a client with not too much under way."""
        if body.count(b",") > MOST_VALUES:
            raise Refused(413, "the request holds more values than anything here takes")
        try:
            content = orjson.loads(body)
        except orjson.JSONDecodeError:
            raise Refused(400, "the request is not JSON, as RFC 8259 has it") from None
        if not isinstance(content, dict):
            raise Refused(400, "the request is JSON, but no object with names and values")
        if sent in ("queue/join", "run/predict"):
            self.jobs.check_function(content.get("fn_index"))
        session = content.get("session_hash")
        if isinstance(session, str) and sent.startswith(("run", "call", "queue")):
            self.visitors.sessions.admit(session, client)
        if sent.startswith(("call", "queue")):
            self.jobs.check_room(client)

    @asynccontextmanager
    async def _lane(self, client: str) -> AsyncIterator[None]:
        """Wait for a place among those of a client's requests that are answered at once."""
        lane, here = self._lanes.setdefault(client, (asyncio.Semaphore(AT_ONCE), []))
        if len(here) >= IN_WAITING:
            raise Refused(429, "you have sent more than is answered at a time; wait for some of it")
        here.append(None)
        try:
            async with lane:
                yield
        finally:
            here.pop()
            if not here:
                self._lanes.pop(client, None)


def _client(scope: Any) -> str:
    return scope["client"][0] if scope.get("client") else ""


def _too_large(most: int) -> Refused:
    return Refused(413, f"the request is larger than the {most >> 10} KB that are taken here")


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


def _answer(refused: Refused) -> Response:
    body = json.dumps({"detail": refused.sentence})
    headers = {"connection": "close"}  # of a body that was not read, the rest is not waited for
    return Response(body, refused.status, headers, "application/json")


# Close connections that send nothing, never finish a request's headers, or do not read their answers.

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
