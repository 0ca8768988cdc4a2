"""The page is for all: fingers, keyboards, faint eyes, screen readers, calm minds; and long pieces."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.app.web.browser import WAIT
from tests.app.web.hands import await_end, choose_bars, fill, go_on, send

AXE = Path(__file__).parent / "vendor" / "axe.min.js"
ROLL = (
    "Piano roll of your piece: 1214 notes in 16 bars. Space plays, left and right go by bars, with Shift they choose "
    "bars, plus and minus zoom."
)

PHONE = {"width": 390, "is_mobile": True, "has_touch": True}
FINGER = 44  # pixels
# Each shown text with its contrast by WCAG 2.2 and whether it is large, by the colours as they come to lie.
CONTRASTS = """() => {
  const linear = (c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const light = (rgb) => [0.2126, 0.7152, 0.0722].reduce((sum, part, i) => sum + part * linear(rgb[i]), 0);
  const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const colour = (text) => {
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = text;
    pen.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, ground) => ground.map((value, i) => top[i] * top[3] + value * (1 - top[3]));
  const ground = (element) => {
    const below = element.parentElement ? ground(element.parentElement) : [255, 255, 255];
    return over(colour(getComputedStyle(element).backgroundColor), below);
  };
  const said = (element) => element.matches("input[type=number]") ? element.value
    : [...element.childNodes].filter((node) => node.nodeType === 3).map((node) => node.data.trim()).join("");
  return [...document.querySelectorAll("body *")]
    .filter((element) => said(element) && element.checkVisibility({ visibilityProperty: true, opacityProperty: true }))
    .map((element) => {
      const style = getComputedStyle(element), back = ground(element), ink = over(colour(style.color), back);
      const [dark, bright] = [light(ink), light(back)].sort((a, b) => a - b), size = parseFloat(style.fontSize);
      const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
      return { text: said(element), ratio: (bright + 0.05) / (dark + 0.05), large };
    });
}"""
# Everything to be pressed, with its size; a checkbox is pressed at its label.
TARGETS = """() => [...document.querySelectorAll("button, a, input, summary, label:has(input), [role=slider]")]
  .filter((one) => one.checkVisibility({ visibilityProperty: true }) && one.closest("#mg-desk, .mg-dock"))
  .filter((one) => !one.matches("label input, .mg-file, .mg-menu-list *"))
  .map((one) => ({ name: one.ariaLabel || one.textContent.trim(), box: one.getBoundingClientRect() }))
  .map(({ name, box }) => ({ name, width: box.width, height: box.height }))"""
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
# A roll of 5,000 notes: what a painting asks of the canvas and of styles, with all in sight and with a few bars.
PAINTING = """async () => {
  const { Roll } = await import(`${musicgen.player.synth.address}/roll/roll.js`);
  const { paint } = await import(`${musicgen.player.synth.address}/roll/paint.js`);
  const box = document.createElement("div");
  document.querySelector(".mg-stage").append(box);
  const roll = new Roll(box, { label: "long", height: "260px" });
  const notes = Int32Array.from({ length: 25000 }, (_, n) => {
    const i = Math.floor(n / 5);
    return [6 * i, 4 + (i % 20), 40 + ((7 * i) % 48), 1 + (i % 127), i % 3][n % 5];
  });
  const tracks = ["Bass", "Drums", "Other"].map((name) => ({ name, program: 0, drum: name === "Drums" }));
  const lines = Array.from({ length: 626 }, (_, bar) => 48 * bar);
  const piece = { notes, tracks, lines, tempos: [[0, 120]], chords: [], meters: [], ticksPerBeat: 12, centre: 1 };
  roll.show({ id: "long", piece, region: { first: 300, stop: 625, tracks: null }, trainedBars: 400 });
  const { canvas } = roll, pen = canvas.getContext("2d"), look = window.getComputedStyle;
  const counted = { drawn: 0, looked: 0 };
  canvas.getContext = () => new Proxy(pen, {
    get: (_, name) => typeof pen[name] !== "function" ? pen[name] : (...given) => {
      counted.drawn += /^(fillRect|fill|stroke|strokeRect|fillText)$/.test(name);
      return pen[name](...given);
    },
    set: (_, name, value) => { pen[name] = value; return true; },
  });
  window.getComputedStyle = (...given) => { counted.looked += 1; return look(...given); };
  const painted = (zoom) => {
    roll.axis.zoom = zoom;
    roll.layout();
    Object.assign(counted, { drawn: 0, looked: 0 });
    paint(roll);
    return { ...counted };
  };
  const near = painted(40), whole = painted(roll.inner / 2500);
  const inked = pen.getImageData(canvas.width - 40, 0, 40, canvas.height).data;
  window.getComputedStyle = look;
  roll.close();
  box.remove();
  return { whole, near, inked: inked.filter((value, i) => i % 4 === 3 && value).length };
}"""


def finished(page: Page) -> None:
    """Let a short continuation be made, and everything be seen."""
    if page.locator(".mg-how").is_visible():
        page.locator(".mg-how").click()
    page.get_by_text("More: temperature").click()
    if page.locator(".mg-sheet-close").is_visible():
        page.locator(".mg-sheet-close").click()
    page.get_by_text("Tracks", exact=True).click()
    page.get_by_text("Play to it").click()
    go_on(page, bars=1, variations=2)
    await_end(page)
    page.locator(".mg-history > summary").click()


def refused(page: Page) -> None:
    """Let the page show an error."""
    send(page, "a.mid", b"no music")
    expect(page.locator(".mg-stage > [role=alert]")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_can_be_read(visit, scheme: str):
    page = visit(scheme=scheme)
    finished(page)
    choose_bars(page, 2, 2)
    refused(page)
    page.mouse.move(0, 0)
    page.wait_for_timeout(500)  # colours change slowly
    texts = page.evaluate(CONTRASTS)
    assert len(texts) > 80
    assert not [one for one in texts if one["ratio"] < (3 if one["large"] else 4.5)]


def deleted(page: Page) -> None:
    """Delete all that there is."""
    rows = page.locator(".mg-history-row .mg-drop")
    for left in range(rows.count() - 1, -1, -1):
        rows.first.click()
        expect(rows).to_have_count(left)
    expect(page.locator(".mg-stage h2")).to_have_text("Nothing is open")


def checked(page: Page, *acts) -> list:
    """Do one thing after the other; return what axe finds serious after each."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = []
    for act in acts:
        act()
        page.wait_for_timeout(400)
        answer = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
        found += [
            (one["id"], [node["html"][:120] for node in one["nodes"]])
            for one in answer["violations"]
            if one["impact"] in ("serious", "critical")
        ]
    return found


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_checker_finds_a_serious_fault(visit, scheme: str):
    page = visit(scheme=scheme)
    assert not checked(
        page,
        lambda: None,
        lambda: finished(page),
        lambda: choose_bars(page, 2, 2),
        lambda: page.locator(".mg-whole").click(),
        lambda: page.locator(".mg-take .mg-menu > summary").first.click(),
        lambda: refused(page),
        lambda: page.locator("[data-example=nothing]").click(),
        lambda: page.locator("[data-example=grid]").click(),
        lambda: page.get_by_role("button", name="Edit notes").click(),
        lambda: deleted(page),
        lambda: refused(page),
    )


def test_no_checker_finds_a_serious_fault_on_a_phone(visit):
    page = visit(**PHONE)
    assert not checked(
        page,
        lambda: None,
        lambda: page.locator(".mg-how").click(),
        lambda: page.keyboard.press("Escape"),
        lambda: page.locator(".mg-unfold").click(),
        lambda: (page.locator(".mg-unfold").click(), finished(page)),
        lambda: choose_bars(page, 2, 2),
        lambda: page.locator(".mg-take .mg-menu > summary").first.click(),
        lambda: page.locator(".mg-desk-menu > summary").click(),
        lambda: (page.keyboard.press("Escape"), go_on(page, bars=128)),
        lambda: expect(page.locator(".mg-status [role=status]")).to_contain_text("left"),
    )
    page.locator("#mg-halt").click()
    await_end(page)


def test_every_target_is_as_large_as_a_finger(visit):
    page = visit(**PHONE)
    finished(page)
    targets = page.evaluate(TARGETS)
    assert len(targets) > 40
    assert not [one for one in targets if min(one["width"], one["height"]) < FINGER]
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_on_a_phone_the_new_music_is_what_one_sees_and_play_and_continue_stay(visit):
    page = visit(**PHONE, reduced_motion="reduce")
    for name in ("#mg-go", "#mg-dock-play"):
        expect(page.locator(name)).to_be_in_viewport(ratio=1)
    fill(page, "bars", 32)
    page.evaluate("scrollTo(0, 300)")
    page.locator("#mg-go").click()
    first = page.locator(".mg-take").first
    expect(first.locator(".mg-roll")).to_be_in_viewport(ratio=1, timeout=WAIT)  # while it comes
    assert page.evaluate("musicgen.app.composer.busy")
    for name in ("#mg-halt", "#mg-dock-play"):
        expect(page.locator(name)).to_be_in_viewport(ratio=1)
    page.locator("#mg-halt").click()
    await_end(page)
    expect(first).to_be_in_viewport()


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

    def press(name: str, within: str = "body", key: str = "Enter") -> str:
        page.locator(within).get_by_role("button", name=name, exact=True).first.focus()
        page.keyboard.press(key)
        page.wait_for_timeout(150)
        return page.evaluate(HAS_FOCUS)

    page.locator(".mg-stage canvas").focus()
    page.keyboard.press("Shift+ArrowRight")
    assert press("Choose no bars").startswith("Piano roll")
    page.keyboard.press("Shift+ArrowRight")
    assert press("Delete", ".mg-range-bar").startswith("Piano roll")
    page.locator(".mg-stage .mg-menu > summary").focus()
    page.keyboard.press("Enter")
    with page.expect_download():
        assert press("MIDI", ".mg-stage") == "Save"
    fill(page, "bars", 128)
    assert press("Continue") == "Stop"
    page.wait_for_function("() => musicgen.desk.takes[1]?.now > 48 * 6")
    assert press("Stop") in {"Stop", "Continue"}
    await_end(page)
    assert page.evaluate(HAS_FOCUS) == "Continue"
    assert press("Delete this take") == "Play"
    assert press("Continue from here").startswith("Piano roll of your piece")
    expect(page.locator(".mg-stage canvas")).to_be_in_viewport()
    page.locator(".mg-history > summary").click()
    assert press("Star: Disco trio").startswith("Star: ")
    assert press("Delete: Disco trio", ".mg-history").startswith("Delete: ")
    page.get_by_label("Model").select_option("pop-piano")
    page.locator(".mg-notices button").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".mg-notices button")).to_have_count(0)
    assert page.evaluate(HAS_FOCUS).startswith("Piano roll")


def test_a_screen_reader_is_told_what_there_is_and_how_far_it_is(page: Page):
    expect(page.locator(".mg-stage canvas")).to_have_attribute("aria-label", ROLL)
    expect(page.get_by_role("region", name="Your piece")).to_be_visible()
    for name in ("How to go on", "Player"):
        expect(page.get_by_role("region", name=name)).to_be_visible()
    status = page.locator("#mg-takes [role=status]")
    expect(status).to_have_text("")  # there before it speaks, or it would not be heard
    finished(page)
    expect(status).to_contain_text("2 variations in")
    expect(page.get_by_role("article", name="Variation 2")).to_be_visible()


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


def test_nothing_given_nothing_to_choose(page: Page):
    page.locator("[data-example=nothing]").click()
    expect(page.locator("#mg-prompt-bars")).to_be_hidden()
    page.locator("[data-example=trio-jazz]").click()
    expect(page.locator("#mg-prompt-bars input[type=number]")).to_have_value("4")


def test_five_thousand_notes_are_painted_with_little_work(page: Page):
    """A stroke a note and some a bar, styles looked up once: a frame's time is enough on any machine."""
    found = page.evaluate(PAINTING)
    assert 5000 < found["whole"]["drawn"] < 5000 + 625 * 2
    assert found["near"]["drawn"] < found["whole"]["drawn"] / 10  # only what is in sight
    assert found["whole"]["looked"] == found["near"]["looked"] == 1
    assert found["inked"] > 100  # up to the last bars
