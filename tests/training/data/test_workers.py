import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from functools import partial
from pathlib import Path

from musicgen.common.processes import processors
from training.data.workers import Failed, in_order


def square(number: int) -> int:
    time.sleep(0.02 * (number % 3))  # answers come out of order
    return number * number


def dies_at(fatal: dict[int, str], number: int) -> int:
    match fatal.get(number):
        case "signal":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "exit":
            os._exit(3)
        case "hang":
            time.sleep(60)
        case "bug":
            raise KeyError("lost")
        case "memory":
            bytearray(8 << 30)
    return number


def test_answers_come_in_the_order_of_the_tasks():
    with closing(in_order(square, range(40), workers=2)) as answers:
        assert [*answers] == [n * n for n in range(40)]


def test_without_workers_the_same_is_done_here():
    assert [*in_order(square, range(5), workers=0)] == [0, 1, 4, 9, 16]


def test_whatever_befalls_a_task_costs_that_task_alone():
    fatal = {1: "signal", 4: "exit", 7: "bug", 8: "memory"}
    work = partial(dies_at, fatal)
    with closing(in_order(work, range(10), workers=2)) as running:
        answers = [*running]
    expected = {
        1: "reading it ended the process (signal 11)",
        4: "reading it ended the process (exit code 3)",
        7: "a fault of this program: KeyError: 'lost'",
        8: "a fault of this program: MemoryError: ",
    }
    assert answers == [Failed(expected[n]) if n in expected else n for n in range(10)]


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


def test_processes_end_with_the_one_that_started_them(tmp_path: Path):
    program = tmp_path / "program.py"
    program.write_text(
        "import os, sys, time\n"
        "from training.data.workers import in_order\n"
        "def pid(number):\n"
        "    return os.getpid()\n"
        "if __name__ == '__main__':\n"
        "    for answer in in_order(pid, range(10**9), workers=1):\n"
        "        print(answer, flush=True)\n"
        "        time.sleep(60)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    with subprocess.Popen(
        [sys.executable, program], stdout=subprocess.PIPE, text=True, env=environment
    ) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        parent.kill()
    for _ in range(100):
        if (
            not Path(f"/proc/{worker}/cmdline").exists()
            or not Path(f"/proc/{worker}/cmdline").read_bytes()
        ):
            return
        time.sleep(0.1)
    os.kill(worker, signal.SIGKILL)
    raise AssertionError("the worker outlives its parent")


def test_there_is_a_processor():
    assert processors() >= 1
