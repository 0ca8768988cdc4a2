import re

from evaluation.report import page

NAME = 'a "curve" <w>'
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
    assert re.findall("<td>(1 .*?)</td>", text) == ["1 &lt; 2"]
    assert 'alt="a &#34;curve&#34; &lt;w&gt;: mean attention over 2 generated pieces' in text
    assert 'src="data:image/png;base64,' in text
    assert '<a href="#benchmark-0">' in text
