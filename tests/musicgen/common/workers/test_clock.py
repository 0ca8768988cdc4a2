"""What is held against a task: work, and standing still; not that the machine was asleep, or busy with others."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import closing
from itertools import count

import pytest

from musicgen.common.workers import process
from musicgen.common.workers.pool import in_order
from musicgen.common.workers.process import Failed

LIMIT = 300.0
Looks = Callable[..., list[bool]]


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    """Return what says whether a task is late at each of some looks, which are so far apart."""

    def at(number: int, *, apart: float, worked: float) -> list[bool]:
        wall, processor = count(0.0, apart), count(0.0, worked)
        monkeypatch.setattr(process.time, "monotonic", lambda: next(wall))
        monkeypatch.setattr(process, "processor_seconds", lambda _: next(processor))
        task = process.TaskClock(1)
        return [task.is_late(LIMIT) for _ in range(number)]

    return at


def test_a_task_that_works_too_long_is_late(looks: Looks):
    assert looks(5, apart=1.0, worked=70.0) == [False] * 4 + [True]


def test_a_task_on_a_busy_machine_is_not_late_however_long_it_waits(looks: Looks):
    assert not any(looks(20_000, apart=1.0, worked=0.01))


def test_a_task_is_not_late_when_the_machine_was_suspended(looks: Looks):
    assert not any(looks(5, apart=86_400.0, worked=0.0))


def test_a_task_that_stands_still_is_late_once(looks: Looks):
    assert looks(302, apart=0.5, worked=0.0) == [False] * 302
    assert looks(302, apart=1.0, worked=0.0) == [False] * 300 + [True] * 2


def work_for_ever(_: int) -> None:
    while True:
        pass


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="only Linux tells of others' time")
def test_the_time_is_that_of_the_process_at_the_task():
    used = process.processor_seconds(os.getpid())
    while process.processor_seconds(os.getpid()) < used + 0.05:
        pass
    with closing(in_order(work_for_ever, [0], workers=1, limit_seconds=1.0)) as running:
        assert [*running] == [Failed("it takes longer than 1 seconds")]


def rest(number: int) -> int:
    time.sleep(2 * process.LOOK_SECONDS)
    return number


def test_a_suspended_machine_drops_no_file(monkeypatch: pytest.MonkeyPatch):
    """Every look at the clock of this process comes a day later."""
    days = count(0.0, 86_400.0)
    monkeypatch.setattr("time.monotonic", lambda: next(days))
    with closing(in_order(rest, [1, 2], workers=1, limit_seconds=LIMIT)) as running:
        assert [*running] == [1, 2]
