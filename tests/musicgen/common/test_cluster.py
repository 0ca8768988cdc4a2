"""A scheduler with two workers, one of which is killed, gives the answers of this machine."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from musicgen.common.workers import Failed, in_order

ROOT = Path(__file__).parents[3]
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


@pytest.fixture(autouse=True)
def no_loop_of_the_browser() -> Iterator[None]:
    """Hide playwright's event loop, which the page's tests leave running in this thread and asyncio would find."""
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
    """Square a number, but crash on 0, as a bug in a parser would, and kill the worker once on 6."""
    if number == 0:
        os.kill(os.getpid(), signal.SIGSEGV)
    if number == 6 and not Path("killed").exists():
        Path("killed").touch()
        os.kill(os.getppid(), signal.SIGKILL)  # like a machine that goes down
    return number * number


@pytest.mark.long
def test_a_killed_worker_changes_no_answer(address: str, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the workers' processes change to it too
    ended = Failed("it ended the process twice (signal 11)")
    found = list(in_order(square, range(12), workers=address))
    assert found == [ended, *(n * n for n in range(1, 12))]
    assert Path("killed").exists()


def test_an_address_without_a_scheduler_is_refused(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("musicgen.common.workers.CONNECT_SECONDS", 0.5)
    with pytest.raises(ValueError, match=r"no scheduler answers at tcp://127\.0\.0\.1:1 "):
        list(in_order(abs, [-1], workers="tcp://127.0.0.1:1"))


def test_without_dask_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ValueError, match=r"pip install '\.\[cluster\]' in the clone"):
        list(in_order(abs, [-1], workers="tcp://127.0.0.1:8786"))
