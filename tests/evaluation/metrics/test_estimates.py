from math import comb

import numpy as np
import pytest

from evaluation.metrics.estimates import estimate, mean


def test_what_is_missing_is_counted_and_in_no_mean():
    found = estimate([1.0, None, 3.0, None, 5.0])
    assert (found.n, found.missing, found.mean, found.deviation) == (3, 2, 3.0, 2.0)
    half = 4.302653 * 2 / np.sqrt(3)  # Student's
    assert (found.low, found.high) == (pytest.approx(3 - half), pytest.approx(3 + half))
    two, one, none = estimate([1.0, 3.0]), estimate([2.0]), estimate([None])
    assert two.low == pytest.approx(2 - 12.7062)
    assert (one.n, one.mean, one.deviation, one.low, one.high) == (1, 2.0, None, None, None)
    assert (none.n, none.missing, none.mean, none.low) == (0, 1, None, None)
    assert mean([None, 1.0, 2.0]) == 1.5
    assert mean([]) is None


@pytest.mark.parametrize("n", [3, 20])
def test_the_interval_of_a_share_holds_the_true_one_as_often_on_average(n: int):
    """Wilson's: of some shares it does so more or less often, as counts are whole."""
    true, held = np.linspace(0.005, 0.995, 199), 0.0
    for count in range(n + 1):
        found = estimate([1.0] * count + [0.0] * (n - count), shares=True)
        assert 0 <= found.low <= count / n <= found.high <= 1
        inside = (found.low <= true) & (true <= found.high)
        held += inside * comb(n, count) * true**count * (1 - true) ** (n - count)
    assert np.mean(held) == pytest.approx(0.95, abs=0.015)
    none = estimate([0.0] * 20, shares=True)
    assert (none.mean, none.low, none.high) == (0, 0, pytest.approx(0.1611, abs=1e-4))
    semitones = estimate([0.0, 1.0, 1.0])  # are no shares for that
    assert semitones.high == pytest.approx(2 / 3 + 4.302653 / 3)
