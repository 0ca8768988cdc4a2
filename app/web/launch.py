"""Start to serve the page: gradio with our own routes, limits, sentences for errors and middleware around it.

Here are also the page's frame, and what its scripts know from the start.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import gradio as gr
from fastapi.exception_handlers import http_exception_handler
from fastapi.exceptions import RequestValidationError
from gradio.exceptions import InvalidPathError
from gradio.route_utils import FnIndexInferError
from gradio.themes import Base
from gradio_client.utils import is_file_obj, is_http_url_like, traverse
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from app.audio import AudioError, default_soundfont
from app.web.actions import PageActions
from app.web.api import Api, add_api, add_desk_api
from app.web.composing.composer import Composer
from app.web.composing.requests import MOST_BARS, MOST_VARIATIONS, offered
from app.web.offered_models import EXAMPLES, OfferedModels, language_of_example
from app.web.server.front_door import UPLOAD_BYTES, FrontDoor, close_slow_connections
from app.web.server.jobs import IN_LINE, THREADS, Jobs, let_ends_meet, spare
from app.web.server.names import Names
from app.web.server.sessions import MOST_SESSIONS, Sessions, Visitors
from app.web.server.uploads import delete_broken_off, forget_deleted
from musicgen.common.processes import FULL
from musicgen.generation.sampling import MUSICAL
from tokenization.wording import sentence

TITLE = "musicgen"
ASSETS = Path(__file__).parent.parent / "assets"
PLAYERS = {"remi": "piano", "groove": "trio", "ensemble": "band"}  # by language
STYLES = ("tokens", "page", "roll", "desk", "small")  # in the order of use


def theme() -> Base:
    """Return colours and the system's own fonts: none is fetched."""
    sans = ["system-ui", "-apple-system", "Segoe UI", "Roboto", "Noto Sans", "sans-serif"]
    mono = ["ui-monospace", "Consolas", "DejaVu Sans Mono", "monospace"]
    base = Base(
        primary_hue="blue", neutral_hue="slate", radius_size="lg", font=sans, font_mono=mono
    )
    # Against white, gradio's own shades are too faint to be read by everybody.
    return base.set(
        body_text_color_subdued="#5d6879",
        block_info_text_color="#5d6879",
        button_primary_background_fill="#2a66c4",
        button_primary_background_fill_hover="#22549f",
        slider_color="#2a66c4",
        slider_color_dark="#6ea4ff",
    )


# The soundfont that the page plays with: served from this machine, and kept by the browser.

KEPT = "public, max-age=31536000, immutable"  # what lies there never changes under its address


def soundfont_route(address: str, soundfont: Path | None) -> Route:
    """Return the path of the soundfont, among the page's other files."""

    async def answer(_: Request) -> Response:
        try:
            path = soundfont or default_soundfont()
        except AudioError as error:
            return PlainTextResponse(str(error), 404)
        headers = {"Cache-Control": KEPT}
        return FileResponse(path, media_type="application/octet-stream", headers=headers)

    return Route(f"/{address}/soundfont.sf2", answer)


class KeptFiles(StaticFiles):
    """Files under an address that changes with them."""

    def file_response(self, *values, **named) -> Response:
        """Return a file for the browser to keep."""
        response = super().file_response(*values, **named)
        response.headers["Cache-Control"] = KEPT
        return response


# What the page's head holds, written into the HTML itself (ASGI middleware).
#
# gradio hands a head to its own scripts, which put it on the page when they have started: the desk would wait for
# them.


class HeadInHtml:
    """Adds to the head of the page; everything else goes through as it is."""

    def __init__(self, app: Any, *, head: str) -> None:
        self.app, self.head = app, head.encode()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle a request."""
        if scope["type"] != "http" or scope["path"].strip("/"):
            return await self.app(scope, receive, send)
        start: dict[str, Any] = {}
        parts: list[bytes] = []

        async def gathered(message: Any) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
                return
            parts.append(message.get("body", b""))
            if not message.get("more_body"):
                body = b"".join(parts).replace(b"<head>", b"<head>" + self.head, 1)
                kept = [(n, v) for n, v in start["headers"] if n.lower() != b"content-length"]
                start["headers"] = [*kept, (b"content-length", str(len(body)).encode())]
                await send(start)
                await send({**message, "body": body})

        await self.app(scope, receive, gathered)


# What goes wrong with a request, as a sentence to its sender, and logged only as far as that is useful.

FAULT = "The server failed at this request; its log says how."
FULL_DISK = "The disk of the server is full; tell who runs it, or try again in a while."


def tell_errors(blocks: Any, answered: Callable[[str | None], None]) -> None:
    """Let gradio's blocks answer values that they do not take with a sentence, and a fault of ours with another.

    `answered` is called with the session's name once a call has its whole answer.
    """
    read, process = blocks.preprocess_data, blocks.process_api

    @functools.wraps(read)
    async def reading(function: Any, inputs: Any, *values: Any, **named: Any) -> Any:
        try:
            traverse(inputs, _check_place, is_file_obj)
            return await read(function, inputs, *values, **named)
        except gr.Error as error:
            error.print_exception = False
            raise
        except Exception as error:  # of a component that trips over what it is not for
            message = "a value is of another kind than is wanted"
            if isinstance(error, (InvalidPathError, _ElsewhereError)):
                message = "this file was not sent to this server: upload it first"
            elif isinstance(error, ValueError):
                message = str(error)
            elif _is_of_full_disk(error):
                message = FULL_DISK
            raise gr.Error(sentence(message[:200]), print_exception=False) from None

    @functools.wraps(process)
    async def processing(*values: Any, **named: Any) -> Any:
        more = False
        try:
            answer = await process(*values, **named)
            more = answer["is_generating"]
            return answer
        except gr.Error:
            raise
        except Exception as error:
            if _is_of_full_disk(error):
                raise gr.Error(FULL_DISK, print_exception=False) from None
            raise gr.Error(FAULT) from error
        finally:
            if not more:
                answered(named.get("session_hash"))

    blocks.preprocess_data, blocks.process_api = reading, processing


def _is_of_full_disk(error: Exception) -> bool:
    return isinstance(error, OSError) and error.errno in FULL


class _ElsewhereError(Exception):
    """A file that is none here; what is at an address gradio would fetch, however large."""


def _check_place(file: Any) -> None:
    if is_http_url_like(file["path"]) or not os.path.isfile(file["path"]):
        raise _ElsewhereError


async def tell_fault(_: Request, error: Exception) -> JSONResponse:
    """Answer a request that failed for a fault of ours; gradio's own for a name that it does not know is none."""
    unknown = isinstance(error, FnIndexInferError)
    message = "There is no endpoint of that name." if unknown else FAULT
    return JSONResponse({"detail": message}, 404 if unknown else 500)


async def tell_disk(_: Request, error: Exception) -> JSONResponse:
    """Answer a request whose file there is no room for."""
    if not _is_of_full_disk(error):
        raise error
    return JSONResponse({"detail": FULL_DISK}, 507)


async def refuse_values(_: Request, error: Any) -> JSONResponse:
    """Answer a request whose names or values are not those that are wanted, without repeating them."""
    places = [".".join(str(part)[:40] for part in one["loc"][1:]) for one in error.errors()[:3]]
    named = ", ".join(place.encode("ascii", "replace").decode() for place in places if place)
    return JSONResponse(
        {"detail": f"The request lacks a value, or has a wrong one: {named or 'all of it'}."}, 422
    )


async def refuse_reading(request: Request, error: Any) -> Response:
    """Answer who asks for what there is not, or is not for them, without repeating the name."""
    if request.method in ("GET", "HEAD") and error.status_code in (403, 404):
        message = "There is nothing at this address, or nothing that is given out."
        return JSONResponse({"detail": message}, error.status_code)
    return await http_exception_handler(request, error)


async def refuse_names(request: Request, error: Exception) -> JSONResponse:
    """Answer a call by names, of the endpoint and its values, that gradio trips over."""
    if "/call/v2/" not in request.url.path:
        raise error
    message = "There is no endpoint of that name, or it takes values of other names."
    return JSONResponse({"detail": message}, 404)


HANDLERS: dict[Any, Any] = {
    RequestValidationError: refuse_values,
    HTTPException: refuse_reading,
    FnIndexInferError: tell_fault,
    KeyError: refuse_names,
    TypeError: refuse_names,
    OSError: tell_disk,
    Exception: tell_fault,
}


# What is swept away every other second for as long as the server runs.

SWEEP_SECONDS = 2


def sweeping(jobs: Jobs, uploads: Path) -> Any:
    """Return what a server sweeps by, from its start to its end (an ASGI lifespan)."""

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        task = asyncio.create_task(_sweep(jobs, uploads))
        try:
            yield
        finally:
            task.cancel()

    return lifespan


async def _sweep(jobs: Jobs, uploads: Path) -> None:
    while True:
        await asyncio.sleep(SWEEP_SECONDS)
        await jobs.end_abandoned()
        await asyncio.to_thread(delete_broken_off, uploads)
        forget_deleted(jobs.blocks.temp_file_sets)


def open_page(
    sessions: Sessions, composer: Composer, *, model: str | None, host: str, port: int | None, names: Names,
    soundfont: Path | None, browser: bool,
) -> tuple[gr.Blocks, PageActions]:  # fmt: skip
    """Build the page and start to serve it."""
    actions, visitors = PageActions(OfferedModels(model), composer), Visitors(sessions)
    uploads = sessions.folder / "gradio"
    address = f"musicgen/{version()}"
    blocks = page(actions, visitors, soundfont)
    jobs = Jobs(visitors, blocks)
    tell_errors(blocks, jobs.answered)
    # Whoever asks waits in line: a request past it would be bounded by nothing.
    blocks.queue(max_size=IN_LINE, default_concurrency_limit=4, api_open=False)
    let_ends_meet(blocks._queue, jobs.answered)
    spare(blocks._queue)
    close_slow_connections()
    blocks.launch(
        server_name=host,
        server_port=port,
        share=False,  # serve.py
        inbrowser=browser,
        prevent_thread_lock=True,
        max_threads=THREADS,
        state_session_capacity=2 * MOST_SESSIONS,  # gradio's own record of each visitor, 0.1 MB
        quiet=True,
        show_error=False,
        ssr_mode=False,
        pwa=False,
        run_history=False,
        footer_links=["api"],
        max_file_size=UPLOAD_BYTES,
        theme=theme(),
        app_kwargs={
            "routes": [
                soundfont_route(address, soundfont),
                Mount(f"/{address}", KeptFiles(directory=ASSETS)),
            ],
            "middleware": [
                Middleware(FrontDoor, names=names, visitors=visitors, jobs=jobs, uploads=uploads),
                Middleware(HeadInHtml, head=head(address, actions.models)),
            ],
            "exception_handlers": HANDLERS,
            "lifespan": sweeping(jobs, uploads),
        },
    )
    return blocks, actions


def version() -> str:
    """Return a name of what the assets hold: with it in their addresses, a browser keeps none beyond an update."""
    files = sorted(path for path in ASSETS.rglob("*") if path.is_file())
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]


def head(address: str, models: OfferedModels) -> str:
    """Return what the page's head holds: what scripts need to know from the start, and what it asks for.

    The desk is drawn before gradio's own scripts are there, and stays above what they draw. Modules are named early,
    or each would wait for the one before.
    """
    facts = json.dumps(page_facts(models, address)).replace("<", "\\u003c")
    scripts = sorted(
        path.relative_to(ASSETS).as_posix()
        for path in ASSETS.rglob("*.js")
        if "vendor" not in path.parts
    )
    styles = [f'<link rel="stylesheet" href="{address}/style/{name}.css">' for name in STYLES]
    early = [f'<link rel="modulepreload" href="{address}/{name}">' for name in scripts]
    start = f'<script type="module" src="{address}/page/main.js"></script>'
    known = f'<script type="application/json" id="mg-facts">{facts}</script>'
    # Until gradio's scripts set it again, a tab would have no title.
    return "".join((f"<title>{TITLE}</title>", *styles, *early, known, start))


def page(actions: PageActions, visitors: Visitors, soundfont: Path | None = None) -> gr.Blocks:
    """Return the page's endpoints; what is seen is drawn by its scripts."""

    def leave(request: gr.Request) -> None:
        visitors.sessions.leave(str(request.session_hash))

    with gr.Blocks(title=TITLE, analytics_enabled=False, delete_cache=(600, 3600)) as blocks:
        blocks.unload(leave)
        add_desk_api(actions, visitors)
        add_api(Api(actions, visitors, soundfont))
    return blocks


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
                **offered(models, name),
            }
            for name, language in models.languages.items()
        ],
        "trained": models.trained,
        "examples": [
            {"name": name, "title": title, "language": language_of_example(name)}
            for name, title in EXAMPLES.items()
        ],
        "mostBars": MOST_BARS,
        "mostVariations": MOST_VARIATIONS,
        "sampling": {
            "temperature": MUSICAL.temperature,
            "topP": MUSICAL.top_p,
            "topK": MUSICAL.top_k or 0,
            "minP": MUSICAL.min_p,
            "recall": MUSICAL.recall,
        },
    }
