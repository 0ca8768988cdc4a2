from evaluation.report.page import document, folded, how, paragraph, picture, table
from evaluation.tables import Table

RESULTS = {"command": "<k>", "made": "today", "machine": {"processors": "<2>"}}


def test_what_is_written_by_others_is_escaped():
    content = table(Table(head=["<i>", "x\ny"], rows=[["<m>", "1 < 2"]], caption="<c>"))
    content += how(["<h>"], "a && b") + paragraph("<p>") + folded("<f>", paragraph("x"))
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
    assert "1 &lt; 2" in text
    assert 'aria-label="a &#34;curve&#34;" style="max-width: 162px"' in text
    assert '<a href="#a">' in text


def test_the_best_values_stand_out():
    rows = [["one", "1"], ["two", "2"]]
    text = table(Table(head=["", "a"], rows=rows, caption="", best=[(1, 1)]))
    assert text.count('<td class="best">2</td>') == 1
    assert "<td>1</td>" in text
