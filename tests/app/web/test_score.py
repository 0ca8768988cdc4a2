"""The score in place of the roll: engraved, followed during playback, and clicked."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.app.web.hands import PHONE, await_end, go_on, open_example, rest, send
from tests.app.web.test_page import checked
from tests.tokenization.notation.musicxml.test_writing import written

SHEET = ".mg-score [role=img]"
# Move the player to the middle of a bar, from 0, of the piece or of the first take.
GO_TO = """([number, take]) => {
  const { player, desk } = musicgen, entry = take ? desk.takes[0] : desk.current, { lines } = entry.piece;
  player.load(entry);
  player.seek((lines[number] + lines[number + 1]) / 2);
}"""


def show_score(page: Page, title: str) -> None:
    page.get_by_role("button", name="Score", exact=True).click()
    expect(page.locator(SHEET)).to_have_attribute("aria-label", re.compile(f"Score of {title}: "))


@pytest.mark.long
def test_the_score_follows_playback(page: Page):
    open_example(page, "piano-g-minor")
    bar = page.locator(".mg-score-bar")
    assert not checked(page, lambda: show_score(page, "Piano in G minor"))
    expect(page.locator(".mg-stage .mg-roll")).to_be_hidden()
    page.evaluate(GO_TO, [14, False])
    expect(bar).to_be_in_viewport()
    page.evaluate(GO_TO, [2, False])
    rest(page)
    third = bar.bounding_box()
    assert third
    page.evaluate(GO_TO, [0, False])
    page.mouse.click(third["x"] + third["width"] / 2, third["y"] + third["height"] / 2)
    page.wait_for_function("() => musicgen.player.tick === musicgen.player.entry.piece.lines[2]")
    go_on(page, bars=1)
    await_end(page)
    page.evaluate(GO_TO, [16, True])  # the sheet shows the take that plays
    expect(page.locator(SHEET)).to_have_attribute("aria-label", re.compile("take 1: "))


def test_an_opened_score_is_shown_unchanged(visit):
    page = visit(**PHONE)
    send(page, "prelude.musicxml", written())
    show_score(page, "Café & more")
    expect(page.locator(".mg-score [role=status]")).to_be_empty()  # it is not simplified
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    assert not checked(page, lambda: page.emulate_media(color_scheme="dark"))


def test_nothing_of_a_score_is_executed_or_fetched(page: Page):
    """The fixture `visit` fails on script errors and on requests to other servers."""
    text = (
        written().decode().partition("?>")[2]
    )  # without a declaration it could be taken for a URL
    markup = "&lt;img src='http://example.org/a' onerror='failed()'&gt;"
    text = text.replace("Clarinet in B♭", markup).replace("Café &amp; more", markup)
    credit = "<credit><credit-image source='http://example.org/b' type='image/png'/></credit>"
    text = text.replace("<part-list>", f"{credit}<part-list>")
    send(page, "prelude.musicxml", text.encode())
    show_score(page, "<img src='http://example.org/a' onerror='failed\\(\\)'>")
    expect(page.locator(".mg-score [role=status]")).to_be_empty()
    expect(page.locator(".mg-score svg")).to_contain_text("<img src=")
    expect(page.locator(".mg-score img")).to_have_count(0)
