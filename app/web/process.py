"""The process of a server: quiet to the outside, flat in memory, and ended in order.

Its folder is locked while it runs, so that the next start knows which ones were left behind.
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

from musicgen.common.processes import CAN_LOCK, open_locked

M_ARENA_MAX, M_MMAP_THRESHOLD = -8, -3  # of mallopt
LARGE_BYTES = 1 << 21  # given back the moment it is free; with 128 KB, a prompt takes 0.1 s longer
GIVE_BACK_SECONDS = 10  # between two times at which memory is given back, a millisecond …
COLLECTED = 3  # … of which each third looks for rings first
PREFIX = "musicgen-app-"
LOCK = "in-use.lock"


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
    a quarter of all that it holds: with the libraries and models here, that is after thousands.
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


class _OfOneThread:
    """A stream that writes what one thread says, and drops what others do."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._speaker = stream, threading.get_ident()

    def write(self, text: str) -> int:
        """Write a text, or seem to."""
        mine = threading.get_ident() == self._speaker
        return self._stream.write(text) if mine else len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def silence_other_threads() -> None:
    """Let the calling thread alone write, as before an end: the others lose what they work with, and fail anyhow."""
    logging.disable()  # its handlers keep the streams that they began with
    sys.stdout, sys.stderr = _OfOneThread(sys.stdout), _OfOneThread(sys.stderr)  # type: ignore[assignment]


def leave(code: int) -> NoReturn:
    """End this process, whatever its other threads are in the middle of.

    The interpreter's own end stops them wherever they are; inside a library in C++, that aborts the process.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


class ServerFolder:
    """A folder for this process alone, until it is closed; `path` is where."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        # The lock has its name only when it is held, and nobody takes it for one let go.
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

    The system lets go of a lock when its process ends, however it ends. Without a lock in it, or of
    another user, a folder is none of ours.
    """
    if not CAN_LOCK:  # not a Unix: what a killed server leaves is left to the system
        return
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):  # locked, another's, or gone by now
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
    """Delete a folder, its lock last: interrupted, the next start goes on with it."""
    with suppress(FileNotFoundError):
        for entry in folder.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            elif entry.name != LOCK:
                entry.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
