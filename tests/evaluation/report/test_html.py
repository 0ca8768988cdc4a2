from evaluation.report.html import document, folded, how, picture, section, table


def test_what_is_written_by_others_is_escaped():
    text = section(
        "a", "<b>", table(["<i>", "x\ny"], [["<m>", "1 < 2"]], "<c>"), how(["<h>"], "a && b")
    )
    for dangerous in ("<b>", "<i>", "<m>", "<c>", "<h>", "a && b"):
        assert dangerous not in text
    assert "x<br>y" in text
    assert "1 &lt; 2" in text


def test_the_best_values_stand_out():
    text = table(["", "a"], [["one", "1"], ["two", "2"]], "", best=[(1, 1)])
    assert text.count('<td class="best">2</td>') == 1
    assert "<td>1</td>" in text


def test_a_picture_is_described_for_those_who_do_not_see_it():
    text = picture('<svg width="100pt"></svg>', "what it shows", 'a "curve"')
    assert '<svg role="img" aria-label="a &quot;curve&quot;" style="max-width: 162px" width' in text
    assert "<figcaption>what it shows</figcaption>" in text


def test_a_page_is_whole():
    text = document("t", "<h1>t</h1>", [folded("more", "<p>x</p>", open_=True)], "end")
    assert text.startswith("<!doctype html>")
    assert "prefers-color-scheme: dark" in text
    assert "<details open>" in text
