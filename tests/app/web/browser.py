"""Chromium and a server for the tests of the page."""

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# Without background requests, so that every request is the page's.
OPTIONS = [
    "--no-sandbox", "--no-first-run", "--disable-background-networking", "--disable-component-update",
    "--disable-dev-shm-usage", "--disable-gpu", "--disable-sync", "--autoplay-policy=no-user-gesture-required",
]  # fmt: skip
MODEL = "untrained:tiny:ensemble"  # fast, and with all abilities
READY_SECONDS = 150
SAYS = "The page is at"
PORTS = 5  # to try, since another program may take one first
WAIT = 60_000  # milliseconds for actions of the page, on a busy machine


def chromium() -> str:
    """Return the path of Chromium; if there is none, fail in CI and skip elsewhere."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        sentence = "the page is tested in a browser, and there is none: install Chromium"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(sentence)
    return found


def run_apart(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine in a thread without an event loop: the browser of other tests keeps one in this thread."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


def free_port() -> int:
    """Return an unused port."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@dataclass(frozen=True)
class Server:
    """A running `musicgen app`."""

    address: str
    process: subprocess.Popen
    log: IO[bytes]

    def said(self) -> str:
        """Return its log so far; the position in it is that at which the process writes."""
        file = self.log.fileno()
        return os.pread(file, os.fstat(file).st_size, 0).decode()


@contextmanager
def started(
    *arguments: str, port: int | None = None, module: str = "app.cli", **environment: str
) -> Iterator[Server]:
    """Run `musicgen app`, or that of another module, with additional environment variables."""
    root = Path(__file__).parents[3]
    path = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
    inherited = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    for left in reversed(range(1 if port else PORTS)):
        chosen = port or free_port()
        command = [sys.executable, "-m", module, "app", "--port", str(chosen), "--no-browser"]
        with tempfile.TemporaryFile() as log:
            process = subprocess.Popen(
                [*command, *arguments], stdout=log, stderr=log, env={**inherited, **environment}
            )
            server = Server(f"http://127.0.0.1:{chosen}", process, log)
            try:
                if not _is_up(server):
                    if left and "is taken or not permitted" in server.said():
                        continue
                    pytest.fail(f"the server did not come up: {server.said()[-2000:]}")
                yield server
                return
            finally:
                process.terminate()
                process.wait(120)  # slow on a busy machine


@contextmanager
def serving(*arguments: str, module: str = "app.cli") -> Iterator[str]:
    """Run `musicgen app`, or that of another module; yield its URL."""
    with started(*arguments, module=module) as server:
        yield server.address


def _is_up(server: Server) -> bool:
    """Wait until a server answers; return whether it does."""
    late = time.monotonic() + READY_SECONDS
    while server.process.poll() is None and time.monotonic() < late:
        try:
            urllib.request.urlopen(server.address, timeout=20).close()
            if SAYS in server.said():  # it is announced to other programs then
                return True
        except OSError:
            pass
        time.sleep(0.1)
    return False
