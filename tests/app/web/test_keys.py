"""The page without a mouse: where keys lead, that the focus is seen and never lost, and that all can be done."""

from playwright.sync_api import Page, expect

from tests.app.web.browser import WAIT
from tests.app.web.hands import await_end, fill, go_on, rest

ROLL = (
    "Piano roll of your piece: 1214 notes in 16 bars. Space plays, left and right go by bars, with Shift they choose "
    "bars, plus and minus zoom."
)

# What has the focus: the part of the page, its name, and whether that is seen.
FOCUS = """() => {
  const one = document.activeElement, shown = one.matches(".mg-file") ? one.nextSibling : one;
  const ringed = [shown, shown.firstElementChild]
    .filter(Boolean).map((part) => getComputedStyle(part)).some(
      (style) => style.outlineStyle !== "none" || style.boxShadow !== "none");
  const part = one.closest(".mg-bar, .mg-stage, .mg-controls, #mg-takes, #mg-history, #mg-dock");
  const name = one.ariaLabel || one.labels?.[0]?.textContent || shown.textContent.trim();
  return [part?.className ?? "", name, ringed];
}"""


def test_the_tab_key_goes_from_top_to_bottom_and_is_seen(page: Page):
    seen = []
    while len(seen) < 70 and (not seen or "Transpose" not in seen[-1][1]):
        page.keyboard.press("Tab")
        seen.append(page.evaluate(FOCUS))
    places = [place.split()[-1] for place, *_ in seen if place]
    assert list(dict.fromkeys(places)) == [
        *("mg-bar", "mg-stage", "mg-controls", "mg-history", "mg-dock")
    ]
    stage = [name for place, name, _ in seen if "mg-stage" in place]
    assert stage[:3] == ["Keep with a star", "Open a file", ROLL]
    assert stage[3:8] == ["Bars of the prompt", "Play", "Zoom out", "Zoom in", "Fit"]
    assert not [one for one in seen if one[0] and (not one[1] or not one[2])]


def test_all_is_done_by_keys_alone(page: Page):
    """Choose bars, delete them, continue, stop, keep a take, undo: without a mouse."""
    page.locator(".mg-stage canvas").focus()
    for key in ("ArrowRight", "ArrowRight", "Shift+ArrowRight", "Shift+ArrowRight"):
        page.keyboard.press(key)
    expect(page.locator(".mg-range-words")).to_have_text("Bars 3–4")
    page.get_by_role("button", name="Delete", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page.locator(".mg-stage .mg-facts")).to_contain_text("14 bars")
    page.get_by_label("How long, in bars, as a number").focus()
    page.keyboard.type("128")
    page.locator("#mg-go").focus()
    page.keyboard.press("Enter")
    page.wait_for_function("() => musicgen.desk.takes[0]?.now > 0")
    page.locator("#mg-halt").focus()
    page.keyboard.press(" ")
    await_end(page)
    page.locator(".mg-take .mg-star").first.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".mg-take .mg-star[aria-pressed=true]")).to_have_count(1)
    page.keyboard.press("Control+z")
    page.keyboard.press("Control+z")
    expect(page.locator(".mg-stage .mg-facts")).to_contain_text("16 bars")


HAS_FOCUS = """() => {
  const one = document.activeElement;
  return one === document.body ? "" : one.ariaLabel || one.textContent.trim();
}"""


def test_the_focus_is_never_lost(later: Page):
    """What a key is pressed on may go away with that; the next key goes on from beside it."""
    page = later

    def lands_on(words: str) -> None:
        rest(page)
        page.wait_for_function(f"words => new RegExp(words).test(({HAS_FOCUS})())", arg=words)

    def press(name: str, then: str, within: str = "body") -> None:
        page.locator(within).get_by_role("button", name=name, exact=True).first.focus()
        page.keyboard.press("Enter")
        lands_on(then)

    page.locator(".mg-stage canvas").focus()
    page.keyboard.press("Shift+ArrowRight")
    press("Choose no bars", "^Piano roll")
    page.keyboard.press("Shift+ArrowRight")
    press("Delete", "^Piano roll", ".mg-range-bar")
    page.locator(".mg-stage .mg-menu > summary").focus()
    page.keyboard.press("Enter")
    with page.expect_download():
        press("MIDI", "^Save$", ".mg-stage")
    fill(page, "bars", 128)
    press("Continue", "^Stop$")
    page.wait_for_function("() => musicgen.desk.takes[1]?.now > 48 * 6")
    press("Stop", "^(Stop|Continue)$")
    await_end(page)
    lands_on("^Continue$")
    press("Delete this take", "^Play$")
    press("Continue from here", "^Piano roll of your piece")
    expect(page.locator(".mg-stage canvas")).to_be_in_viewport()
    page.locator(".mg-history > summary").click()
    press("Star: Disco trio", "^Star: ")
    press("Delete: Disco trio", "^Delete: ", ".mg-history")
    page.get_by_label("Model").select_option("pop-piano")
    page.locator(".mg-notices button").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".mg-notices button")).to_have_count(0)
    lands_on("^Piano roll")


def test_the_roll_obeys_the_keyboard(page: Page):
    roll = page.locator(".mg-stage canvas")
    time = page.locator(".mg-stage .mg-time")
    roll.focus()
    roll.press("ArrowRight")
    expect(time).to_have_text("0:02 / 0:31")
    wide = page.locator(".mg-stage .mg-wide")
    before = wide.evaluate("e => e.clientWidth")
    roll.press("+")
    assert wide.evaluate("e => e.clientWidth") > 1.2 * before
    roll.press("0")
    assert wide.evaluate("e => e.clientWidth") == before
    roll.press(" ")
    expect(page.locator(".mg-stage").get_by_label("Pause")).to_be_visible(timeout=WAIT)


def test_space_plays_after_a_pointer(page: Page):
    """What was pressed with a mouse is not pressed again by Space; what was reached by keys is."""
    playing = "() => musicgen.player.playing"
    go_on(page, bars=64)
    page.wait_for_function("() => musicgen.desk.takes[0]?.now > 0")
    page.keyboard.press(" ")
    page.wait_for_function(playing)
    assert page.evaluate("() => !musicgen.app.composer.run.stopped")
    page.keyboard.press(" ")
    page.wait_for_function("() => !musicgen.player.playing")
    assert page.evaluate("() => !musicgen.app.composer.run.stopped")
    star = page.locator(".mg-stage .mg-star")
    star.click()
    for wanted in ("true", "false"):
        page.keyboard.press(" ")
        page.wait_for_function(f"() => String(musicgen.player.playing) === '{wanted}'")
        expect(star).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("Tab")
    page.keyboard.press("Shift+Tab")
    expect(star).to_be_focused()
    page.keyboard.press(" ")
    expect(star).to_have_attribute("aria-pressed", "false")
    page.locator("#mg-halt").click()
    expect(page.locator("#mg-go")).to_be_visible()
