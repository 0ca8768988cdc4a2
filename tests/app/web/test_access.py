"""The page is for all: by keys alone, and while a take is written."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.app.web.browser import WAIT
from tests.app.web.hands import SHOWN, act, await_end, choose_bars, fill, go_on, open_example, rest

pytestmark = pytest.mark.long


@pytest.fixture
def page(visit):
    """A page with a trio on its desk."""
    found = visit()
    open_example(found, "trio-disco")
    return found


# What has the focus: the part of the page, its name, and whether that is seen.
FOCUS = """() => {
  const one = document.activeElement, shown = one.matches(".mg-file") ? one.nextSibling : one;
  const ringed = [shown, shown.firstElementChild]
    .filter(Boolean).map((part) => getComputedStyle(part)).some(
      (style) => style.outlineStyle !== "none" || style.boxShadow !== "none");
  const part = one.closest(".mg-bar, .mg-stage, .mg-controls, #mg-takes, #mg-history, #mg-dock");
  const name = one.ariaLabel || one.labels?.[0]?.textContent || shown.textContent.trim();
  return [part?.className.split(" ").pop() ?? "", name, ringed];
}"""


def test_all_is_done_by_keys_alone_and_the_focus_is_never_lost(page: Page):
    """What a key is pressed on may go away with that; the next key goes on from beside it."""
    canvas, facts = page.locator(".mg-stage canvas"), page.locator(".mg-stage .mg-facts")

    def lands_on(words: str) -> None:
        rest(page)
        page.wait_for_function(f"words => new RegExp(words).test(({FOCUS})()[1])", arg=words)

    def press(name: str, then: str, within: str = "body") -> None:
        page.locator(within).get_by_role("button", name=name, exact=True).first.focus()
        page.keyboard.press("Enter")
        lands_on(then)

    canvas.focus()
    for key in ("ArrowRight", "ArrowRight", "Shift+ArrowRight", "Shift+ArrowRight"):
        page.keyboard.press(key)
    expect(page.locator(".mg-range-words")).to_have_text("Bars 3–4")
    press("Clear selection", "^Piano roll")
    page.keyboard.press("Shift+ArrowRight")
    press("Delete", "^Piano roll", ".mg-range-bar")
    expect(facts).to_contain_text("15 bars")
    page.locator(".mg-stage .mg-menu > summary").focus()
    page.keyboard.press("Enter")
    with page.expect_download():
        press("MIDI", "^Save$", ".mg-stage")
    fill(page, "bars", 128)
    press("Continue", "^Stop$")
    page.wait_for_function("() => musicgen.desk.takes[1]?.now > 96 * 18")
    press("Stop", "^(Stop|Continue)$")
    await_end(page)
    lands_on("^Continue$")
    press("Delete this take", "^Play$")
    press("Continue from here", "^Piano roll of your piece")
    expect(canvas).to_be_in_viewport()
    page.locator(".mg-history > summary").click()
    press("Delete: Disco trio", "^Delete: ", ".mg-history")
    page.get_by_label("Model").select_option("pop-piano")
    notice = page.locator(".mg-notices li")
    expect(notice.first).to_contain_text("The drums are left out")
    page.locator(".mg-notices button").first.focus()
    page.keyboard.press("Enter")
    expect(notice).to_have_count(0)
    lands_on("^Piano roll")


def test_bars_of_a_take_that_is_being_written_stay_until_its_end(page: Page):
    """The bars that are yet to come have their place already; they would be left over, empty."""
    go_on(page, bars=128)
    # It is held there, and what is drawn stands still.
    expect(page.locator(".mg-status")).to_contain_text(re.compile(r"bar 4\d of 128"), timeout=WAIT)
    rest(page)
    bar, why = page.locator(".mg-take .mg-range-bar"), page.locator(".mg-take .mg-why")
    choose_bars(page, 18, 18, card=".mg-take")
    for name in ("Cut after this", "Delete", "Set chord"):
        button = bar.get_by_role("button", name=name, exact=True)
        expect(button).to_have_attribute("aria-disabled", "true")
        button.click(force=True)
        expect(why).to_contain_text("still being written; press Stop first")
    page.locator("#mg-halt").click()
    await_end(page)
    expect(why).to_be_empty()
    expect(bar.locator(".mg-range-words")).to_have_text("Bar 18")  # it is there, and stays chosen
    act(page, "Cut after this", ".mg-take")
    expect(page.locator(".mg-stage .mg-facts")).to_contain_text("18 bars")
    expect(page.locator(SHOWN)).to_have_text("Disco trio, take 1")
