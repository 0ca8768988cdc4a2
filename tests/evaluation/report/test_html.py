from evaluation.report.page import document, folded, how, paragraph, picture, table
from evaluation.tables import Table

RESULTS = {"command": "<k>", "made": "today", "machine": {"processors": "<2>"}}


def test_what_is_written_by_others_is_escaped():
    content = table(Table(head=["<i>", "x\ny"], rows=[["<m>", "1 < 2"]], caption="<c>")) + how(
        ["<h>"], "a && b"
    )
    text = document("<t>", "<l>", [("a", "<b>", content + paragraph("<p>"))], RESULTS)
    body = text.split("</style>")[1]
    for dangerous in ("<t>", "<l>", "<b>", "<i>", "<m>", "<c>", "<h>", "<k>", "<2>", "a && b"):
        assert dangerous not in body
    assert "<p><p>" not in body
    assert "x<br>y" in text
    assert "1 &lt; 2" in text


def test_the_best_values_stand_out():
    text = table(
        Table(head=["", "a"], rows=[["one", "1"], ["two", "2"]], caption="", best=[(1, 1)])
    )
    assert text.count('<td class="best">2</td>') == 1
    assert "<td>1</td>" in text


def test_a_picture_is_described_for_those_who_do_not_see_it():
    text = picture('<svg width="100pt"></svg>', "what it shows", 'a "curve"')
    assert '<svg role="img" aria-label="a &#34;curve&#34;" style="max-width: 162px" width' in text
    assert "<figcaption>what it shows</figcaption>" in text


def test_a_page_is_whole():
    content = folded("more", paragraph("x"), is_open=True)
    text = document("t", "", [("more", "More", content)], RESULTS)
    assert text.startswith("<!doctype html>")
    assert text.endswith("</html>")
    assert "prefers-color-scheme: dark" in text
    assert "<details open><summary>more</summary>\n<p>x</p>" in text
    assert '<a href="#more">More</a>' in text
