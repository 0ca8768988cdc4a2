"""Pictures say in which unit they are."""

import numpy as np
import pytest

from evaluation.attention import pack
from evaluation.plots.figures import template_panels
from evaluation.plots.style import figure


@pytest.mark.parametrize(("bar", "says"), [(None, "0 … 24 tokens"), (6, "0 … 4 bars")])
def test_lags_of_templates_are_tokens_or_bars(bar: int | None, says: str):
    values = np.zeros((2, 3, 24), dtype=np.int8)
    with figure() as drawn:
        axes = template_panels(drawn.add_subplot(), {"all": pack(values), "length": 24, "bar": bar})
    assert says in axes.get_xlabel()
