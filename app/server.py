"""The server under the page: limits on requests, headers that keep the browser at home, start and end."""

from __future__ import annotations

import ctypes
import gc
import os
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

MOST_BODY_BYTES = 4 << 20  # a file of 1 MB travels as 1.4 MB of text
IN_LINE = 64  # requests that wait; more are told to come later
UPLOAD_BYTES = 1 << 20
M_ARENA_MAX, M_MMAP_THRESHOLD = -8, -3  # of mallopt
LARGE_BYTES = 1 << 21  # given back the moment it is free; with 128 KB, a prompt takes 0.1 s longer
GIVE_BACK_SECONDS = 30
# The browser fetches nothing that this server does not have, whatever a part of the page asks for.
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; media-src 'self' data: blob:; font-src 'self' data:; worker-src 'self' blob:; "
    "connect-src 'self' data: blob:; object-src 'none'; base-uri 'self'; form-action 'self'"
)
HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-robots-tag", b"noindex"),
]


class Guard:
    """Refuses requests with too large a body, and adds headers to every answer (ASGI middleware)."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        length = next(
            (value for name, value in scope["headers"] if name == b"content-length"), b"0"
        )
        if not length.isdigit() or int(length) > MOST_BODY_BYTES:
            return await _too_large(send)
        taken = 0

        async def receive_some() -> Any:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            return {"type": "http.disconnect"} if taken > MOST_BODY_BYTES else message

        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", []), *HEADERS]}
            await send(message)

        return await self.app(scope, receive_some, send_with_headers)


def be_quiet_outside(folder: Path, host: str = "127.0.0.1") -> None:
    """Let gradio ask nobody outside, and keep its files in a folder of ours; call before importing it."""
    # It asks its own page whether it is up, and would ask a proxy for it.
    direct = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    for name in ("no_proxy", "NO_PROXY"):
        os.environ[name] = ",".join(filter(None, (direct, "127.0.0.1", "localhost", "::1", host)))
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    os.environ["GRADIO_TEMP_DIR"] = str(folder / "gradio")


def keep_memory_flat() -> None:
    """Let threads share two heaps, and now and then give back what nobody holds any more.

    Each with its own heap, freed memory would stay with threads that are gone. Music that comes and
    goes leaves holes that are too small for the next: the heaps grew by a megabyte a request. And a
    request that is over lies in rings of objects, which Python by itself looks for only once they are
    a quarter of all that it holds: beside the libraries and models here, that is after thousands.
    """
    glibc = ctypes.CDLL(None) if sys.platform == "linux" else None
    tune, trim = getattr(glibc, "mallopt", None), getattr(glibc, "malloc_trim", None)
    if tune is not None:
        tune(M_ARENA_MAX, 2)
        tune(M_MMAP_THRESHOLD, LARGE_BYTES)

    def give_back() -> None:
        while True:
            time.sleep(GIVE_BACK_SECONDS)
            gc.collect()
            if gc.get_freeze_count() == 0:
                gc.freeze()  # what is there to stay is not looked through again: 0.1 s each time
            if trim is not None:
                trim(0)

    threading.Thread(target=give_back, daemon=True).start()


def free(host: str, port: int) -> bool:
    """Say whether a port can be served at."""
    kind = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(kind) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def serve(
    *,
    model: str | None,
    host: str,
    port: int | None,
    share: bool,
    soundfont: Path | None,
    browser: bool,
    say: Any,
) -> None:
    """Serve the page until interrupted; `say` is called with sentences for the terminal."""
    from app.quick_start import without_stubs
    from app.server_folder import delete_left_behind
    from app.session import Sessions
    from app.tunnel import TunnelError, public_address
    from app.wishes import sentence

    if port is not None and not free(host, port):
        raise ValueError(f"port {port} of {host} cannot be had; choose another with --port")
    keep_memory_flat()
    delete_left_behind()
    sessions, studio = Sessions(), None
    try:
        be_quiet_outside(sessions.folder, host)
        with without_stubs():
            from app.web import open_page
        blocks, studio = open_page(
            sessions,
            model=model,
            host=host,
            port=port,
            soundfont=soundfont,
            browser=browser,
        )
        say(f"The page is at {blocks.local_url} (Ctrl-C ends it).")
        threading.Thread(target=studio.shelf.warm, daemon=True).start()
        if share:
            try:
                say(f"For everyone, it is at {public_address(blocks)}.")
            except TunnelError as error:
                say(sentence(error))
        threading.Event().wait()
    finally:
        if studio is not None:
            studio.turns.close()
        sessions.close()


async def _too_large(send: Any) -> None:
    await send({"type": "http.response.start", "status": 413, "headers": HEADERS})
    await send(
        {"type": "http.response.body", "body": b"The request is larger than this server takes."}
    )
