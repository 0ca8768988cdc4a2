from evaluation.figures import figure, png

NAME = r"$\foo$ <script>"  # is text, no mathematics


def test_a_name_is_drawn_as_text():
    with figure(3, 2) as drawn:
        axes = drawn.add_subplot()
        axes.plot([0, 1], label=NAME)
        axes.set_title(NAME)
        axes.legend()
    first, second = png(drawn), png(drawn)
    assert first.startswith(b"\x89PNG")
    assert first == second
