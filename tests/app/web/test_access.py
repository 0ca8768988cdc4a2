"""The page is for all: by keys alone, on any screen, while a take is written, and where a browser lacks something."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.app.web.browser import WAIT
from tests.app.web.hands import (
    PHONE,
    SHOWN,
    act,
    await_end,
    choose_bars,
    fill,
    go_on,
    open_example,
    rest,
)

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


def test_the_tab_key_goes_from_top_to_bottom_and_is_seen(visit):
    page, seen = visit(), []
    while len(seen) < 70 and (not seen or "Transpose" not in seen[-1][1]):
        page.keyboard.press("Tab")
        seen.append(page.evaluate(FOCUS))
    places = list(dict.fromkeys(place for place, *_ in seen if place))
    assert places == ["mg-bar", "mg-stage", "mg-controls", "mg-history", "mg-dock"]
    stage = [name for place, name, _ in seen if place == "mg-stage"]
    assert stage[:2] == ["Star", "Open a file"]
    assert re.match(r"Piano roll of your piece: \d+ notes in 16 bars\.", stage[2])
    assert stage[3:8] == ["Bars of the prompt", "Play", "Zoom out", "Zoom in", "Fit"]
    assert not [one for one in seen if one[0] and not all(one)]


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


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 820, 390])
def test_the_page_fits_its_screen_in_its_colours(visit, width: int, scheme: str):
    page = visit(**PHONE, scheme=scheme) if width == 390 else visit(width, scheme)
    ground = page.evaluate("getComputedStyle(document.querySelector('.mg-stage')).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", ground)[:3])) < 200) == (scheme == "dark")
    go_on(page, bars=1)
    await_end(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    opener = page.locator(".mg-take .mg-menu > summary")
    for far in (60, 500):  # from the window's top
        opener.evaluate("(one, far) => scrollBy(0, one.getBoundingClientRect().top - far)", far)
        opener.click()
        for item in page.locator(".mg-take .mg-item").all():
            expect(item).to_be_in_viewport(ratio=1)
        page.keyboard.press("Escape")
        expect(opener).to_be_focused()


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


def test_a_link_and_a_file_are_given_where_a_browser_lacks_something(visit):
    page = visit(
        before="Object.defineProperty(navigator, 'clipboard', { value: undefined });"
        "window.prompt = (words, link) => (window.given = link);",
    )
    page.get_by_role("button", name="Copy link").click()
    page.wait_for_function("() => window.given?.includes('#desk=')")
    kind, name, address = page.evaluate("""() => {
      const data = new DataTransfer(), grip = document.querySelector(".mg-stage .mg-grip");
      grip.dispatchEvent(new DragEvent("dragstart", { dataTransfer: data, bubbles: true }));
      return data.getData("DownloadURL").split(/:(.*?):(.*)/s).slice(0, 3);
    }""")
    assert (kind, name) == ("audio/midi", "Piano in C.mid")
    given = "async (a) => [...new Uint8Array(await (await fetch(a)).arrayBuffer())].slice(0, 4)"
    assert bytes(page.evaluate(given, address)) == b"MThd"


def test_the_desk_is_there_before_gradios_own_scripts(browser, address: str):
    context = browser.new_context()
    page = context.new_page()
    page.route("**/assets/*.js", lambda route: route.abort())
    page.goto(address)
    expect(page.locator(SHOWN)).to_have_text("Piano in C", timeout=WAIT)
    page.route("**/call/desk_write", lambda route: route.fulfill(status=503, json={"detail": "x"}))
    page.locator("#mg-go").press("Enter")
    expect(page.locator("#mg-takes > [role=alert]")).to_contain_text("did not take the request")
    context.close()
