"""The server process: no requests to the outside, stable memory, and an orderly end."""

from __future__ import annotations

import ctypes
import gc
import os
import socket
import sys
import threading
import time
from itertools import count
from pathlib import Path
from typing import NoReturn

M_ARENA_MAX, M_MMAP_THRESHOLD = -8, -3  # of mallopt
LARGE_BYTES = (
    1 << 21
)  # larger blocks are returned when freed; with 128 KB, a prompt takes 0.1 s longer
GIVE_BACK_SECONDS = 10  # between returns of freed memory, which take a millisecond
FIRST_PORT, PORTS = 7860, 100  # tried without --port
UNREAD_SECONDS = 20.0  # for which an answer may wait to be read
WAITING = 2048  # connections that the system holds until they are accepted, as in uvicorn
COLLECTED = 3  # of these, every third collects reference cycles first


def keep_gradio_local(folder: Path, host: str = "127.0.0.1") -> None:
    """Keep gradio from contacting other servers, and set its folder for files; call before importing it."""
    # It checks that its own page is up, and would do so through a proxy.
    direct = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    for name in ("no_proxy", "NO_PROXY"):
        os.environ[name] = ",".join(filter(None, (direct, "127.0.0.1", "localhost", "::1", host)))
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    os.environ["GRADIO_TEMP_DIR"] = str(folder / "gradio")


def keep_memory_flat() -> None:
    """Let threads share two heaps, and return freed memory to the system from time to time.

    With a heap per thread, freed memory would stay with finished threads, and fragmentation made the
    heaps grow by a megabyte per request. Finished requests are reference cycles, which Python collects
    by itself only when they are a quarter of all objects: with the libraries and models here, after
    thousands of requests.
    """
    glibc = ctypes.CDLL(None) if sys.platform == "linux" else None
    tune, trim = getattr(glibc, "mallopt", None), getattr(glibc, "malloc_trim", None)
    if tune is not None:
        tune(M_ARENA_MAX, 2)
        tune(M_MMAP_THRESHOLD, LARGE_BYTES)

    def give_back() -> None:
        for times in count(1):
            time.sleep(GIVE_BACK_SECONDS)
            if times % COLLECTED == 0:
                gc.collect()
            if times == COLLECTED:
                gc.freeze()  # exempt long-lived objects, whose traversal takes 0.1 s each time
            if trim is not None:
                trim(0)

    threading.Thread(target=give_back, daemon=True).start()


def listen(host: str, port: int | None) -> socket.socket:
    """Return a socket that listens on a port, or on the first free one from 7860 on.

    Its connections end if the other side reads nothing more for a while; what was to be answered then stops.
    """
    error: OSError | None = None
    for chosen in range(FIRST_PORT, FIRST_PORT + PORTS) if port is None else (port,):
        listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # on Linux, inherited by its connections
            milliseconds = round(1000 * UNREAD_SECONDS)
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
        try:
            listener.bind((host, chosen))
            listener.listen(
                WAITING
            )  # now, since two programs can bind a port, but not listen on it
            return listener
        except OSError as failed:
            listener.close()
            error = failed
    which = f"port {port}" if port is not None else f"each port from {FIRST_PORT} on"
    raise ValueError(
        f"{which} of {host} is taken or not permitted; choose another --port"
    ) from error


def url_of(host: str, listener: socket.socket) -> str:
    """Return the URL of a listening socket."""
    name = "localhost" if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
    return f"http://{name}:{listener.getsockname()[1]}/"


def leave(code: int) -> NoReturn:
    """End this process without waiting for its other threads.

    A normal exit of the interpreter would stop them anywhere; inside a C++ library, that aborts the process.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
