"""Processes of the server's own compose: the same music in any of them, and what ends one loses its requests alone."""

import os
import signal
import threading
import time
from dataclasses import replace

import pytest

from app.web.composing.composer import MANY_ROWS, Composer, EngineProcess, RemoteJob
from musicgen.continuation import Continuation
from musicgen.loading import find
from musicgen.options import Options
from musicgen.pieces import no_prompt

LATE = 60  # seconds
MODEL = find("untrained:tiny:groove")


@pytest.fixture
def composer():
    made = Composer(most=2)
    yield made
    made.close()


def work(variations: int = 1, tokens: int | None = None, seed: int = 0) -> Continuation:
    options = Options(tokens=tokens, bars=10_000, variations=variations, seed=seed)
    return Continuation(MODEL, no_prompt(MODEL.language), options)


def begun(composer: Composer, wanted: Continuation, **more) -> RemoteJob:
    job = composer.take(MODEL, wanted.order(), **more)
    while not job.steps and not job.ended.is_set():
        time.sleep(0.01)
    return job


def is_lost_alone(job: RemoteJob, composer: Composer) -> None:
    with pytest.raises(RuntimeError, match="try again"):
        job.check()
    again = begun(composer, work(tokens=5))
    assert again.ended.wait(LATE)
    assert again.steps == 5


def test_the_same_request_gives_the_same_music_in_any_process(composer: Composer):
    alone = work(3, tokens=60, seed=5).finish().sequences()
    stop = threading.Event()
    crowd = begun(composer, work(MANY_ROWS), cancelled=stop.is_set)
    first = begun(composer, work(3, tokens=60, seed=5))  # starts the second process
    assert first.ended.wait(LATE)
    while len([process for process in composer.processes if process.ready]) < 2:
        time.sleep(0.05)
    second = begun(composer, work(3, tokens=60, seed=5))
    assert second.ended.wait(LATE)
    stop.set()
    assert crowd.ended.wait(LATE)
    begin = len(no_prompt(MODEL.language).ids)
    assert first.rows == second.rows == [ids[begin:].tolist() for ids in alone]
    assert composer.requests == 0


def test_a_process_that_dies_loses_its_requests_alone(composer: Composer):
    job = begun(composer, work())
    (process,) = composer.processes
    os.kill(process._process.pid, signal.SIGKILL)
    assert job.ended.wait(LATE)
    is_lost_alone(job, composer)


def test_after_the_end_nobody_works(composer: Composer):
    job = begun(composer, work())
    composer.close()
    steps = job.steps
    assert not job.ended.wait(0.2)  # nobody is told of an error that is none
    assert job.steps == steps
    with pytest.raises(RuntimeError, match="ends"):
        composer.take(MODEL, work().order())


def test_what_was_asked_wrongly_is_said(composer: Composer):
    wrong = replace(work(tokens=5).order(), ids=work().order().ids + 10_000)
    job = composer.take(MODEL, wrong)
    assert job.ended.wait(LATE)
    with pytest.raises(ValueError, match="another language"):
        job.check()


def test_a_request_that_cannot_be_sent_is_nobody_s_work(composer: Composer):
    wrong = replace(work().order(), ids=threading.Lock())
    with pytest.raises(TypeError, match="pickle"):
        composer.take(MODEL, wrong)
    assert composer.requests == 0


def test_what_nobody_understands_ends_its_requests_and_nothing_else(
    composer: Composer, monkeypatch
):
    job = begun(composer, work())

    def misunderstood(_: EngineProcess) -> None:
        raise KeyError(99)

    with monkeypatch.context() as patched:
        patched.setattr(EngineProcess, "receive", misunderstood)
        assert job.ended.wait(LATE)
    is_lost_alone(job, composer)
