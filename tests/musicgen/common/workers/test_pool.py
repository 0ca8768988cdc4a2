"""Work spread over processes: what befalls one task is that task's alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from musicgen.common.processes import CONTEXT, processors
from musicgen.common.workers.pool import as_done, at_most, in_order
from musicgen.common.workers.process import Bounds, Failed, Worker

LATE = 60  # seconds


def square(number: int) -> int:
    time.sleep(0.02 * (number % 3))  # answers come out of order
    return number * number


def dies_at(fatal: dict[int, str], number: int) -> int:
    match fatal.get(number):
        case "signal":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "exit":
            os._exit(3)
        case "silent exit":
            os._exit(0)
        case "hang":
            time.sleep(60)
        case "bug":
            raise KeyError("lost")
        case "error":
            raise ValueError("that is\ntoo much")
        case "memory":
            bytearray(8 << 30)
    return number


def test_answers_come_in_the_order_of_the_tasks():
    with closing(in_order(square, range(40), workers=2)) as answers:
        assert [*answers] == [n * n for n in range(40)]


def first_is_last(folder: Path, number: int) -> int:
    """Note that a task is done; the first is not before the others are."""
    if number == 0:
        assert in_time(lambda: (folder / "2").exists())
        time.sleep(0.5)  # its answer is on its way
    (folder / str(number)).touch()
    return number


def test_or_as_they_are_done(tmp_path: Path):
    with closing(as_done(partial(first_is_last, tmp_path), range(3), workers=2)) as answers:
        assert [*answers] == [(1, 1), (2, 2), (0, 0)]


def test_without_workers_the_same_is_done_here():
    assert [*in_order(square, range(5), workers=0)] == [0, 1, 4, 9, 16]


def test_there_are_no_more_workers_than_tasks_and_one_is_this_process():
    assert [at_most(4, tasks) for tasks in (0, 1, 2, 9)] == [0, 0, 2, 4]
    assert at_most(1, 9) == 0
    assert at_most("tcp://HOST:8786", 1) == "tcp://HOST:8786"


def test_whatever_befalls_a_task_costs_that_task_alone():
    fatal = {1: "signal", 4: "exit", 5: "silent exit", 7: "bug", 8: "memory", 9: "error"}
    work = partial(dies_at, fatal)
    with closing(in_order(work, range(12), workers=2, memory_bytes=2 << 30)) as running:
        answers = [*running]
    expected = {
        1: "working on it ended the process twice (signal 11)",
        4: "working on it ended the process twice (exit code 3)",
        5: "working on it ended the process twice (exit code 0)",
        7: "a fault of this program: KeyError: 'lost'",
        8: "it takes more memory than there is",
        9: "that is too much",
    }
    assert answers == [Failed(expected[n]) if n in expected else n for n in range(12)]


def killed_once(folder: Path, number: int) -> int:
    """Do as a process does that the system ends when memory runs out, wherever it is at that moment."""
    if number == 3 and not (folder / "killed").exists():
        (folder / "killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def test_nothing_is_lost_with_a_process_that_others_have_ended(tmp_path: Path):
    with closing(in_order(partial(killed_once, tmp_path), range(6), workers=2)) as answers:
        assert [*answers] == [*range(6)]
    assert (tmp_path / "killed").exists()


def test_a_task_that_takes_too_long_is_given_up():
    """The others are not looked at: on a busy machine, anything may take two seconds."""
    work = partial(dies_at, {1: "hang"})
    with closing(in_order(work, range(3), workers=1, limit_seconds=2.0)) as running:
        answers = [*running]
    assert answers[1] == Failed("it takes longer than 2 seconds")
    assert len(answers) == 3


def test_tasks_are_taken_as_they_are_needed():
    taken = []

    def tasks():
        for number in range(10_000):
            taken.append(number)
            yield number

    with closing(in_order(square, tasks(), workers=1)) as answers:
        assert next(answers) == 0
    assert len(taken) < 100


def surroundings(folder: Path, _: int) -> tuple[int, str | None]:
    """Say in which process this is, once two are at work."""
    (folder / str(os.getpid())).touch()
    in_time(lambda: len(list(folder.iterdir())) > 1)
    return os.getpid(), os.environ.get("OMP_NUM_THREADS")


def test_two_workers_are_two_processes_that_share_the_processors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    with closing(in_order(partial(surroundings, tmp_path), range(8), workers=2)) as running:
        answers = [*running]
    assert len({process for process, _ in answers}) == 2  # type: ignore[misc]
    assert os.getpid() not in {process for process, _ in answers}  # type: ignore[misc]
    assert {threads for _, threads in answers} == {str(max(1, processors() // 2))}  # type: ignore[misc]
    assert "OMP_NUM_THREADS" not in os.environ


def wait_long(folder: Path, number: int) -> None:
    """Say that this process is there, and be in no hurry."""
    (folder / f"{number}").touch()
    time.sleep(60)


PROGRAM = """
from functools import partial
from pathlib import Path
import sys
from musicgen.common.workers.pool import in_order
from tests.musicgen.common.workers.test_pool import wait_long
try:
    list(in_order(partial(wait_long, Path(sys.argv[1])), [0, 1], workers=2))
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
    assert program.communicate(timeout=120) == (None, b"")
    assert program.returncode == (130 if ending == "interrupt" else -signal.SIGKILL)


def in_time(holds: Callable[[], bool], seconds: float = 60.0) -> bool:
    """Return whether something comes to hold."""
    limit = time.monotonic() + seconds
    while not holds() and time.monotonic() < limit:
        time.sleep(0.02)
    return holds()


def test_there_is_a_processor():
    assert processors() >= 1


def test_a_worker_that_cannot_start_again_says_why_and_ends_quietly(
    monkeypatch: pytest.MonkeyPatch,
):
    worker: Worker[int, int] = Worker(partial(dies_at, {1: "exit"}), Bounds())
    worker.give(1)

    def no_more(_: object) -> None:
        raise BlockingIOError("no more processes")

    monkeypatch.setattr(CONTEXT.Process, "start", no_more)
    assert worker.connection.poll(LATE)
    with pytest.raises(BlockingIOError, match="no more"):
        worker.take()
    worker.stop()
    worker.stop()
