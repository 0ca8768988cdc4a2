"""The server of the page: the files for the browser, the endpoints of the page's scripts, and the start.

The page is our own HTML; its scripts send the file along with each request, since the server stores nothing of a
visitor. Requests to other addresses are passed on to gradio's endpoints for programs (programs.py).
"""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
import webbrowser
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from socket import socket
from typing import Any

import anyio
import orjson
import uvicorn
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException
from starlette.middleware import Middleware
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import (
    FileResponse,
    HTMLResponse,
    PlainTextResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import BaseRoute, Mount, Route, Router
from starlette.staticfiles import StaticFiles

from app.audio import AudioError, default_soundfont, render_to
from app.web.actions import PageActions
from app.web.composing.composer import Composer
from app.web.composing.opened_files import FileReader
from app.web.composing.readers import Readers
from app.web.desk import ACTIONS, Answer, Asked, Desk, File
from app.web.errors import HANDLERS, client_of, error_message
from app.web.guard import WRITE, WRITE_BYTES, Guard, Names, Room, make_room
from app.web.offered_models import OfferedModels
from app.web.one_step import OneStep
from app.web.page import ASSETS, html, page_facts, version
from app.web.process import url_of
from app.web.programs import THREADS, Launched, Programs
from tokenization.wording import sentence

KEPT = "public, max-age=31536000, immutable"  # for files whose URL changes with their content
COMPRESSED = [
    Middleware(GZipMiddleware, compresslevel=4)
]  # a higher level takes longer than it saves
STREAMED = ("write", "sound")  # endpoints whose answers are sent as they are made

# What a browser loads: the page, its files, and the soundfont.


class KeptFiles(StaticFiles):
    """Files whose URL changes with their content."""

    def file_response(self, *values, **named) -> Response:
        """Return a file that the browser may cache."""
        response = super().file_response(*values, **named)
        response.headers["Cache-Control"] = KEPT
        return response


def page_routes(models: OfferedModels, soundfont: Path | None) -> list[BaseRoute]:
    """Return the addresses of the page, its files and the soundfont."""
    address = f"musicgen/{version()}"
    page = html(address, page_facts(models, address))

    async def front(_: Request) -> Response:
        return HTMLResponse(page, headers={"Cache-Control": "no-cache"})

    async def played_with(_: Request) -> Response:
        try:
            path = soundfont or default_soundfont()
        except AudioError as error:
            raise HTTPException(404, sentence(str(error))) from None
        return FileResponse(
            path, media_type="application/octet-stream", headers={"Cache-Control": KEPT}
        )

    async def icon(_: Request) -> Response:
        return Response(status_code=204, headers={"Cache-Control": KEPT})

    async def robots(_: Request) -> Response:
        return PlainTextResponse("User-agent: *\nDisallow: /\n")

    return [
        Route("/", front, middleware=COMPRESSED),
        Route(f"/{address}/soundfont.sf2", played_with),
        Route("/favicon.ico", icon),  # browsers ask for it by themselves
        Route("/robots.txt", robots),
        Mount(f"/{address}", KeptFiles(directory=ASSETS), middleware=COMPRESSED),
    ]


# The endpoints of the page's scripts: each takes a form with a JSON request and an optional file.


async def read_form(request: Request) -> Asked:
    """Return the request and the file in a form."""
    try:
        async with request.form(max_files=1, max_fields=1, max_part_size=WRITE_BYTES) as form:
            said, file = form.get("ask", "{}"), form.get("file")
            data = b"" if file is None or isinstance(file, str) else await file.read()
            name = "" if file is None or isinstance(file, str) else file.filename or ""
    except MultiPartException as error:
        raise HTTPException(400, error.message) from None
    try:
        plain = orjson.loads(said if isinstance(said, str) else "")
    except orjson.JSONDecodeError:
        plain = None
    if not isinstance(plain, dict):
        raise HTTPException(400, "The request is not a JSON object.")
    return Asked(plain=plain, data=data, name=name, client=client_of(request))


class Endpoints:
    """The requests of the page's scripts (desk.py) as endpoints."""

    def __init__(self, desk: Desk, soundfont: Path | None, files: Path) -> None:
        self.desk, self.soundfont, self.files = desk, soundfont, files

    def routes(self) -> list[BaseRoute]:
        """Return the addresses of all actions."""
        return [
            Route(
                f"/desk/{name}",
                self.sound if name == "sound" else partial(self.answer, getattr(self.desk, name)),
                methods=["POST"],
                middleware=None if name in STREAMED else COMPRESSED,
            )
            for name in ACTIONS
        ]

    async def answer(self, action: Callable[[Asked], Answer], request: Request) -> Response:
        """Answer a request by an action; views are streamed, one per line, and a disconnect stops them."""
        answer = await run_in_threadpool(action, await read_form(request))
        if answer is None:
            return Response(status_code=204)
        if isinstance(answer, File):
            return Response(answer.data, media_type=answer.kind)
        if isinstance(answer, dict):
            plain = orjson.dumps(answer, option=orjson.OPT_SERIALIZE_NUMPY)
            return Response(plain, media_type="application/json")
        return StreamingResponse(_lines(answer), media_type="application/x-ndjson")

    async def sound(self, request: Request) -> Response:
        """Render a music file as WAV."""
        data = await run_in_threadpool(self.desk.midi, await read_form(request))
        await run_in_threadpool(make_room, self.files)
        path = self.files / f"{uuid.uuid4().hex}.wav"
        waits = asyncio.create_task(_until_gone(request))
        try:
            await run_in_threadpool(self._render, client_of(request), path, data, waits)
        finally:
            waits.cancel()
        sent = BackgroundTask(path.unlink, missing_ok=True)  # unless the client disconnects
        return FileResponse(path, media_type="audio/wav", background=sent)

    def _render(self, client: str, path: Path, data: bytes, waits: asyncio.Task[None]) -> None:
        with self.desk.actions.place(client):
            render_to(path, data, self.soundfont, lambda: not waits.done())


async def _until_gone(request: Request) -> None:
    """Wait until the client of a request, whose body has been read, disconnects."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _lines(views: Iterator[dict[str, Any]]) -> Iterator[bytes]:
    """Yield views as lines of JSON, and an error as the last line."""
    try:
        for view in views:
            yield orjson.dumps(view, option=orjson.OPT_SERIALIZE_NUMPY) + b"\n"
    except Exception as error:
        yield orjson.dumps({"error": error_message(error)}) + b"\n"


class Page:
    """ASGI middleware that answers the addresses of the page, and passes other requests on."""

    def __init__(self, app: Any, *, routes: list[BaseRoute]) -> None:
        own = Router(routes, redirect_slashes=False, default=app)
        self._app, self._own = app, ExceptionMiddleware(own, HANDLERS)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle a request."""
        app = self._own if scope["type"] == "http" else self._app
        await app(scope, receive, send)


@asynccontextmanager
async def _with_threads(_: Any) -> AsyncIterator[None]:
    """Allow one thread per concurrent request."""
    anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
    yield


class Served:
    """The server as the page runs it; gradio loads on request."""

    public = None

    def __init__(
        self, of_api: tuple[Any, ...], around: list[Middleware], *, listener: socket, host: str, browser: bool
    ) -> None:  # fmt: skip
        """Serve in a thread; the middleware `around` answers the page's own requests."""
        app: Any = Programs(*of_api)
        for one in reversed(around):
            app = one.cls(app, *one.args, **one.kwargs)
        outer = Router(default=app, lifespan=_with_threads)
        self.address = url_of(host, listener)
        server = uvicorn.Server(uvicorn.Config(outer, log_level="warning"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        while not server.started:
            if not thread.is_alive():
                raise OSError("the server did not start; its log has the reason")
            time.sleep(0.001)
        if browser:
            webbrowser.open(self.address)

    def wait(self) -> None:
        """Wait for Ctrl-C."""
        threading.Event().wait()


def open_page(
    composer: Composer, files: Path, *, model: str | None, host: str, listener: socket, names: Names,
    soundfont: Path | None, browser: bool, share: bool, mcp: bool, token: str = "",
) -> tuple[PageActions, Served | Launched]:  # fmt: skip
    """Start the server on a bound socket; with a token, only programs that know it write in one step."""
    readers, room = Readers(), Room()
    actions = PageActions(
        OfferedModels(model), composer, FileReader(readers.ask), place=readers.place
    )
    files.mkdir(mode=0o700, exist_ok=True)
    routes = page_routes(actions.models, soundfont)
    routes += Endpoints(Desk(actions), soundfont, files).routes()
    routes.append(Route(WRITE, OneStep(actions).answer, methods=["POST"]))
    around = [
        Middleware(Guard, names=names, room=room, files=files, token=token),
        Middleware(Page, routes=routes),
    ]
    of_api = actions, room, files, soundfont
    if not share and not mcp:
        return actions, Served(of_api, around, listener=listener, host=host, browser=browser)
    port = listener.getsockname()[1]
    listener.close()  # gradio opens its own
    return actions, Launched(
        of_api, around, host=host, port=port, lifespan=_with_threads, browser=browser,
        share=share, mcp=mcp,
    )  # fmt: skip
