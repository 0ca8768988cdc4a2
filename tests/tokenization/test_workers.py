"""Parallel work over processes: a failure costs only its own task, and only a task's own time counts against it."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tokenization.processes import processors
from tokenization.workers import AHEAD_ELSEWHERE, Bounds, Failed, as_done, in_order

LATE = 60  # seconds


def answers_of(work: Callable[[Any], Any], tasks: Iterable[Any], **how: Any) -> list[Any]:
    with closing(in_order(work, tasks, **how)) as answers:
        return [*answers]


def in_time(holds: Callable[[], bool]) -> bool:
    """Wait for a condition, and return whether it holds in time."""
    limit = time.monotonic() + LATE
    while not holds() and time.monotonic() < limit:
        time.sleep(0.02)
    return holds()


def square(number: int) -> int:
    time.sleep(0.02 * (number % 3))  # so that answers come out of order
    return number * number


def dies_at(fatal: dict[int, str], number: int) -> int:
    match fatal.get(number):
        case "signal":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "exit":
            os._exit(3)
        case "silent exit":
            os._exit(0)
        case "work for ever":
            while True:
                pass
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
    assert answers_of(square, range(40), workers=2) == [n * n for n in range(40)]
    assert answers_of(square, range(5), workers=0) == [0, 1, 4, 9, 16]


def first_is_last(folder: Path, number: int) -> int:
    """Finish the first task after the others."""
    assert number or in_time(lambda: (folder / "others done").exists())
    return number


def test_answers_come_as_they_are_done(tmp_path: Path):
    found = []
    with closing(as_done(partial(first_is_last, tmp_path), range(3), workers=2)) as answers:
        for answer in answers:
            found.append(answer)
            if len(found) == 2:
                (tmp_path / "others done").touch()
    assert found == [(1, 1), (2, 2), (0, 0)]


def test_a_failure_costs_only_its_own_task():
    fatal = {1: "signal", 4: "exit", 5: "silent exit", 7: "bug", 8: "memory", 9: "error"}
    expected = {
        1: "it ended the process twice (signal 11)",
        4: "it ended the process twice (exit code 3)",
        5: "it ended the process twice (exit code 0)",
        7: "a fault of this program: KeyError: 'lost'",
        8: "it takes more memory than is available",
        9: "that is too much",
    }
    bounds = Bounds(memory_bytes=2 << 30)
    found = answers_of(partial(dies_at, fatal), range(12), workers=2, bounds=bounds)
    assert found == [Failed(expected[n]) if n in expected else n for n in range(12)]


def killed_once(folder: Path, number: int) -> int:
    """Die once, like a process that the system kills when memory runs out, whatever its task."""
    if number == 3 and not (folder / "killed").exists():
        (folder / "killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def test_a_task_is_repeated_after_its_process_was_killed_from_outside(tmp_path: Path):
    assert answers_of(partial(killed_once, tmp_path), range(6), workers=2) == [*range(6)]
    assert (tmp_path / "killed").exists()


@pytest.mark.parametrize("how", ["work for ever", "hang"])
def test_a_task_that_takes_too_long_fails(how: str):
    """The other answers are not checked: on a busy machine, any task can take as long."""
    found = answers_of(partial(dies_at, {1: how}), range(3), workers=1, bounds=Bounds(seconds=0.2))
    assert found[1] == Failed("it takes longer than 0.2 seconds")
    assert len(found) == 3


def works_for(seconds: float) -> float:
    """Use processor time."""
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass
    return seconds


def test_only_the_processor_time_of_each_task_counts():
    tasks = [0.3, 0.3, 0.3]  # together, these would be late
    assert answers_of(works_for, tasks, workers=1, bounds=Bounds(seconds=0.6)) == tasks


def surroundings(folder: Path, _: int) -> tuple[int, str | None]:
    """Return the process and its number of threads, once two processes are at work."""
    (folder / str(os.getpid())).touch()
    in_time(lambda: len(list(folder.iterdir())) > 1)
    return os.getpid(), os.environ.get("OMP_NUM_THREADS")


def test_two_workers_are_two_processes_that_share_the_processors(tmp_path: Path, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    found = answers_of(partial(surroundings, tmp_path), range(8), workers=2)
    own, threads = ({*each} for each in zip(*found, strict=True))
    assert len(own - {os.getpid()}) == len(own) == 2
    assert threads == {str(max(1, processors() // 2))}
    assert "OMP_NUM_THREADS" not in os.environ


def wait_long(folder: Path, number: int) -> None:
    """Signal that the process runs, and wait."""
    (folder / f"{number}").touch()
    time.sleep(60)


def keep_interpreter(folder: Path, number: int) -> None:
    """Signal that the process runs, and let no other thread of it run, as a renderer of sound does."""
    (folder / f"{number}").touch()
    re.match("(a+)+$", "a" * 40 + "b")  # takes hours


PROGRAM = """
from functools import partial
from pathlib import Path
import sys
from tokenization.workers import in_order
from tests.tokenization import test_workers
work = getattr(test_workers, sys.argv[2])
try:
    list(in_order(partial(work, Path(sys.argv[1])), [0, 1], workers=2))
except KeyboardInterrupt:
    sys.exit(130)
"""


BUSY = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere they end after the call")


@pytest.mark.parametrize(
    ("ending", "work"),
    [
        ("interrupt", wait_long),
        pytest.param("kill", wait_long, marks=pytest.mark.long),
        pytest.param("kill", keep_interpreter, marks=BUSY),
    ],
)
def test_processes_end_with_their_parent(tmp_path: Path, ending: str, work: Callable[..., None]):
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path), work.__name__],
        start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert in_time(lambda: len(list(tmp_path.glob("[01]"))) == 2)
    if ending == "interrupt":
        os.killpg(program.pid, signal.SIGINT)  # as a terminal does
    else:
        program.kill()
    # All processes hold this pipe open, so it closes when the last one ends.
    assert program.communicate(timeout=120) == (None, b"")
    assert program.returncode == (130 if ending == "interrupt" else -signal.SIGKILL)


def test_an_executor_does_the_tasks_of_which_one_that_fails_costs_only_itself():
    fatal = {3: "bug", 5: "error"}
    with ThreadPoolExecutor(3) as executor:
        found = answers_of(partial(dies_at, fatal), range(8), workers=executor)
        assert answers_of(square, range(9), workers=executor) == [n * n for n in range(9)]
    assert [n for n, answer in enumerate(found) if isinstance(answer, Failed)] == [3, 5]
    assert (found[3].is_fault, found[5]) == (True, Failed("that is too much"))


def test_an_executor_gets_only_some_tasks_ahead_and_loses_those_left_over():
    given = []
    tasks = (given.append(n) or n for n in range(9 * AHEAD_ELSEWHERE))
    with ThreadPoolExecutor(1) as executor:
        with closing(as_done(abs, tasks, workers=executor)) as answers:
            assert next(answers)[0] in range(AHEAD_ELSEWHERE)
            assert len(given) == AHEAD_ELSEWHERE
        assert executor.submit(abs, -1).result() == 1
