"""The tables of whole pieces: which of their rows are shares of pieces."""

import pytest

from evaluation.metrics.estimates import estimate
from evaluation.study.form_and_infilling import _table


@pytest.mark.parametrize(
    ("measure", "shares"), [("end: tonic", True), ("leap", False), ("returns", False)]
)
def test_only_the_signs_of_an_end_are_shares_of_pieces(measure: str, shares: bool):
    values = [0.0, 1.0, 1.0, None]
    rows = [
        {"piece": str(number), "measure": measure, "written": value, "real": value}
        for number, value in enumerate(values)
    ]
    [row] = _table(rows)
    expected = vars(estimate(values, shares=shares))
    assert row == {"measure": measure, "written": expected, "real": expected}
