"""A scheduler with two workers, one of which is killed, gives the answers of this machine."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from musicgen.common.workers import Failed, in_order


@pytest.fixture(autouse=True)
def no_loop_of_the_browser() -> Iterator[None]:
    """Hide playwright's event loop, which the page's tests leave running in this thread and asyncio would find."""
    loop = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    yield
    asyncio._set_running_loop(loop)


@pytest.fixture
def address() -> Iterator[str]:
    """Run a scheduler and two workers on this machine; yield the address."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None
    ) as cluster:
        yield cluster.scheduler_address


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
