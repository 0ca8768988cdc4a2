"""Models take turns in a process that composes, and nobody stops it by failing."""

from dataclasses import replace

import numpy as np
import pytest

from app.web.composing.engines import Engines, News, Task
from musicgen.continuation import Continuation
from musicgen.generation.engine import Engine
from musicgen.loading import load
from musicgen.options import Options
from musicgen.pieces import no_prompt
from musicgen.playable import Playable


@pytest.fixture(scope="module")
def models() -> list[Playable]:
    return [load(name) for name in ("untrained:tiny", "untrained:tiny:groove")]


def asked(number: int, model: Playable, tokens: int | None, **more) -> Task:
    work = Continuation(model, no_prompt(model.language), Options(tokens=tokens, bars=10_000))
    return Task(number=number, model=model, order=work.order(), owner=str(number), **more)


def until(engines: Engines, ended: int) -> dict[int, list[News]]:
    """Work until a request has ended; returns what was reported, by request."""
    found: dict[int, list[News]] = {}
    while not any(news.ended for news in found.get(ended, [])):
        if not engines.idle:
            engines.work()
        for news in engines.news():
            found.setdefault(news.number, []).append(news)
    return found


def test_one_models_crowd_does_not_starve_anothers(models: list[Playable]):
    engines = Engines()
    for number in range(10):
        engines.take(asked(number, models[0], None))
    engines.take(asked(99, models[1], 50))
    found = until(engines, 99)
    assert sum(len(news.rows[0]) for news in found.pop(99)) == 50
    assert not any(news.ended for reported in found.values() for news in reported)


def test_a_model_that_fails_takes_its_requests_and_no_others(models: list[Playable], monkeypatch):
    work = Engine.work

    def broken(engine: Engine) -> bool:
        if engine.model is models[0].performer:
            raise RuntimeError("no memory")
        return work(engine)

    monkeypatch.setattr(Engine, "work", broken)
    engines = Engines()
    engines.take(asked(0, models[0], 5))
    engines.take(asked(1, models[1], 5))
    found = until(engines, 1)
    lost = found.get(0) or until(engines, 0)[0]
    assert "no memory" in str(lost[-1].error)
    assert found[1][-1].error is None


def test_a_request_that_cannot_be_done_is_news_and_leaves_the_others(models: list[Playable]):
    engines = Engines()
    wrong = asked(0, models[0], 5)
    order = replace(wrong.order, ids=np.array([10_000]))
    engines.take(Task(number=0, model=models[0], owner="", order=order))
    assert engines.idle
    (news,) = engines.news()
    assert news.ended
    assert isinstance(news.error, ValueError)
    engines.take(asked(1, models[0], 5))
    assert until(engines, 1)[1][-1].error is None


def test_who_leaves_ends_within_a_step(models: list[Playable]):
    engines = Engines()
    engines.take(asked(0, models[0], None))
    engines.work()
    engines.leave(0)
    engines.work()
    assert engines.idle
    assert engines.news()[-1].ended


def test_a_request_ends_at_what_one_may_take(models: list[Playable]):
    engines = Engines()
    engines.take(asked(0, models[0], None, most_tokens=30))
    assert sum(len(news.rows[0]) for news in until(engines, 0)[0]) == 30


def test_an_error_of_any_kind_can_be_sent(models: list[Playable], monkeypatch):
    class Odd(Exception):
        def __init__(self, one, other):
            super().__init__(f"{one} and {other}")

    def broken(engine: Engine) -> bool:
        raise Odd(1, 2)

    monkeypatch.setattr(Engine, "work", broken)
    engines = Engines()
    engines.take(asked(0, models[0], 5))
    (news,) = until(engines, 0)[0]
    assert type(news.error) is RuntimeError
    assert "1 and 2" in str(news.error)
