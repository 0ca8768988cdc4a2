"""Distances between distributions of statistics."""

import numpy as np
import pytest

from evaluation.metrics.distances import distances, wasserstein
from evaluation.metrics.estimates import Spread


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
