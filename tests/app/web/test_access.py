"""The page is for all: fingers, keyboards, faint eyes, screen readers, calm minds; and long pieces."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.app.web.browser import WAIT
from tests.app.web.hands import await_end, choose_bars, fill, go_on, rest, send
from tests.app.web.test_keys import ROLL

AXE = Path(__file__).parent / "vendor" / "axe.min.js"
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
    rest(page)


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
    rest(page)
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
        rest(page)
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
    fill(page, "bars", 64)
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
