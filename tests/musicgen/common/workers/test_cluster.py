"""The work of a scheduler with two workers, one of which is killed: the same as here, and what kills is named."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from musicgen.common.workers import pool as cluster
from musicgen.common.workers.pool import in_order
from musicgen.common.workers.process import Failed

ROOT = Path(__file__).parents[4]
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


@pytest.fixture(autouse=True)
def no_loop_of_the_browser() -> Iterator[None]:
    """Hide playwright's loop, which the page's tests leave running in this thread: asyncio starts no other."""
    loop = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    yield
    asyncio._set_running_loop(loop)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a scheduler and two workers on this machine; yield the address."""
    pytest.importorskip("distributed")
    folder = tmp_path_factory.mktemp("cluster")
    file = folder / "scheduler.json"
    shared = ["--scheduler-file", str(file), "--no-dashboard"]
    scheduler = ["dask_scheduler", "--host", "127.0.0.1", "--port", "0", *shared]
    worker = ["dask_worker", "--nthreads", "1", *shared, "--local-directory", str(folder)]
    with ExitStack() as stack:
        for program, *options in (scheduler, worker, worker):
            started = subprocess.Popen(
                [sys.executable, "-m", f"distributed.cli.{program}", *options],
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                cwd=folder, start_new_session=True, **QUIET,
            )  # fmt: skip
            stack.callback(started.wait)
            stack.callback(end, started)
        while not (file.exists() and file.stat().st_size):
            time.sleep(0.05)
        yield json.loads(file.read_text())["address"]


def end(program: subprocess.Popen) -> None:
    """End a program and what it has started."""
    with suppress(ProcessLookupError):
        os.killpg(program.pid, signal.SIGKILL)


def square(number: int) -> int:
    """End every process that touches one number, as a hole in a parser would, and once another's worker with it."""
    if number == 0:
        os.kill(os.getpid(), signal.SIGSEGV)
    if number == 6 and not Path("killed").exists():
        Path("killed").touch()
        os.kill(os.getppid(), signal.SIGKILL)  # as a machine does that goes down
    return number * number


@pytest.mark.long
def test_a_worker_killed_in_the_middle_changes_nothing(address: str, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where the workers' processes go too
    wanted = [
        n * n if n else Failed("working on it ended the process twice (signal 11)")
        for n in range(12)
    ]
    assert list(in_order(square, range(12), workers=address)) == wanted
    assert Path("killed").exists()


@pytest.mark.long
@pytest.mark.parametrize("who", ["the scheduler", r"the worker at tcp://127\.0\.0\.1:\d+"])
def test_a_cluster_of_another_version_is_told(who: str, address: str, monkeypatch):
    versions: Any = pytest.importorskip("distributed.versions")
    real = versions.get_versions()
    ours = {**real, "packages": {**real["packages"], "dask": "2019.1.0"}}
    monkeypatch.setattr(versions, "get_versions", lambda **_: ours)
    if "worker" in who:
        monkeypatch.setattr(cluster, "_versions_at", lambda _: ours)
    theirs = real["packages"]["dask"]
    said = rf"^{who}.* has dask {theirs}, and here is 2019\.1\.0; .*pip install dask==2019\.1\.0$"
    with pytest.raises(ValueError, match=said):
        list(in_order(abs, [-1], workers=address))


def test_an_address_without_a_scheduler_is_told(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("musicgen.common.workers.pool.CONNECT_SECONDS", 0.5)
    with pytest.raises(ValueError, match=r"no scheduler answers at tcp://127\.0\.0\.1:1$"):
        list(in_order(abs, [-1], workers="tcp://127.0.0.1:1"))
    for address in ("nowhere", "tcp://", "ftp://127.0.0.1:1", "tcp://a b:1", "tcp://a:x"):
        with pytest.raises(ValueError, match=f"{address} is no address of a scheduler"):
            list(in_order(abs, [-1], workers=address))


@contextmanager
def listening(said: bytes | None) -> Iterator[str]:
    """Run a server that says something to whoever comes, or nothing for ever; yield its address."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        kept = []

        def answer() -> None:
            with suppress(OSError):
                while True:
                    kept.append(server.accept()[0])
                    if said is not None:
                        kept[-1].sendall(said)

        Thread(target=answer, daemon=True).start()
        yield f"tcp://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        for connection in kept:
            connection.close()


@pytest.mark.parametrize(
    "said", [None, b"HTTP/1.1 400 Bad Request\r\n\r\n" * 99, b"\x01" + bytes(7) + b"\x00" * 64]
)
def test_what_is_no_scheduler_is_told(said: bytes | None, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("musicgen.common.workers.pool.CONNECT_SECONDS", 0.5)
    with listening(said) as address, pytest.raises(ValueError, match="no scheduler"):
        list(in_order(abs, [-1], workers=address))


def test_without_dask_a_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ValueError, match=r"pip install '\.\[cluster\]' in the clone"):
        list(in_order(abs, [-1], workers="tcp://127.0.0.1:8786"))
