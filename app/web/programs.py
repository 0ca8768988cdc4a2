"""gradio behind the page: its endpoints for programs load when somebody first asks for them.

The page itself needs no gradio, whose import takes seconds and a hundred megabytes. With --share or --mcp, gradio runs
the server, since it opens the tunnel and lists the tools.
"""

from __future__ import annotations

import asyncio
import io
import json
from contextlib import redirect_stdout
from typing import Any

from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse

from app.web.errors import HANDLERS, LOG
from app.web.guard import API, MOST_AT_WORK, UPLOAD_BYTES, Refused

TITLE = "musicgen"
THREADS = MOST_AT_WORK + 48  # one per running request, and some for quick answers
VISITORS = 200  # sessions that gradio keeps, 0.1 MB each; calls of programs count, too
CONFIG = "/config"
PATIENCE_SECONDS = 2
NOT_LOADED = "the endpoints for programs could not be loaded; the server's log has the reason"
NOT_INSTALLED = 'the endpoints for programs need gradio: pip install "symbolic-musicgen[app]"'


class Programs:
    """An ASGI application that loads gradio at the first request for one of its addresses."""

    def __init__(self, *of_api: Any) -> None:
        """Keep what `app.web.api.Api` takes until the first request."""
        self._of_api, self._app = of_api, None
        self._loading, self._ended = asyncio.Lock(), asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request on to gradio."""
        path = scope["path"]
        if path != CONFIG and not path.startswith(f"{API}/"):
            raise HTTPException(404)
        load = asyncio.ensure_future(self._load())
        if path == CONFIG and not (await asyncio.wait({load}, timeout=PATIENCE_SECONDS))[0]:
            await _late_config(load, scope, receive, send)
        else:
            await (await load)(scope, receive, send)

    async def _load(self) -> Any:
        """Return gradio's application; the first caller loads it, and the others wait."""
        async with self._loading:  # without a wait once it is loaded
            if self._app is None:
                try:
                    app = await asyncio.to_thread(_mounted, *self._of_api)
                    await self._start(app)
                except Exception as error:  # the page goes on
                    is_missing = isinstance(error, ModuleNotFoundError) and error.name == "gradio"
                    if not is_missing:
                        LOG.error("gradio cannot be loaded", exc_info=error)
                    raise Refused(503, NOT_INSTALLED if is_missing else NOT_LOADED) from None
                self._app = app
            return self._app

    async def _start(self, app: Any) -> None:
        """Run the application's start, in a task that then lives as long as the server."""
        started: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def run() -> None:
            try:
                async with app.router.lifespan_context(app):
                    started.set_result(None)
                    await self._ended.wait()
            except Exception as error:
                if started.done():
                    raise
                started.set_exception(error)

        self._running = asyncio.create_task(run())  # kept, since the loop keeps no reference
        await started


async def _late_config(load: asyncio.Future[Any], scope: Any, receive: Any, send: Any) -> None:
    """Answer with the configuration, after a space now and then while gradio loads.

    gradio_client asks for it first, and by default gives up if nothing arrives for five seconds.
    """
    kind = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 200, "headers": kind})
    while not load.done():
        await send({"type": "http.response.body", "body": b" ", "more_body": True})
        await asyncio.wait({load}, timeout=PATIENCE_SECONDS)
    try:
        app = await load
    except Refused as refused:
        body = json.dumps({"detail": refused.sentence}).encode()
        return await send({"type": "http.response.body", "body": body})

    async def send_body(message: Any) -> None:
        if message["type"] == "http.response.body":
            await send(message)

    plain = [header for header in scope["headers"] if header[0].lower() != b"accept-encoding"]
    await app({**scope, "headers": plain}, receive, send_body)


def _endpoints(*of_api: Any) -> tuple[Any, dict[str, Any]]:
    """Return the endpoints as `gr.Blocks`, and what their FastAPI application is made with."""
    import gradio as gr
    from fastapi.exceptions import RequestValidationError

    from app.web.api import Api, add_api

    async def refuse_values(_: Request, __: Exception) -> JSONResponse:
        said = "The request lacks a value or has an invalid one."
        return JSONResponse({"detail": said}, 422)

    with gr.Blocks(title=TITLE, analytics_enabled=False) as blocks:
        add_api(Api(*of_api))
    handlers = {**HANDLERS, RequestValidationError: refuse_values}
    return blocks, {
        "docs_url": None, "redoc_url": None, "openapi_url": None,
        "middleware": [Middleware(ExceptionMiddleware, handlers=handlers)],
        "exception_handlers": handlers,
    }  # fmt: skip


def _mounted(*of_api: Any) -> Any:
    """Return the endpoints as an application for another server."""
    import gradio as gr
    from fastapi import FastAPI

    blocks, settings = _endpoints(*of_api)
    blocks.max_threads, blocks.state_session_capacity = THREADS, VISITORS
    blocks.queue()  # with that number of threads
    outer = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    return gr.mount_gradio_app(
        outer, blocks, path="/", app_kwargs=settings, show_error=False,
        max_file_size=UPLOAD_BYTES, ssr_mode=False, mcp_server=False,
    )  # fmt: skip


class Launched:
    """The server as gradio runs it, with a tunnel or tools for assistants."""

    def __init__(
        self, of_api: tuple[Any, ...], around: list[Middleware], *, host: str, port: int, lifespan: Any,
        browser: bool, share: bool, mcp: bool,
    ) -> None:  # fmt: skip
        """Launch it; the middleware `around` answers the page's own requests."""
        self._blocks, settings = _endpoints(*of_api)
        settings = {**settings, "middleware": [*around, *settings["middleware"]]}
        # gradio prints several lines if a tunnel cannot be opened; `musicgen app` reports it in one.
        with redirect_stdout(io.StringIO()):
            _, self.address, self.public = self._blocks.launch(
                server_name=host,
                server_port=port,
                share=share,
                inbrowser=browser,
                prevent_thread_lock=True,
                max_threads=THREADS,
                state_session_capacity=VISITORS,
                quiet=True,
                ssr_mode=False,
                max_file_size=UPLOAD_BYTES,
                mcp_server=mcp,
                app_kwargs={**settings, "lifespan": lifespan},
            )

    def wait(self) -> None:
        """Wait for Ctrl-C, upon which gradio ends its tunnel."""
        with redirect_stdout(io.StringIO()):
            self._blocks.block_thread()
        raise KeyboardInterrupt
