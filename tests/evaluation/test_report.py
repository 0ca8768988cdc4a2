"""The report: its text is escaped, its figures show names as text, and its tables have no gaps."""

import re

from evaluation.figures import extrapolation, figure, png
from evaluation.headlines import headlines
from evaluation.report import page
from evaluation.tables import extrapolation_table, positions_table

NAME = 'a "curve" <w>'
FORMULA = r"$\foo$ <script>"  # is text, no mathematics
MODEL = {
    "model": "<m>", "encoding": "<e>", "language": "<l>", "trained_length": 4, "parameters": None,
    "training": {"data": "<d>"}, "sha256": "",
}  # fmt: skip
RANGE = {"start": 0, "stop": 2, "offset": 1, "tokens": 5, "translation": 0.1, "monotonicity": None}
RANGE |= {"translation_error": None, "monotonicity_error": None}
ATTENTION = {"layers": [0], "length": 6, "pieces": 2, "full": 0.5, "pixels": [[[[9] * 3] * 3] * 2]}
PROBES = {"length": 4, "best_table": [RANGE], "best_figure": [RANGE]}
PROBED = {
    "model": NAME, "number": 0, "trained_length": 4, "probes": PROBES, "attention": ATTENTION,
    "templates": None,
}  # fmt: skip
BENCHMARK = {
    "folder": "runs/<f>", "what": "<p>", "about": "<o>", "remarks": ["<r>"], "machine": "", "command": "a && b",
    "training": {}, "table": [["<i>", "x\ny"], ["<n>", "1 < 2"]],
}  # fmt: skip
RESULTS = {
    "command": "<k>", "made": "today", "machine": "<2>", "models": [MODEL], "left_out": ["<h>"],
    "experiments": [{"kind": "positions", "command": "<c>", "models": [PROBED]}],
    "benchmarks": [BENCHMARK],
}  # fmt: skip


def test_text_from_results_is_escaped():
    text = page(RESULTS)
    assert text.startswith("<!doctype html>")
    assert text.endswith("</html>")
    body = text.split("</style>")[1]
    for written in "mldfoinhckrw2":
        assert f"<{written}>" not in body
        assert f"&lt;{written}&gt;" in body
    assert "&lt;p&gt;" in body
    assert "a && b" not in body
    assert "x<br>y" in text
    assert re.findall('<td data-title="x, y">(1 .*?)</td>', text) == ["1 &lt; 2"]
    assert 'alt="a &#34;curve&#34; &lt;w&gt;: mean attention over 2 generated pieces' in text
    assert 'src="data:image/png;base64,' in text
    assert '<a href="#benchmark-0">' in text


def estimate(mean: float | None) -> dict:
    return {"mean": mean, "low": None, "high": None, "deviation": None, "n": 2}


def test_the_summary_has_the_main_numbers_beside_real_music():
    rows = [
        {"measure": "returns", "written": estimate(0.4), "real": estimate(0.5)},
        {"measure": "repeats", "written": estimate(None), "real": estimate(0.1)},
        {"measure": "contrast", "written": estimate(3), "real": estimate(4)},
    ]
    form = {"kind": "form", "models": [{"model": "a", "table": rows}]}
    assert headlines(form) == ["a: bars that return to earlier ones 0.40 (real piece 0.50)."]
    drift = {"mean": -0.2, "low": -0.3, "high": -0.1}
    losses = {"model": "b", "trained_length": 2048, "drift": {"far": drift}}
    assert headlines({"kind": "extrapolation", "models": [losses]}) == [
        "b: past the 2,048 tokens it was trained on, the loss changes by −0.200 [−0.300, −0.100] nats."
    ]
    rows = [
        {"model": "c", "part": part, "within": {"mean": mean, "low": None, "high": None}}
        for part, mean in (("metric heads cut", 0.1), ("decay off", 0.3))
    ]
    (told,) = headlines({"kind": "ablation", "models": rows})
    assert told == "c: the loss changes most, by +0.300 nats per token, with decay off."


QUARTER = re.compile(", (1st quarter|2nd|3rd|4th): ")


def test_quarters_of_continuations_are_drawn_and_not_listed():
    measures = [
        f"to the {against}, {quarter}: onset–duration"
        for against in ("prompt", "piece")
        for quarter in ("whole", "1st quarter", "2nd", "3rd", "4th")
    ]
    sides = dict.fromkeys(("written", "looped", "real", "same", "other"), estimate(0.5))
    table = [{"measure": name, "above_same": 1, "of": 2, **sides} for name in measures]
    model = {"model": "a", "table": table}
    result = {"kind": "continuation", "command": "", "models": [model]}
    result |= {"data": "data/songs", "split": "test", "pieces": 7}
    text = page({**RESULTS, "experiments": [result]})
    assert "Measured on n pieces of the test split of songs, beside the music of these" in text
    assert "Style of continuations: songs</a> (n 7). a: similarity of its rhythms" in text
    assert "to the prompt, whole: onset–duration" in text
    assert not QUARTER.search(text)
    assert text.count("data:image/png") == 1


def test_a_name_is_drawn_as_text():
    with figure(3, 2) as drawn:
        axes = drawn.add_subplot()
        axes.plot([0, 1], label=FORMULA)
        axes.set_title(FORMULA)
        axes.legend()
    first, second = png(drawn), png(drawn)
    assert first.startswith(b"\x89PNG")
    assert first == second


def model_losses(name: str, trained: int, mean: float) -> dict:
    rest = {"deviation": 0.1, "pieces": 3}
    parts = {
        "trained": {"start": 0, "stop": trained, "mean": mean, **rest},
        "far": {"start": 24, "stop": 64, "mean": mean + 1, **rest},
    }
    return {"model": name, "trained_length": trained, "parts": parts, "drift": {}}


def test_losses_have_their_positions():
    found = extrapolation_table({"models": [model_losses("a", 16, 2.0)]})
    assert found.head[1:4] == ["trained", "up to 1.5 × trained", "beyond"]
    assert found.rows[0][1:4] == ["2.000 ± 0.100 (3): 1 … 16", "–", "3.000 ± 0.100 (3): 25 … 64"]


def test_a_curve_of_losses_is_drawn_where_it_says_something():
    """Not its first stretch, nor the end that few pieces reach, nor the interval of few pieces."""
    pieces, means = (8, 8, 8, 4, 2), (9.0, 2.0, 1.8, 1.6, 5.0)
    rows = [
        {"start": i, "stop": i + 1, "mean": mean, "low": mean - 1, "high": mean + 1, "pieces": n}
        for i, (n, mean) in enumerate(zip(pieces, means, strict=True))
    ]
    model = {"model": "a", "number": 0, "trained_length": 2, "length": 6, "positions": rows}
    (axes,) = extrapolation({"models": [model]}).axes
    assert axes.lines[0].get_ydata().tolist() == [2.0, 1.8, 1.6]
    assert axes.get_xlim() == (0, 4)
    (band,) = axes.collections[0].get_paths()
    low, high = axes.get_ylim()
    assert (band.vertices[:, 1].min(), band.vertices[:, 1].max()) == (0.8, 3.0)
    assert low < 0.8
    assert high > 3.0


def model_probes(name: str, *values: float | None) -> dict:
    rows = [
        {"start": 8 * i, "stop": 8 * i + 8, "offset": 4, "tokens": 5}
        | dict.fromkeys(("translation", "monotonicity"), value)
        for i, value in enumerate(values)
    ]
    return {"model": name, "probes": {"length": 16, "best_table": rows}}


def test_every_range_has_a_column():
    """The model "learned" has a maximum length, and thus fewer ranges; "none" comes first and has no values."""
    none, short = model_probes("none", None, None), model_probes("learned", 0.1, 0.2)
    table = positions_table({"models": [none, short, model_probes("sine", 0.3, 0.1, 0.2)]})
    assert table.head[2:] == ["0 … 0.5\n< 0.25", "0.5 … 1\n< 0.25", "1 … 1.5\n< 0.25"]
    assert {len(row) for row in table.rows} == {len(table.head)}
    assert {row[0]: row[2:] for row in table.rows if row[0]} == {
        "none": ["–", "–", "–"],
        "learned": ["0.100", "0.200", "–"],
        "sine": ["0.300", "0.100", "0.200"],
    }
