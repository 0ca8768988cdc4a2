import numpy as np
import pytest

from evaluation.metrics.estimates import estimate, mean


def test_missing_values_are_counted_and_ignored():
    found = estimate([1.0, None, 3.0, None, 5.0])
    assert (found.n, found.missing, found.mean, found.deviation) == (3, 2, 3.0, 2.0)
    half = 4.302653 * 2 / np.sqrt(3)  # Student's t
    assert (found.low, found.high) == (pytest.approx(3 - half), pytest.approx(3 + half))
    two, one, none = estimate([1.0, 3.0]), estimate([2.0]), estimate([None])
    assert two.low == pytest.approx(2 - 12.7062)
    assert (one.n, one.mean, one.deviation, one.low, one.high) == (1, 2.0, None, None, None)
    assert (none.n, none.missing, none.mean, none.low) == (0, 1, None, None)
    assert mean([None, 1.0, 2.0]) == 1.5
    assert mean([]) is None


def test_proportions_have_wilsons_interval():
    none = estimate([0.0] * 20, shares=True)
    assert (none.mean, none.low, none.high) == (0, 0, pytest.approx(0.1611, abs=1e-4))
    semitones = estimate([0.0, 1.0, 1.0])  # not a proportion, despite its values
    assert semitones.high == pytest.approx(2 / 3 + 4.302653 / 3)
