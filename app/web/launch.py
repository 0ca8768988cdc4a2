"""Start to serve the page: gradio with our own routes, limits and middleware around it."""

from __future__ import annotations

from pathlib import Path

import gradio as gr
from starlette.middleware import Middleware
from starlette.routing import Mount

from app.web.actions import PageActions
from app.web.composing.composer import Composer
from app.web.errors import HANDLERS, tell_errors
from app.web.head_in_html import HeadInHtml
from app.web.offered_models import OfferedModels
from app.web.page import ASSETS, head, page, version
from app.web.server.capacity import IN_LINE, THREADS
from app.web.server.front_door import UPLOAD_BYTES, FrontDoor
from app.web.server.jobs import Jobs, let_ends_meet, spare
from app.web.server.names import Names
from app.web.server.sessions import MOST_SESSIONS, Sessions
from app.web.server.slow_connections import close_slow_connections
from app.web.server.sweeping import sweeping
from app.web.server.visitors import Visitors
from app.web.soundfont import KeptFiles, soundfont_route
from app.web.theme import theme


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
        share=False,  # server/tunnel.py
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
