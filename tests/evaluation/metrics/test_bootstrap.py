"""Means with their intervals."""

import numpy as np
import pytest

from evaluation.metrics import bootstrap
from evaluation.metrics.bootstrap import estimate, mean


def test_what_is_missing_is_counted_and_in_no_mean():
    found = estimate([1.0, None, 3.0, None, 5.0])
    assert (found.n, found.missing, found.mean, found.deviation) == (3, 2, 3.0, 2.0)
    assert found.low is not None
    assert found.high is not None
    assert 1.0 <= found.low < 3.0 < found.high <= 5.0


def test_one_value_has_no_interval_and_none_has_no_mean():
    one, none = estimate([2.0]), estimate([None])
    assert (one.n, one.mean, one.deviation, one.low, one.high) == (1, 2.0, None, None, None)
    assert (none.n, none.missing, none.mean, none.low) == (0, 1, None, None)
    assert mean([None, 1.0, 2.0]) == 1.5
    assert mean([]) is None


def test_the_interval_is_that_of_the_normal_approximation_for_many_values():
    values = np.random.default_rng(0).normal(5, 2, size=400)
    found = estimate(values.tolist())
    error = 1.96 * values.std() / 20
    assert found.low == pytest.approx(values.mean() - error, abs=0.02)
    assert found.high == pytest.approx(values.mean() + error, abs=0.02)


def test_an_interval_is_reproducible_whatever_is_drawn_at_once(monkeypatch):
    values = np.random.default_rng(0).random(30).tolist()
    whole = estimate(values)
    assert estimate(values) == whole
    assert estimate(values, seed=1) != whole
    monkeypatch.setattr(bootstrap, "AT_ONCE", 30 * 999)
    in_parts = estimate(values)
    assert in_parts.low == pytest.approx(whole.low, abs=0.02)
    assert in_parts.high == pytest.approx(whole.high, abs=0.02)
