import numpy as np

from evaluation.figures import COLOURS, INK, figure, png, svg

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
