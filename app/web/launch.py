"""The server of the page: what a browser loads, what the page's scripts ask for, and how all of it starts.

The server is gradio's (`gradio.Server`, a FastAPI application). Programs call it by gradio's endpoints (api.py); the
page is our own HTML, and its scripts send each request with the file that it is about: the server keeps nothing of a
visitor.
"""

from __future__ import annotations

import hashlib
import io
import json
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, redirect_stdout
from dataclasses import asdict
from pathlib import Path
from typing import Any

import anyio
import gradio as gr
import orjson
from fastapi.exceptions import RequestValidationError
from gradio.route_utils import FnIndexInferError
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import (
    FileResponse,
    HTMLResponse,
    JSONResponse,
    Response,
    StreamingResponse,
)
from starlette.staticfiles import StaticFiles

from app.audio import AudioError, default_soundfont, render_to
from app.web.actions import PageActions
from app.web.api import FAULT, Api, add_api, client_of, is_of_full_disk, told
from app.web.composing.composer import Composer
from app.web.composing.requests import (
    MOST_BARS,
    MOST_VARIATIONS,
    MusicRequest,
    lacking,
    request_from,
)
from app.web.guard import DESK, FULL_DISK, MOST_AT_WORK, UPLOAD_BYTES, Guard, Names, Room, make_room
from app.web.offered_models import EXAMPLES, OfferedModels
from musicgen.generation.sampling import CONTROLS, MUSICAL
from tokenization.wording import sentence

KEPT = "public, max-age=31536000, immutable"  # what lies there never changes under its address
THREADS = MOST_AT_WORK + 48  # each request at work holds one, and others are answered meanwhile
VISITORS_OF_GRADIO = 200  # of which it keeps a record, 0.1 MB each; calls of programs are some


# What a browser loads: the page, its files, and the soundfont that it plays with.

TITLE = "musicgen"
ASSETS = Path(__file__).parent.parent / "assets"
PLAYERS = {"remi": "piano", "groove": "trio", "ensemble": "band"}  # by language
STYLES = ("tokens", "page", "roll", "desk", "small")  # in the order of use


def version() -> str:
    """Return a name of what the assets hold: with it in their addresses, a browser keeps none beyond an update."""
    files = sorted(path for path in ASSETS.rglob("*") if path.is_file())
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]


def html(address: str, models: OfferedModels) -> str:
    """Return the page; modules are named early, or each would wait for the one before."""
    facts = json.dumps(page_facts(models, address)).replace("<", "\\u003c")
    scripts = sorted(
        path.relative_to(ASSETS).as_posix()
        for path in ASSETS.rglob("*.js")
        if "vendor" not in path.parts
    )
    head = (
        f"<title>{TITLE}</title>",
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">',
        *(f'<link rel="stylesheet" href="{address}/style/{name}.css">' for name in STYLES),
        *(f'<link rel="modulepreload" href="{address}/{name}">' for name in scripts),
        f'<script type="application/json" id="mg-facts">{facts}</script>',
        f'<script type="module" src="{address}/page/main.js"></script>',
    )
    return f'<!doctype html><html lang="en"><head>{"".join(head)}</head><body></body></html>'


def page_facts(models: OfferedModels, address: str) -> dict[str, Any]:
    """Return what the page's scripts need to know from the start."""
    return {
        "assets": address,
        "models": [
            {
                "name": name,
                "player": PLAYERS[language.name],
                "language": language.name,
                "idea": language.beginnings() or None,
                "parts": [*language.parts],
                "lacks": lacking(language),
            }
            for name, language in models.languages.items()
        ],
        "trained": models.trained,
        "examples": [{"name": name, "title": title} for name, title in EXAMPLES.items()],
        "mostBars": MOST_BARS,
        "mostVariations": MOST_VARIATIONS,
        "sampling": [
            {"name": name, "value": getattr(MUSICAL, name) or 0, **asdict(control)}
            for name, control in CONTROLS.items()
        ],
    }


class KeptFiles(StaticFiles):
    """Files under an address that changes with them."""

    def file_response(self, *values, **named) -> Response:
        """Return a file for the browser to keep."""
        response = super().file_response(*values, **named)
        response.headers["Cache-Control"] = KEPT
        return response


def add_page(server: gr.Server, models: OfferedModels, soundfont: Path | None) -> None:
    """Serve the page, its files and the soundfont."""
    address = f"musicgen/{version()}"
    page = html(address, models)

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

    server.add_route("/", front, methods=["GET", "HEAD"])
    server.add_route(f"/{address}/soundfont.sf2", played_with, methods=["GET", "HEAD"])
    server.mount(f"/{address}", KeptFiles(directory=ASSETS))


# What the page's scripts ask for: a form of what is asked, in JSON, and of the file that it is about.

Asked = tuple[dict[str, Any], bytes, str]  # what is asked; the file, or nothing, and its name


async def asked(request: Request) -> Asked:
    """Return what a form asks for."""
    async with request.form(max_files=1, max_fields=1, max_part_size=UPLOAD_BYTES) as form:
        said, file = form.get("ask", "{}"), form.get("file")
        data = b"" if file is None or isinstance(file, str) else await file.read()
        name = "" if file is None or isinstance(file, str) else file.filename or ""
    try:
        plain = orjson.loads(said if isinstance(said, str) else "")
    except orjson.JSONDecodeError:
        plain = None
    if not isinstance(plain, dict):
        raise HTTPException(400, "What is asked for is no JSON object with names and values.")
    return plain, data, name


class Desk:
    """The endpoints of the page's scripts, over the page's actions."""

    def __init__(self, actions: PageActions, soundfont: Path | None, files: Path) -> None:
        self.actions, self.soundfont, self.files = actions, soundfont, files

    async def open(self, request: Request) -> Response:
        """Return a file, an example or nothing, as the page shows it."""
        what, data, name = await asked(request)
        model, example = str(what.get("model") or ""), str(what.get("example") or "")
        if data:
            of_file = data, name or "it", model, client_of(request)
            opened = await run_in_threadpool(self.actions.open, *of_file)
        elif example:
            opened = await run_in_threadpool(self.actions.open_example, example, model)
        else:
            opened = await run_in_threadpool(self.actions.nothing, model)
        plain = orjson.dumps(opened, option=orjson.OPT_SERIALIZE_NUMPY)
        return Response(plain, media_type="application/json")

    async def write(self, request: Request) -> Response:
        """Give music as it is written, a view a line; the one who hangs up ends it."""
        plain, data, name = await asked(request)
        wanted, job = request_from(plain), str(plain.get("job") or "")
        title = _title(wanted, name)
        views = self.actions.write(client_of(request), wanted, data or None, title, job)
        return StreamingResponse(_lines(views), media_type="application/x-ndjson")

    async def ahead(self, request: Request) -> Response:
        """Read what may be written to next."""
        plain, data, name = await asked(request)
        wanted = request_from(plain)
        of_prompt = client_of(request), wanted, data, _title(wanted, name)
        await run_in_threadpool(self.actions.read_ahead, *of_prompt)
        return Response(status_code=204)

    async def stop(self, request: Request) -> Response:
        """End a request; what there is stays."""
        self.actions.stop(str((await asked(request))[0].get("job") or ""))
        return Response(status_code=204)

    async def sound(self, request: Request) -> Response:
        """Play a file of music: a WAV file."""
        _, data, name = await asked(request)
        as_midi = self.actions.reader.as_midi
        data = await run_in_threadpool(as_midi, data, name, client_of(request))
        await run_in_threadpool(make_room, self.files)
        path = self.files / f"{uuid.uuid4().hex}.wav"
        await run_in_threadpool(render_to, path, data, self.soundfont)
        gone = BackgroundTask(path.unlink, missing_ok=True)  # but for one that is hung up on
        return FileResponse(path, media_type="audio/wav", background=gone)

    async def score(self, request: Request) -> Response:
        """Write a file of music as MusicXML; a score stays as it is."""
        _, data, name = await asked(request)
        notated = self.actions.reader.notated
        written = await run_in_threadpool(notated, data, name, client_of(request))
        return Response(written, media_type="application/vnd.recordare.musicxml+xml")


def _title(wanted: MusicRequest, name: str) -> str:
    """Return what the piece is called now, of the kind that its file was sent as: a tune stays one."""
    return f"{wanted.title or 'Your file'}{Path(name).suffix or '.'}"


def _lines(views: Iterator[dict[str, Any]]) -> Iterator[bytes]:
    """Yield views as lines of JSON, and at last what went wrong."""
    try:
        for view in views:
            yield orjson.dumps(view, option=orjson.OPT_SERIALIZE_NUMPY) + b"\n"
    except Exception as error:
        yield orjson.dumps({"error": told(error)}) + b"\n"


async def _tell_fault(_: Request, error: Exception) -> JSONResponse:
    """Answer a request that failed for a fault of ours, or for want of room."""
    full = is_of_full_disk(error)
    return JSONResponse({"detail": FULL_DISK if full else FAULT}, 507 if full else 500)


async def _refuse_work(request: Request, error: Exception) -> JSONResponse:
    """Tell the page's scripts what is wrong with what they ask for."""
    if not request.url.path.startswith("/desk/"):
        raise error
    return JSONResponse({"detail": told(error)}, 400)


async def _refuse_values(_: Request, error: Any) -> JSONResponse:
    """Answer a request whose names or values are not those that are wanted, without repeating them."""
    return JSONResponse({"detail": "The request lacks a value, or has a wrong one."}, 422)


async def _refuse(_: Request, error: Any) -> Response:
    """Answer who asks for what there is not, or is not for them, without repeating the name."""
    said = str(error.detail)
    if error.status_code in (403, 404) or "\x1b" in said or len(said) > 150:
        said = "There is nothing at this address, or nothing that is given out."
    return JSONResponse({"detail": said}, error.status_code)


async def _refuse_names(request: Request, error: Exception) -> JSONResponse:
    """Answer a call by names, of the endpoint and its values, that gradio trips over."""
    if not request.url.path.startswith("/gradio_api/"):
        return await _tell_fault(request, error)
    message = "There is no endpoint of that name, or it takes values of other names."
    return JSONResponse({"detail": message}, 404)


HANDLERS: dict[Any, Any] = {
    RequestValidationError: _refuse_values,
    HTTPException: _refuse,
    FnIndexInferError: _refuse_names,
    ValueError: _refuse_work,
    KeyError: _refuse_names,
    TypeError: _refuse_names,
    OSError: _tell_fault,
    Exception: _tell_fault,
}


@asynccontextmanager
async def _with_threads(_: Any) -> AsyncIterator[None]:
    """Give requests as many threads as can be at work."""
    anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
    yield


def open_page(
    composer: Composer, files: Path, *, model: str | None, host: str, port: int | None, names: Names,
    soundfont: Path | None, browser: bool, share: bool, mcp: bool,
) -> tuple[PageActions, str, str | None]:  # fmt: skip
    """Start to serve; return the actions, the page's address, and its public one, if it was asked for and given."""
    actions, room = PageActions(OfferedModels(model), composer), Room()
    files.mkdir(mode=0o700, exist_ok=True)
    guard = Middleware(Guard, names=names, room=room, files=files)
    server = gr.Server(
        title=TITLE, docs_url=None, redoc_url=None, openapi_url=None,
        middleware=[guard], exception_handlers=HANDLERS,
    )  # fmt: skip
    add_page(server, actions.models, soundfont)
    desk = Desk(actions, soundfont, files)
    for name in DESK:
        server.add_route(f"/desk/{name}", getattr(desk, name), methods=["POST"])
    add_api(server, Api(actions, room, files, soundfont))
    # gradio prints several lines on a tunnel that cannot be opened; that there is none is enough.
    with redirect_stdout(io.StringIO()):
        _, address, public = server.launch(
            server_name=host,
            server_port=port,
            share=share,
            inbrowser=browser,
            prevent_thread_lock=True,
            max_threads=THREADS,
            state_session_capacity=VISITORS_OF_GRADIO,
            quiet=True,
            ssr_mode=False,
            max_file_size=UPLOAD_BYTES,
            mcp_server=mcp,
            app_kwargs={"lifespan": _with_threads},
        )
    return actions, address, public
