import numpy as np

from evaluation.plots.style import COLOURS, INK, figure, png, series, style_sheet, svg


def drawing():
    """Return a figure with a line, a name and a picture."""
    with figure(3, 2) as drawn:
        axes = drawn.add_subplot()
        axes.plot([0, 1], color=COLOURS[0], label="a line")
        axes.imshow(np.arange(9).reshape(3, 3), cmap="viridis")
        axes.legend()
    return drawn


def test_a_drawing_follows_the_page_and_is_the_same_each_time():
    first, second = svg(drawing(), "one"), svg(drawing(), "one")
    assert first == second
    assert first.startswith("<svg")
    assert f"var(--ink, {INK})" in first
    assert f"var(--series-0, {COLOURS[0]})" in first
    assert "data:image/png;base64," in first
    assert "a line" in first  # text stays text
    ids = {part.split('"')[0] for part in first.split('id="')[1:]}
    others = {part.split('"')[0] for part in svg(drawing(), "two").split('id="')[1:]}
    assert ids
    assert ids.isdisjoint(others)  # on one page


def test_a_file_keeps_the_colours_of_a_light_page():
    assert png(drawing()).startswith(b"\x89PNG")


def test_each_variable_has_a_light_and_a_dark_colour():
    light, dark = style_sheet().split("@media")
    for name in ("--ink", "--faint", "--line", "--paper", "--series-0", "--series-6"):
        assert name in light
        assert name in dark


def test_many_series_look_different():
    looks = [series(i) for i in range(28)]
    assert len({(look.color, look.linestyle) for look in looks}) == 28


def test_a_name_is_text_and_no_mathematics_or_markup():
    name = r"$\foo$ <script>"
    with figure() as drawn:
        axes = drawn.subplots()
        axes.plot([0, 1], label=name)
        axes.set_title(name)
        axes.legend()
    text = svg(drawn, "a")
    assert text.count(r"$\foo$ &lt;script&gt;") == 2
    assert "<script>" not in text
    assert png(drawn).startswith(b"\x89PNG")
