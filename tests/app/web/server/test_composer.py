"""One thread composes for everybody: models take turns, and nobody stops it by failing."""

import threading

import pytest

from app.web.server.composer import Composer
from musicgen.continuation import Continuation
from musicgen.generation.engine import Engine
from musicgen.loading import load
from musicgen.options import Options
from musicgen.pieces import no_prompt
from musicgen.playable import Playable

LATE = 60  # seconds


@pytest.fixture(scope="module")
def models() -> list[Playable]:
    return [load(name) for name in ("untrained:tiny", "untrained:tiny:groove")]


@pytest.fixture
def composer():
    made = Composer()
    yield made
    made.close()


def begun(composer: Composer, model: Playable, tokens: int | None, over=lambda: False):
    work = Continuation(model, no_prompt(model.language), Options(tokens=tokens, bars=10_000))
    job = work.begin(over)
    composer.take(job, model.performer)
    return job


def test_one_models_crowd_does_not_starve_anothers(composer: Composer, models: list[Playable]):
    stop, workers = threading.Event(), set()

    def over() -> bool:
        workers.add(threading.get_ident())
        return stop.is_set()

    crowd = [begun(composer, models[0], None, over) for _ in range(10)]
    modest = begun(composer, models[1], 50)
    assert modest.ended.wait(LATE)
    assert modest.steps == 50
    assert not any(job.ended.is_set() for job in crowd)
    stop.set()
    for job in crowd:
        assert job.ended.wait(LATE)
    assert len(workers) == 1
    assert threading.get_ident() not in workers


def test_a_model_that_fails_takes_its_requests_and_no_others(
    composer: Composer, models: list[Playable], monkeypatch
):
    work = Engine.work

    def broken(engine: Engine) -> bool:
        if engine.model is models[0].performer:
            raise RuntimeError("no memory")
        return work(engine)

    monkeypatch.setattr(Engine, "work", broken)
    lost, fine = begun(composer, models[0], 5), begun(composer, models[1], 5)
    assert lost.ended.wait(LATE)
    assert fine.ended.wait(LATE)
    assert fine.steps == 5
    with pytest.raises(RuntimeError, match="no memory"):
        lost.check()


def test_what_is_done_is_let_go(composer: Composer, models: list[Playable]):
    job = begun(composer, models[0], 5)
    assert job.ended.wait(LATE)
    again = begun(composer, models[1], 5)
    assert again.ended.wait(LATE)
    composer.close()
    assert composer.requests == 0


def test_after_the_end_nobody_works(composer: Composer, models: list[Playable]):
    job = begun(composer, models[0], None)
    while not job.steps:
        assert not job.ended.wait(0.01)
    composer.close()
    steps = job.steps
    assert not job.ended.wait(0.2)
    assert job.steps == steps
