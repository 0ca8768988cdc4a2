"""Work shared out over processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest

from evaluation.study.worker_pool import share_out
from musicgen.common.processes import processors


def work(folder: Path, tasks: Sequence[int], tell: Callable[[], None]) -> None:
    """Write a file a task, which says in which process it was done; some tasks go wrong."""
    for task in tasks:
        if task == 13:
            raise ValueError("13 is too much")
        if task == 14:
            os._exit(3)
        (folder / f"{task}").write_text(f"{os.getpid()} {os.environ.get('OMP_NUM_THREADS')}")
        tell()


def done(folder: Path) -> dict[int, int]:
    """Return the process that did each task."""
    return {int(path.name): int(path.read_text().split()[0]) for path in folder.iterdir()}


def test_one_worker_is_this_process(tmp_path: Path):
    told = []
    share_out(partial(work, tmp_path), [0, 1, 2], 1, lambda: told.append(len(done(tmp_path))))
    assert done(tmp_path) == dict.fromkeys(range(3), os.getpid())
    assert told == [1, 2, 3]
    share_out(partial(work, tmp_path), [], 4, lambda: pytest.fail("there was nothing to do"))


def test_two_workers_are_two_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    told = []
    share_out(partial(work, tmp_path), list(range(5)), 2, lambda: told.append(None))
    processes = done(tmp_path)
    assert processes.keys() == set(range(5))
    assert len(told) == 5
    assert len({*processes.values()}) == 2
    assert os.getpid() not in processes.values()
    threads = {path.read_text().split()[1] for path in tmp_path.iterdir()}
    assert threads == {str(max(1, processors() // 2))}
    assert "OMP_NUM_THREADS" not in os.environ


def test_an_error_in_a_process_is_an_error_here(tmp_path: Path):
    with pytest.raises(ValueError, match="13 is too much"):
        share_out(partial(work, tmp_path), [1, 13], 2, lambda: None)


def test_a_process_that_ends_is_noticed(tmp_path: Path):
    with pytest.raises(ValueError, match="ended with exit code 3; with one worker it may go well"):
        share_out(partial(work, tmp_path), [14, 1], 2, lambda: None)


def wait_long(folder: Path, tasks: Sequence[int], tell: Callable[[], None]) -> None:
    """Say that this process is there, and be in no hurry."""
    (folder / f"{tasks[0]}").touch()
    time.sleep(60)


PROGRAM = """
from functools import partial
from pathlib import Path
import sys
from evaluation.study.worker_pool import share_out
from tests.evaluation.study.test_worker_pool import wait_long
try:
    share_out(partial(wait_long, Path(sys.argv[1])), [0, 1], 2, lambda: None)
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.mark.parametrize("ending", ["interrupt", "kill"])
def test_processes_end_with_the_one_that_started_them(tmp_path: Path, ending: str):
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert in_time(lambda: len(list(tmp_path.glob("[01]"))) == 2)
    if ending == "interrupt":
        os.killpg(program.pid, signal.SIGINT)  # as a terminal does
    else:
        program.kill()
    # Each process holds this pipe open, so it ends when the last of them has ended.
    assert program.communicate(timeout=30) == (None, b"")
    assert program.returncode == (130 if ending == "interrupt" else -signal.SIGKILL)


def in_time(holds: Callable[[], bool], seconds: float = 60.0) -> bool:
    """Return whether something comes to hold."""
    limit = time.monotonic() + seconds
    while not holds() and time.monotonic() < limit:
        time.sleep(0.02)
    return holds()


def test_there_is_a_processor():
    assert processors() >= 1
