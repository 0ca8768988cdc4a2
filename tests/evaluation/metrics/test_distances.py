"""Distances between distributions of statistics."""

import numpy as np
import pytest

from evaluation.metrics.estimates import Spread
from evaluation.metrics.statistics import distances, floor, wasserstein


def test_wasserstein_by_hand():
    assert wasserstein([0, 1], [0, 1]) == 0
    assert wasserstein([0, 1], [2, 3]) == 2
    assert wasserstein([0], [0, 4]) == 2
    assert wasserstein([5, 1, 1], [1, 1, 5]) == 0
    assert wasserstein([], [1]) is None


def test_wasserstein_is_the_mean_distance_of_sorted_values_of_equal_samples():
    random = np.random.default_rng(0)
    a, b = random.normal(size=50), random.exponential(size=50)
    expected = np.abs(np.sort(a) - np.sort(b)).mean()
    assert wasserstein(a, b) == pytest.approx(expected)
    assert wasserstein(b, a) == pytest.approx(expected)
    assert wasserstein(np.repeat(a, 3), b) == pytest.approx(expected)


def test_a_row_a_statistic():
    outputs = [{"polyphony": 2.0, "range": 5.0}, {"polyphony": None, "range": 5.0}]
    real = [{"polyphony": 1.0, "range": 5.0}, {"polyphony": 3.0, "range": 5.0}]
    polyphony, pitch_range = distances(outputs, real)
    assert (polyphony.statistic, polyphony.outputs.n, polyphony.outputs.missing) == (
        "polyphony", 1, 1,
    )  # fmt: skip
    assert polyphony.wasserstein == 1.0
    assert polyphony.in_deviations == pytest.approx(1 / np.sqrt(2))
    assert (pitch_range.wasserstein, pitch_range.in_deviations) == (0.0, None)
    assert polyphony.real == Spread(n=2, missing=0, mean=2.0, deviation=pytest.approx(np.sqrt(2)))


def test_a_statistic_that_no_output_has():
    (row,) = distances([{"polyphony": None}], [{"polyphony": 1.0}])
    assert (row.wasserstein, row.in_deviations, row.outputs.mean) == (None, None, None)


def pieces(values: np.ndarray) -> list[dict]:
    """Return a row a value, of a style a row."""
    return [{"range": x, "style": style} for style, row in enumerate(values) for x in row]


@pytest.mark.parametrize("styles", [3, 6, 12])
def test_the_interval_of_a_distance_holds_the_true_one_as_often_as_it_says(styles: int):
    random, held = np.random.default_rng(styles), []
    for _ in range(300):
        of_style = random.normal(0, 1, (styles, 1))
        real = of_style + random.normal(0, 0.5, (styles, 1))
        outputs = 1 + of_style + random.normal(0, 0.5, (styles, 3))
        (found,) = distances(pieces(outputs), pieces(real), "style")
        assert found.low is not None
        assert found.high is not None
        held.append(found.low <= 1 <= found.high)
    assert np.mean(held) == pytest.approx(0.95, abs=0.04)  # three standard errors of 300 trials


@pytest.mark.parametrize("styles", [6, 25])
def test_two_sets_of_real_pieces_are_about_as_far_apart_as_the_floor_says(styles: int):
    random = np.random.default_rng(styles)
    expected = np.mean([wasserstein(*random.normal(size=(2, styles))) for _ in range(2000)])
    told = [floor([[x] for x in random.normal(size=styles)], seed) for seed in range(60)]
    assert np.mean(np.array(told, dtype=float)) == pytest.approx(expected, rel=0.2)


def test_pieces_of_a_style_count_as_one():
    real = np.array([[1.0], [2.0], [4.0], [7.0]])
    (once,), (often,) = (
        distances(pieces(real[::-1] + 1), pieces(np.repeat(real, times, 1)), "style")
        for times in (1, 5)
    )
    assert (once.groups, once.low, once.high, once.floor) == (
        often.groups, often.low, often.high, often.floor,
    )  # fmt: skip
    assert (once.groups, often.real.n) == (4, 20)


def test_one_style_tells_neither_interval_nor_floor():
    alone = pieces(np.array([[1.0, 2.0]]))
    (found,) = distances(alone, alone, "style")
    assert (found.groups, found.wasserstein, found.low, found.high, found.floor) == (
        1, 0, None, None, None,
    )  # fmt: skip
    (untold,) = distances([{"range": 1.0}], [{"range": 2.0}])
    assert (untold.wasserstein, untold.groups, untold.low, untold.floor) == (1, None, None, None)
