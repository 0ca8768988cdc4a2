import re

from evaluation.figures import figure
from evaluation.report import document, method, paragraph, picture, table
from evaluation.tables import Table

RESULTS = {"command": "<k>", "made": "today", "machine": "<2>"}


def test_text_from_results_is_escaped():
    rows = [["<m>", "1 < 2"]]
    content = table(Table(head=["<i>", "x\ny"], rows=rows, caption="<c>"))
    content += method(["<h>"], "a && b") + paragraph("<p>")
    with figure() as drawn:
        content += picture(drawn, 'a "curve" <w>')
    text = document("<t>", "<l>", [("a", "<b>", content)], RESULTS)
    assert text.startswith("<!doctype html>")
    assert text.endswith("</html>")
    body = text.split("</style>")[1]
    for written in "tlbimchwk2":
        assert f"<{written}>" not in body
        assert f"&lt;{written}&gt;" in body
    assert "a && b" not in body
    assert "<p><p>" not in body
    assert "x<br>y" in text
    assert re.findall("<td>(.*?)</td>", text) == ["1 &lt; 2"]
    assert 'alt="a &#34;curve&#34; &lt;w&gt;" src="data:image/png;base64,' in text
    assert '<a href="#a">' in text
