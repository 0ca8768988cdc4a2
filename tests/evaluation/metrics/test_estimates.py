import numpy as np
import pytest

from evaluation.metrics.estimates import estimate, mean


def test_missing_values_are_counted_and_ignored():
    found = estimate([1.0, None, 3.0, None, 5.0])
    half = 4.302653 * 2 / np.sqrt(3)  # Student's t
    ends = {"low": pytest.approx(3 - half), "high": pytest.approx(3 + half)}
    assert found == {"n": 3, "missing": 2, "mean": 3.0, "deviation": 2.0, **ends}
    assert estimate([1.0, 3.0])["low"] == pytest.approx(2 - 12.7062)
    unknown = {"deviation": None, "low": None, "high": None}
    assert estimate([2.0]) == {"n": 1, "missing": 0, "mean": 2.0, **unknown}
    assert estimate([None]) == {"n": 0, "missing": 1, "mean": None, **unknown}
    assert mean([None, 1.0, 2.0]) == 1.5
    assert mean([]) is None


def test_proportions_have_wilsons_interval():
    none = estimate([0.0] * 20, shares=True)
    assert (none["mean"], none["low"], none["high"]) == (0, 0, pytest.approx(0.1611, abs=1e-4))
    semitones = estimate([0.0, 1.0, 1.0])  # not a proportion, despite its values
    assert semitones["high"] == pytest.approx(2 / 3 + 4.302653 / 3)
