import numpy as np
import pytest

from evaluation.metrics.estimates import FRACTION, estimate, mean
from evaluation.study.piece_jobs import estimates


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


def test_intervals_end_at_the_bounds_of_a_measure():
    values = [0.0, 0.56]
    assert estimate(values)["low"] < -3
    assert estimate(values, bounds=FRACTION) == estimate(values) | {"low": 0, "high": 1}
    row = {"piece": "", "written": 0.0}
    for kind, measure, low in (
        ("continuation", "to the prompt, whole: onset–duration", 0),
        ("form", "loudness", 0),
        ("plan", "loudness", -1),
        ("form", "swell", pytest.approx(0.28 - 12.7062 * 0.28, rel=1e-4)),
    ):
        rows = [{**row, "measure": measure, "written": value} for value in values]
        assert estimates(rows, kind)[0]["written"]["low"] == low, measure
