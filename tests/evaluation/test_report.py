import re

from evaluation.report import collapsible, document, method, paragraph, picture, table
from evaluation.tables import Table

RESULTS = {"command": "<k>", "made": "today", "machine": {"processors": "<2>"}}


def test_text_from_results_is_escaped():
    rows = [["<m>", "1 < 2"]]
    content = table(Table(head=["<i>", "x\ny"], rows=rows, caption="<c>", best=[(0, 1)]))
    content += method(["<h>"], "a && b") + paragraph("<p>") + collapsible("<f>", paragraph("x"))
    content += picture('<svg width="100pt"></svg>', "<w>", 'a "curve"')
    text = document("<t>", "<l>", [("a", "<b>", content)], RESULTS)
    assert text.startswith("<!doctype html>")
    assert text.endswith("</html>")
    body = text.split("</style>")[1]
    for written in "tlbimchfwk2":
        assert f"<{written}>" not in body
        assert f"&lt;{written}&gt;" in body
    assert "a && b" not in body
    assert "<p><p>" not in body
    assert "x<br>y" in text
    assert re.findall('<td class="best">(.*?)</td>', text) == ["1 &lt; 2"]
    assert 'aria-label="a &#34;curve&#34;" style="max-width: 162px"' in text
    assert '<a href="#a">' in text
