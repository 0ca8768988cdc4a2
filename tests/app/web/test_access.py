"""The page is for all: fingers, keyboards, faint eyes, screen readers, calm minds; and long pieces."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.app.web.browser import WAIT

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
  .filter((one) => one.checkVisibility({ visibilityProperty: true }) && !one.matches("label input, .mg-file"))
  .map((one) => ({ name: one.ariaLabel || one.textContent.trim(), box: one.getBoundingClientRect() }))
  .map(({ name, box }) => ({ name, width: box.width, height: box.height }))"""
# What has the focus: the part of the page, its name, and whether that is seen.
FOCUS = """() => {
  const one = document.activeElement, shown = one.matches(".mg-file") ? one.nextSibling : one;
  const ringed = [shown, shown.firstElementChild, shown.closest("#mg-model .wrap")]
    .filter(Boolean).map((part) => getComputedStyle(part)).some(
      (style) => style.outlineStyle !== "none" || style.boxShadow !== "none");
  return [one.closest("[id^=mg-]:not(.mg-file)")?.id ?? "", one.ariaLabel || shown.textContent.trim(), ringed];
}"""
# A roll of 5,000 notes: what a painting asks of the canvas and of styles, with all in sight and with a few bars.
PAINTING = """() => {
  const box = document.createElement("div");
  document.querySelector(".mg-stage").append(box);
  const roll = new musicgen.Roll(box, { label: "long", height: "260px" });
  const notes = Array.from({ length: 5000 }, (_, i) =>
    `${6 * i},${4 + (i % 20)},${40 + ((7 * i) % 48)},${i % 128},${i % 3};`);
  const tracks = ["Bass", "Drums", "Other"].map((name) => ({ name, drum: name === "Drums" }));
  roll.show({ notes: notes.join(""), count: 5000, tracks, tempos: [], chords: [], ticksPerBeat: 12, barTicks: 48,
    endTicks: 30000, bars: 625, promptBars: 300, trainedBars: 400 });
  const { canvas } = roll, pen = canvas.getContext("2d"), look = window.getComputedStyle;
  const counted = { drawn: 0, looked: 0 };
  canvas.getContext = () => new Proxy(pen, {
    get: (_, name) => typeof pen[name] !== "function" ? pen[name] : (...given) => {
      counted.drawn += 1;
      return pen[name](...given);
    },
    set: (_, name, value) => { pen[name] = value; return true; },
  });
  window.getComputedStyle = (...given) => { counted.looked += 1; return look(...given); };
  const painted = (zoom) => {
    roll.scale(0.01);
    roll.zoom = zoom;
    roll.layout();
    Object.assign(counted, { drawn: 0, looked: 0 });
    musicgen.paint(roll);
    return { ...counted };
  };
  const near = painted(40), whole = painted(box.clientWidth / 625);
  const inked = pen.getImageData(canvas.width - 40, 0, 40, canvas.height).data;
  window.getComputedStyle = look;
  box.remove();
  return { whole, near, inked: inked.filter((value, i) => i % 4 === 3 && value).length };
}"""


def finished(page: Page) -> None:
    """Let a short continuation be made, and everything be seen."""
    page.get_by_text("More: temperature").click()
    field = page.locator("#mg-bars input[type=number]")
    field.fill("1")
    field.press("Tab")
    page.locator("#mg-go").click()
    expect(page.locator(".mg-take .mg-further").first).to_be_visible(timeout=WAIT)


def refused(page: Page) -> None:
    """Let the page show an error."""
    page.locator("#mg-file").set_input_files(
        {"name": "a.mid", "mimeType": "audio/midi", "buffer": b"no music"}
    )
    expect(page.locator(".mg-stage [role=alert]")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_can_be_read(visit, scheme: str):
    page = visit(scheme=scheme)
    finished(page)
    refused(page)
    page.mouse.move(0, 0)
    page.wait_for_timeout(500)  # colours change slowly
    texts = page.evaluate(CONTRASTS)
    assert len(texts) > 80
    assert not [one for one in texts if one["ratio"] < (3 if one["large"] else 4.5)]


def test_every_target_is_as_large_as_a_finger(visit):
    page = visit(**PHONE)
    finished(page)
    targets = page.evaluate(TARGETS)
    assert len(targets) > 30
    assert not [one for one in targets if min(one["width"], one["height"]) < FINGER]
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_on_a_small_screen_the_new_music_comes_into_sight(visit):
    page = visit(**PHONE, reduced_motion="reduce")
    field = page.locator("#mg-bars input[type=number]")
    field.fill("1")
    field.press("Tab")
    page.evaluate("scrollTo(0, 300)")
    page.locator("#mg-go").evaluate("button => button.click()")
    expect(page.locator(".mg-take .mg-further").first).to_be_visible(timeout=WAIT)
    expect(page.locator(".mg-take").first).to_be_in_viewport()


def test_the_tab_key_goes_from_top_to_bottom_and_is_seen(page: Page):
    seen = []
    while len(seen) < 40 and (not seen or seen[-1][0] != "mg-go"):
        page.keyboard.press("Tab")
        seen.append(page.evaluate(FOCUS))
    places = [place for place, *_ in seen if place]
    assert list(dict.fromkeys(places)) == [
        *("mg-stage", "mg-model", "mg-prompt-bars", "mg-bars", "mg-variations", "mg-more", "mg-go")
    ]
    stage = [name for place, name, _ in seen if place == "mg-stage"]
    assert stage[0] == "Open a MIDI file…"
    assert stage[2:7] == ["Bars of the prompt", "Play", "Zoom out", "Zoom in", "Fit"]
    assert not [one for one in seen if not one[1] or not one[2]]


def test_a_screen_reader_is_told_what_there_is_and_how_far_it_is(page: Page):
    roll = page.locator(".mg-stage canvas")
    expect(roll).to_have_attribute("aria-label", "Piano roll of your piece: 1214 notes in 16 bars. "
                                   "Space plays, left and right go by bars, plus and minus zoom.")  # fmt: skip
    expect(page.get_by_role("region", name="Your piece")).to_be_visible()
    fold = page.get_by_role("button", name="More: temperature")
    expect(fold).to_have_attribute("aria-expanded", "false")
    status = page.locator("#mg-takes [role=status]")
    expect(status).to_have_text("")  # there before it speaks, or it would not be heard
    finished(page)
    expect(fold).to_have_attribute("aria-expanded", "true")
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


def test_the_new_part_is_a_press_away(page: Page):
    finished(page)
    take = page.locator(".mg-take").first
    take.get_by_label("To the new part").click()
    expect(take.locator(".mg-time")).to_have_text(re.compile("^0:08 / "))


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
