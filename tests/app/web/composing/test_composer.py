"""Composing processes take turns between requests, and failures affect only their own requests."""

import os
import signal
import threading
import time
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from app.web.composing.composer import Composer, EngineProcess, RemoteJob
from app.web.composing.engines import Engines, Limits, News, Task
from musicgen.continuation import Continuation
from musicgen.generation.engine import Engine, ReadPrompt
from musicgen.generation.request import Request
from musicgen.pieces import empty_prompt
from musicgen.playable import find

LATE = 60  # seconds
MODELS = [find(name) for name in ("untrained:tiny", "untrained:tiny:groove")]


def work(model=MODELS[1], variations: int = 1, tokens: int | None = None) -> Continuation:
    request = Request(tokens=tokens, bars=10_000, variations=variations, seed=5)
    return Continuation(model, empty_prompt(model.language), request)


@pytest.fixture
def composer():
    made = Composer(most=2)
    yield made
    made.close()


def begun(composer: Composer, wanted: Continuation, **more) -> RemoteJob:
    job = composer.take(wanted.model, wanted.order(), **more)
    while not job.steps and not job.ended.is_set():
        time.sleep(0.01)
    return job


@pytest.mark.parametrize("dies", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_process_that_dies_or_garbles_fails_only_its_requests(composer, dies: bool, monkeypatch):
    def misunderstood(_: EngineProcess) -> None:
        raise KeyError(99)

    job = begun(composer, work())
    with monkeypatch.context() as patched:
        if dies:
            os.kill(composer.processes[0]._process.pid, signal.SIGKILL)
        else:
            patched.setattr(EngineProcess, "receive", misunderstood)
        assert job.ended.wait(LATE)
    with pytest.raises(ValueError, match="try again"):  # the page shows messages of ValueError
        job.check()
    again = begun(composer, work(tokens=5))
    assert again.ended.wait(LATE)
    assert again.steps == 5
    unsent = replace(work().order(), ids=threading.Lock())
    with pytest.raises(TypeError, match="pickle"):
        composer.take(MODELS[1], unsent)
    assert composer.requests == 0  # it could not be sent, so it is not registered


def test_an_owner_leaves_processes_to_others(composer: Composer):
    def process(**rows: int) -> Any:
        made = {"ready": True, "ended": False, "models": set(), "end": lambda: None}
        return SimpleNamespace(rows=Counter(rows), **made)

    def chosen(owner: str, model: str = "") -> int:
        return composer.processes.index(composer._process(model, owner))

    composer.processes = [process(greedy=64), process(greedy=8)]
    assert chosen("greedy") == 1  # alone, it has all
    composer.processes = [process(greedy=64), process(modest=8)]
    assert chosen("greedy") == 0
    assert chosen("another") == 0  # whose rows precede those of the greedy one
    composer.processes = [process(greedy=64), process()]
    assert chosen("another") == 1
    composer.processes[0].models.add("loaded")
    assert chosen("another", "loaded") == 0
    composer.processes = [process(modest=1, another=4), process(third=4)]
    assert chosen("fourth") == 1


# The engines within a process.


def asked(number: int, model=MODELS[0], tokens: int | None = None, **more) -> Task:
    order = work(model, tokens=tokens).order()
    return Task(number=number, model=model, order=order, owner=str(number), **more)


def until(engines: Engines, ended: int) -> dict[int, list[News]]:
    """Work until a request has ended; return the reports by request."""
    found: dict[int, list[News]] = {}
    while not any(news.ended for news in found.get(ended, [])):
        if not engines.idle:
            engines.work()
        for news in engines.news():
            found.setdefault(news.number, []).append(news)
    return found


def test_many_requests_to_one_model_do_not_starve_another():
    engines = Engines()
    for number in range(10):
        engines.take(asked(number))
    engines.take(asked(99, MODELS[1], 50))
    found = until(engines, 99)
    assert sum(len(news.rows[0][1]) for news in found.pop(99)) == 50
    assert not any(news.ended for reported in found.values() for news in reported)


def test_an_idle_engine_keeps_its_last_prompts(monkeypatch: pytest.MonkeyPatch):
    read, go_on = [], ReadPrompt.go_on
    monkeypatch.setattr(ReadPrompt, "go_on", lambda one: (read.append(one), go_on(one)))
    engines = Engines()
    engines.take(asked(0, limits=Limits(tokens=1)))
    until(engines, 0)
    assert engines.idle
    assert read
    read.clear()
    engines.take(asked(1, tokens=5))
    until(engines, 1)
    assert not read


def test_a_failing_model_fails_only_its_own_requests(monkeypatch: pytest.MonkeyPatch):
    step = Engine.work

    class Odd(Exception):  # cannot be unpickled
        def __init__(self, one, other):
            super().__init__(f"{one} and {other}")

    def broken(engine: Engine) -> bool:
        if engine._batch.network is MODELS[0].network:
            raise Odd(1, 2)
        return step(engine)

    monkeypatch.setattr(Engine, "work", broken)
    engines = Engines()
    engines.take(asked(0, tokens=5))
    engines.take(asked(1, MODELS[1], 5))
    found = until(engines, 1)
    lost = (found.get(0) or until(engines, 0)[0])[-1].error
    assert (type(lost), str(lost)) == (RuntimeError, "Odd: 1 and 2")
    assert found[1][-1].error is None


def test_an_invalid_request_is_reported_and_affects_no_others():
    engines, wrong = Engines(), asked(0, tokens=5)
    engines.take(replace(wrong, order=replace(wrong.order, ids=np.array([10_000]))))
    engines.work()
    assert engines.idle
    (news,) = engines.news()
    assert news.ended
    assert isinstance(news.error, RuntimeError)
    engines.take(asked(1, tokens=5))
    assert until(engines, 1)[1][-1].error is None


def test_a_request_ends_when_cancelled_and_at_its_token_limit():
    engines = Engines()
    engines.take(asked(0))
    engines.work()
    engines.leave(0)
    engines.work()
    assert engines.idle
    assert engines.news()[-1].ended
    engines.take(asked(1, limits=Limits(tokens=30)))
    assert sum(len(news.rows[0][1]) for news in until(engines, 1)[1]) == 30
