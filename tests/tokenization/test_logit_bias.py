"""Tokens of a group exchange their chances by what the goal that stands weighs their kinds; nothing else changes."""

import numpy as np
import pytest

from tokenization.grammar import LogitBias, exchange

# Tokens 0 and 1 say goals 1 and 2, 2 is nothing's, 3 to 6 are a group of kinds 1 and 2, 7 and 8 another, of kind 3.
BIAS = LogitBias(
    goal=np.array([1, 2, 0, 0, 0, 0, 0, 0, 0]),
    kind=np.array([0, 0, 0, 1, 2, 1, 2, 3, 3]),
    group=np.array([0, 0, 0, 1]),
    weights=np.array([[0.0, 0.0, 0.0, 0.0], [0.0, 1.5, -0.5, 2.0], [0.0, -40.0, 0.0, 0.0]]),
)


def leant(chances: np.ndarray, goal: int, allowed: np.ndarray | None = None) -> np.ndarray:
    scores = np.log(chances).astype(np.float32)
    BIAS.apply(scores, goal, allowed)
    return np.exp(scores)


@pytest.fixture
def chances() -> np.ndarray:
    return np.random.default_rng(0).dirichlet(np.ones(9))


def test_a_group_exchanges_its_chances_by_the_weights_of_kinds(chances: np.ndarray):
    found = leant(chances, 1)
    weighed = chances[3:7] * np.exp([1.5, -0.5, 1.5, -0.5])
    wanted = chances.copy()
    wanted[3:7] = weighed / weighed.sum() * chances[3:7].sum()
    np.testing.assert_allclose(
        found, wanted, rtol=1e-5
    )  # of one kind, 7 and 8 have nothing to exchange


def test_where_no_goal_stands_nothing_changes(chances: np.ndarray):
    np.testing.assert_array_equal(leant(chances, 0), np.exp(np.log(chances).astype(np.float32)))


def test_what_may_not_come_gives_nothing_to_the_others(chances: np.ndarray):
    allowed = np.array([True, True, True, True, True, False, False, True, True])
    found = leant(chances, 1, allowed)
    assert found[allowed].sum() == pytest.approx(chances[allowed].sum(), rel=1e-5)
    assert found[3] / found[4] == pytest.approx(chances[3] / chances[4] * np.exp(2.0), rel=1e-5)
    np.testing.assert_allclose(found[~allowed], chances[~allowed], rtol=1e-5)
    allowed[3:] = False
    np.testing.assert_allclose(leant(chances, 1, allowed), chances, rtol=1e-5)


def test_a_kind_may_be_all_but_forbidden(chances: np.ndarray):
    found = leant(chances, 2)
    assert found[[3, 5]].max() < 1e-15
    assert found[[4, 6]].sum() == pytest.approx(chances[3:7].sum(), rel=1e-5)


@pytest.mark.parametrize(("ids", "goal"), [([2, 3], 0), ([0, 3, 1, 4], 2), ([1, 0], 1), ([], 0)])
def test_the_goal_that_was_said_last_stands(ids: list[int], goal: int):
    assert BIAS.standing(np.array(ids, dtype=np.int64)) == goal


def test_what_is_exchanged_is_as_likely_together_as_before():
    scores = np.log(np.array([0.1, 0.2, 0.3, 0.4]))
    exchange(scores, np.array([0, 2]), np.log([3.0, 1.0]))
    np.testing.assert_allclose(np.exp(scores), [0.2, 0.2, 0.2, 0.4])
