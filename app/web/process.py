"""The server process: no requests to the outside, stable memory, and an orderly end.

Its folder is locked while it runs, so that the next start can tell abandoned folders.
"""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import shutil
import socket
import stat
import sys
import tempfile
import threading
import time
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, NoReturn, TextIO

from musicgen.common.processes import open_locked

M_ARENA_MAX, M_MMAP_THRESHOLD = -8, -3  # of mallopt
LARGE_BYTES = (
    1 << 21
)  # larger blocks are returned when freed; with 128 KB, a prompt takes 0.1 s longer
GIVE_BACK_SECONDS = 10  # between returns of freed memory, which take a millisecond
COLLECTED = 3  # of these, every third collects reference cycles first
PREFIX = "musicgen-app-"
LOCK = "in-use.lock"


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


def free(host: str, port: int) -> bool:
    """Return whether a port can be bound."""
    kind = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(kind) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


class _SingleThreadStream:
    """A stream that drops what other threads than its creator write."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._speaker = stream, threading.get_ident()

    def write(self, text: str) -> int:
        """Write a text, or pretend to."""
        mine = threading.get_ident() == self._speaker
        return self._stream.write(text) if mine else len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def silence_other_threads() -> None:
    """Drop the output of all other threads, whose work fails during a shutdown."""
    logging.disable()  # its handlers keep the original streams
    sys.stdout, sys.stderr = _SingleThreadStream(sys.stdout), _SingleThreadStream(sys.stderr)  # type: ignore[assignment]


def leave(code: int) -> NoReturn:
    """End this process without waiting for its other threads.

    A normal exit of the interpreter would stop them anywhere; inside a C++ library, that aborts the process.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


class ServerFolder:
    """A temporary folder for this process, deleted by `close`."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        # Give the lock its name only once it is held, so that it never looks abandoned.
        early = self.path / f"{LOCK}.new"
        self._lock = open_locked(early, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        if self._lock is not None:
            os.replace(early, self.path / LOCK)

    def close(self) -> None:
        """Delete the folder."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
        _delete(self.path)


def delete_left_behind() -> None:
    """Delete the folders of servers that were killed.

    The system releases a lock when its process ends, however it ends. Folders without a lock file, and
    those of other users, are left alone.
    """
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):  # locked, not ours, or gone by now
            found = folder.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
                continue
            lock = open_locked(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW)
            if lock is None:
                continue
            try:
                _delete(folder)
            finally:
                os.close(lock)


def _delete(folder: Path) -> None:
    """Delete a folder, its lock last, so that the next start can finish an interrupted deletion."""
    with suppress(FileNotFoundError):
        for entry in folder.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            elif entry.name != LOCK:
                entry.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
