"""The work of a scheduler with two workers, one of which is killed: the same bytes as here, and what kills is named."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from threading import Thread

import pytest

from musicgen.common.workers.pool import in_order
from tests.training.data.sources import on_disk as disk

ROOT = Path(__file__).parents[4]
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
# Reads pieces as `musicgen data` does, but one of them ends every process that touches it, as a hole in a parser would;
# and the first to come to another kills the worker of the cluster that asked for it, as a machine does that goes down.
READER = """
import os, signal
from importlib.metadata import version
from pathlib import Path
from threading import Thread
import training.data.prepare
from training.data.prepare import spell

def read(source, language, piece):
    if piece.name == "song0.mid":
        os.kill(os.getpid(), signal.SIGSEGV)
    if piece.name == "song6.mid" and os.getppid() != int(os.environ["ALONE"]):
        if not Path("killed").exists():
            Path("killed").touch()
            os.kill(os.getppid(), signal.SIGKILL)
    return spell(source, language, piece)
"""
PREPARE = """
import os, sys
os.environ.setdefault("ALONE", str(os.getpid()))
import reader, training.data.prepare
from app.cli import main
training.data.prepare.spell = reader.read
if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(autouse=True)
def no_loop_of_the_browser() -> Iterator[None]:
    """Hide playwright's loop, which the page's tests leave running in this thread: asyncio starts no other."""
    loop = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    yield
    asyncio._set_running_loop(loop)


# A program of dask that says to be of another version.
OLD = """
import runpy, sys
import distributed.versions
distributed.versions._version_cached = lambda name: "2019.1.0"
runpy.run_module(sys.argv.pop(1), run_name="__main__")
"""


@contextmanager
def cluster(folder: Path, old: str = "") -> Iterator[str]:
    """Run a scheduler and two workers on this machine, one of the kinds in an `old` version; yield the address."""
    file = folder / "scheduler.json"
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}", "ALONE": "0"}
    shared = ["--scheduler-file", str(file), "--no-dashboard"]
    scheduler = ["dask_scheduler", "--host", "127.0.0.1", "--port", "0", *shared]
    worker = ["dask_worker", "--nthreads", "1", *shared, "--local-directory", str(folder)]
    if old == worker[0]:
        worker.append("--no-nanny")  # which would start another process, of ours
    with ExitStack() as stack:
        for program in (scheduler, worker, worker):
            runs = ["-c", OLD] if program[0] == old else ["-m"]
            started = subprocess.Popen(
                [sys.executable, *runs, f"distributed.cli.{program[0]}", *program[1:]],
                env=environment, cwd=folder, start_new_session=True, **QUIET,
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


def prepared(folder: Path, name: str, *options: str) -> tuple[bytes, bytes, list[dict[str, str]]]:
    """Prepare the songs in a program of its own; return the tokens, the pieces, and what was skipped."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}"}
    command = [sys.executable, "prepare.py", "data", "midi", "songs", name, *options]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    made = folder / name
    skipped = json.loads((made / "meta.json").read_text())["skipped"]
    return (made / "tokens.bin").read_bytes(), (made / "pieces.npz").read_bytes(), skipped


@pytest.mark.long
def test_a_worker_killed_in_the_middle_changes_nothing(tmp_path: Path):
    """Run on a real scheduler, with relative paths."""
    pytest.importorskip("distributed")
    disk.midi_folder(tmp_path / "songs", 12)
    (tmp_path / "reader.py").write_text(READER)
    (tmp_path / "prepare.py").write_text(PREPARE)
    here = prepared(tmp_path, "here", "--workers", "2")
    with cluster(tmp_path) as address:
        assert prepared(tmp_path, "there", "--scheduler", address) == here
    assert (tmp_path / "killed").exists()
    assert here[2] == [
        {"name": "song0.mid", "reason": "working on it ended the process twice (signal 11)"}
    ]


@pytest.mark.long
@pytest.mark.parametrize("old", ["dask_scheduler", "dask_worker"])
def test_a_cluster_of_another_version_is_told(old: str, tmp_path: Path):
    distributed = pytest.importorskip("distributed")
    who = "the scheduler" if old == "dask_scheduler" else r"the worker at tcp://127\.0\.0\.1:\d+"
    ours = re.escape(version("dask"))
    said = rf"^{who}.* has dask 2019\.1\.0, and here is {ours}; .*pip install dask=={ours}$"
    with cluster(tmp_path, old) as address, warnings.catch_warnings():
        warnings.simplefilter("error", distributed.versions.VersionMismatchWarning)
        with pytest.raises(ValueError, match=said):
            list(in_order(abs, [-1], workers=address))


def test_an_address_without_a_scheduler_is_told(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("musicgen.common.workers.cluster.CONNECT_SECONDS", 0.5)
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
    "said",
    [None, b"HTTP/1.1 400 Bad Request\r\n\r\n" * 99, b"\x01" + bytes(7) + b"\x00" * 64],
)
def test_what_is_no_scheduler_is_told(said: bytes | None, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("musicgen.common.workers.cluster.CONNECT_SECONDS", 0.5)
    with listening(said) as address, pytest.raises(ValueError, match="no scheduler"):
        list(in_order(abs, [-1], workers=address))


def test_without_dask_a_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ValueError, match=r"pip install 'musicgen\[cluster\]'"):
        list(in_order(abs, [-1], workers="tcp://127.0.0.1:8786"))
