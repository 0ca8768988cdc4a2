import numpy as np
import pytest

from evaluation.attention import pack
from evaluation.plots.figures import template_panels
from evaluation.plots.style import COLOURS, INK, figure, png, series, style_sheet, svg

NAME = r"$\foo$ <script>"  # is text, no mathematics and no markup


def drawing():
    """Return a figure with a line, a name and a picture."""
    with figure(3, 2) as drawn:
        axes = drawn.add_subplot()
        axes.plot([0, 1], color=COLOURS[0], label=NAME)
        axes.imshow(np.arange(9).reshape(3, 3), cmap="viridis")
        axes.set_title(NAME)
        axes.legend()
    return drawn


def test_a_drawing_follows_the_page_and_is_the_same_each_time():
    first, second = svg(drawing(), "one"), svg(drawing(), "one")
    assert first == second
    assert first.startswith("<svg")
    assert f"var(--ink, {INK})" in first
    assert f"var(--series-0, {COLOURS[0]})" in first
    assert "data:image/png;base64," in first
    assert first.count(r"$\foo$ &lt;script&gt;") == 2
    assert "<script>" not in first
    ids = {part.split('"')[0] for part in first.split('id="')[1:]}
    others = {part.split('"')[0] for part in svg(drawing(), "two").split('id="')[1:]}
    assert ids
    assert ids.isdisjoint(others)  # on one page
    assert png(drawing()).startswith(b"\x89PNG")


def test_each_variable_has_a_light_and_a_dark_colour_and_many_series_look_different():
    light, dark = style_sheet().split("@media")
    for name in ("--ink", "--faint", "--line", "--paper", "--series-0", "--series-6"):
        assert name in light
        assert name in dark
    looks = [series(i) for i in range(28)]
    assert len({(look.color, look.linestyle) for look in looks}) == 28


@pytest.mark.parametrize(("bar", "says"), [(None, "0 … 24 tokens"), (6, "0 … 4 bars")])
def test_lags_of_templates_are_tokens_or_bars(bar: int | None, says: str):
    values = np.zeros((2, 3, 24), dtype=np.int8)
    with figure() as drawn:
        axes = template_panels(drawn.add_subplot(), {"all": pack(values), "length": 24, "bar": bar})
    assert says in axes.get_xlabel()
