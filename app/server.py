"""The server under the page: quiet to the outside, flat in memory; its start and end."""

from __future__ import annotations

import ctypes
import gc
import os
import socket
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

IN_LINE = 64  # requests that wait; more are told to come later
M_ARENA_MAX, M_MMAP_THRESHOLD = -8, -3  # of mallopt
LARGE_BYTES = 1 << 21  # given back the moment it is free; with 128 KB, a prompt takes 0.1 s longer
GIVE_BACK_SECONDS = 30


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


def allow_many_connections() -> None:
    """Let as many files be open as the system lets this process have: each connection is one."""
    if sys.platform != "win32":
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        with suppress(ValueError, OSError):  # some systems name a limit that they do not grant
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


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
    known_as: Sequence[str] = (),
) -> None:
    """Serve the page until interrupted; `say` is called with sentences for the terminal."""
    from app.names import Names
    from app.quick_start import without_stubs
    from app.server_folder import delete_left_behind
    from app.session import Sessions
    from app.tunnel import TunnelError, public_address
    from app.wishes import sentence

    if port is not None and not free(host, port):
        raise ValueError(f"port {port} of {host} cannot be had; choose another with --port")
    keep_memory_flat()
    allow_many_connections()
    delete_left_behind()
    sessions, studio, names = Sessions(), None, Names(host, known_as)
    try:
        be_quiet_outside(sessions.folder, host)
        with without_stubs():
            from app.web import open_page
        blocks, studio = open_page(
            sessions,
            model=model,
            host=host,
            port=port,
            names=names,
            soundfont=soundfont,
            browser=browser,
        )
        say(f"The page is at {blocks.local_url} (Ctrl-C ends it).")
        threading.Thread(target=studio.shelf.warm, daemon=True).start()
        if share:
            try:
                address = public_address(blocks)
                names.add(address)
                say(f"For everyone, it is at {address}.")
            except TunnelError as error:
                say(sentence(error))
        threading.Event().wait()
    finally:
        if studio is not None:
            studio.turns.close()
        sessions.close()
