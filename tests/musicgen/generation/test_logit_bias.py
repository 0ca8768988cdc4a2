"""What is drawn leans towards the goal that stands: in the prompt, from when it is said, and in whatever company."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from musicgen.generation.engine import Engine
from musicgen.generation.request import Request, Stop
from musicgen.generation.sampling import Sampling
from tests.musicgen.generation.generate import asked, written
from tests.musicgen.toys import VOCABULARY, toy_model
from tokenization.grammar import LogitBias

SIZE = VOCABULARY
EVEN = np.arange(SIZE) % 2 == 0


def toward(goals: dict[int, bool]) -> LogitBias:
    """Return what makes even tokens, or odd ones, all but certain after the tokens that are goals."""
    goal = np.zeros(SIZE, np.int64)
    weights = np.zeros((len(goals) + 1, 3))
    for number, (token, even) in enumerate(goals.items(), 1):
        goal[token] = number
        weights[number] = [0, 60 * even, 60 * (not even)]
    return LogitBias(goal=goal, kind=2 - EVEN, group=np.zeros(3, np.int64), weights=weights)


def request(variations: int, logit_bias: LogitBias | None) -> Request:
    return Request(
        variations=variations,
        seed=1,
        sampling=Sampling(),
        stop=Stop(tokens=40),
        logit_bias=logit_bias,
    )


def run(prompt: list[int], variations: int, logit_bias: LogitBias | None) -> np.ndarray:
    """Return what a toy writes: (variations, 40)."""
    model = toy_model(position="sine_spe")
    return written(model, np.array(prompt), request(variations, logit_bias))


def test_a_goal_that_stands_in_the_prompt_leans_what_is_drawn():
    assert EVEN[run([3, 1, 2], 2, toward({1: True}))].all()
    assert not EVEN[run([3, 1, 2], 2, toward({0: True}))].all()


def test_a_goal_that_is_drawn_stands_from_there_on():
    found = run([1, 3], 11, toward({1: True, 4: False}))
    said = found == 4  # an even token, that odd ones follow
    stands = np.cumsum(said, axis=1) - said > 0
    assert said.any()
    assert EVEN[found[~stands & ~(np.cumsum(found == 1, axis=1) > 0)]].all()
    first = np.argmax(said, axis=1)
    after = [row[start + 1] for row, start in zip(found, first, strict=True) if 0 < start < 39]
    assert after
    assert not EVEN[after].any()


def test_a_leaning_is_made_anew_of_each_sequence_that_says_a_goal():
    heard = []

    def anew(ids: np.ndarray) -> LogitBias | None:
        heard.append(ids.tolist())
        return toward({4: False})

    found = run([1, 3], 11, replace(toward({4: True}), anew=anew))
    said = np.cumsum(found == 4, axis=1) > 0
    assert said.any()
    after = found[:, 1:][said[:, :-1]]
    assert not EVEN[after].any()
    sequences = [[1, 3, *row] for row in found.tolist()]
    assert heard
    for ids in heard:
        assert ids[-1] == 4
        assert ids in [sequence[: len(ids)] for sequence in sequences]


def test_a_variation_does_not_depend_on_its_company():
    logit_bias = toward({1: True, 4: False})
    alone = run([1, 3], 1, logit_bias)
    np.testing.assert_array_equal(run([1, 3], 11, logit_bias)[:1], alone)
    model = toy_model(position="sine_spe")
    engine = Engine(model)
    jobs = [asked(model, [1, 3], request(1, one)) for one in (None, logit_bias, toward({3: False}))]
    for job in jobs:
        engine.add(job)
    while engine.work():
        pass
    assert jobs[1].rows == alone.tolist()
