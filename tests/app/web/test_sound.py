"""Playback, recording and keyboard use in the browser."""

import io
import struct

import numpy as np
import pretty_midi
import pytest
from playwright.sync_api import Page, expect

from app.audio import TAIL
from app.web.composing.opened_files import made_here
from tests.app.web.hands import (
    NOTES,
    SHOWN,
    await_end,
    downloaded,
    fill,
    go_on,
    open_example,
    playback,
    rest,
)

pytestmark = pytest.mark.long


@pytest.fixture
def page(visit):
    """A page with a trio."""
    found = visit()
    open_example(found, "trio-disco")
    return found


# Record the levels of the audio output from now on.
LISTEN = """async () => {
  const { synth } = musicgen.player;
  await synth.ready;
  await synth.context.resume();
  const { context } = synth, tap = context.createScriptProcessor(1024, 1, 1);
  const heard = (window.heard = { blocks: [], rate: context.sampleRate });
  tap.onaudioprocess = ({ inputBuffer: { length }, inputBuffer }) =>
    heard.blocks.push(Math.hypot(...inputBuffer.getChannelData(0)) / Math.sqrt(length));
  synth.output.connect(tap).connect(new GainNode(context, { gain: 0 })).connect(context.destination);
}"""
COUNTED_IN = "() => musicgen.app.recorder.on && musicgen.app.recorder.now() > 0"
# No resource has arrived for 4 s; the answers of a busy server can be seconds apart.
ALL_HAS_COME = """() => {
  const count = performance.getEntriesByType("resource").length, now = performance.now();
  if (count !== window.lastCount) [window.lastCount, window.lastCame] = [count, now];
  return now - window.lastCame > 4000;
}"""


def test_playback_starts_at_once_without_a_request(page: Page):
    page.evaluate(LISTEN)
    page.wait_for_function(ALL_HAS_COME)  # deferred files load after the page
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.evaluate(
        "addEventListener('click', () => (heard.blocks = []), { capture: true, once: true })"
    )
    page.locator(".mg-stage").get_by_label("Play", exact=True).click()
    page.wait_for_function("() => Math.max(...heard.blocks) > 0.02")  # a busy page drops blocks
    first = int(np.argmax(np.array(page.evaluate("heard.blocks")) > 0.003))
    assert first * 1024 / page.evaluate("heard.rate") < 0.5
    expect(page.locator(".mg-stage .mg-cursor")).to_be_visible()
    page.get_by_text("Tracks", exact=True).click()
    page.locator(".mg-playback").get_by_role("button", name="Playback").click()
    page.locator("#mg-loop").click()  # so that it continues
    page.keyboard.press("Escape")
    for name in ("Bass", "Drums", "Other"):
        page.get_by_role("button", name=f"Mute {name}").click()
    page.evaluate("heard.blocks = []")  # sounding notes fade
    page.wait_for_function(
        "() => heard.blocks.length > 20 && Math.max(...heard.blocks.slice(-20)) < 0.004"
    )
    assert page.evaluate("musicgen.player.playing")
    assert asked == []


def test_saved_as_heard_is_what_the_page_plays(page: Page):
    page.evaluate("() => musicgen.desk.set({ seed: 9, newSeed: false })")  # a seed that gives notes
    go_on(page, bars=1)
    await_end(page)
    page.get_by_text("Tracks", exact=True).click()
    page.get_by_role("button", name="Mute Bass").click()
    playback(page, "tempo", 2)
    playback(page, "transpose", 3)
    expect(page.locator(".mg-playback > button").first).to_have_text("Playback +3")
    heard, written = (downloaded(page, f"MIDI as {how}") for how in ("heard", "written"))
    said, says = made_here(heard), made_here(written)
    assert said
    assert said.pop("as_heard") == "transposed by +3, at 200 % of the tempo, Bass muted"
    assert said == says
    sound = downloaded(page, "WAV as heard")
    rate = struct.unpack_from("<I", sound, 24)[0]
    length = pretty_midi.PrettyMIDI(io.BytesIO(heard)).get_end_time()
    assert abs((len(sound) - 44) / 4 / rate - length - TAIL) < 0.1


def test_a_recording_goes_to_the_piece_it_was_started_on(page: Page):
    before = page.evaluate(NOTES)
    page.locator(".mg-play-in summary").click()
    page.get_by_role("button", name="Computer keys").click()
    page.get_by_label("Part", exact=True).select_option(label="Bass")
    page.get_by_role("button", name="● Record").click()
    page.wait_for_function(COUNTED_IN)
    page.locator("body").press("a", delay=300)
    expect(page.locator("#mg-dock [role=status]")).to_contain_text("press Done")
    open_example(page, "piano-g-minor")
    page.get_by_role("button", name="■ Done").click()
    expect(page.locator(SHOWN)).to_have_text("Disco trio")
    notes = page.evaluate(NOTES)
    assert (len(notes), notes[-3], notes[-1]) == (len(before) + 5, 60, 0)  # in the bass part
    bars = page.evaluate("musicgen.desk.current.piece.lines.length - 1")
    assert page.evaluate("musicgen.desk.open.chosen") == bars > 16  # the prompt is the whole piece


# The name of the focused element.
FOCUS = """() => {
  const one = document.activeElement;
  return one.ariaLabel || one.labels?.[0]?.textContent || one.textContent.trim();
}"""


def test_the_page_works_by_keyboard_and_keeps_the_focus(page: Page):
    """If a key removes the focused element, the focus moves to a neighbour."""
    canvas, facts = page.locator(".mg-stage canvas"), page.locator(".mg-stage .mg-facts")

    def lands_on(words: str) -> None:
        rest(page)
        page.wait_for_function(f"words => new RegExp(words).test(({FOCUS})())", arg=words)

    def press(name: str, then: str, within: str = "body") -> None:
        page.locator(within).get_by_role("button", name=name, exact=True).first.focus()
        page.keyboard.press("Enter")
        lands_on(then)

    canvas.focus()
    for key in ("ArrowRight", "ArrowRight", "Shift+ArrowRight", "Shift+ArrowRight"):
        page.keyboard.press(key)
    expect(page.locator(".mg-range-words")).to_have_text("Bars 3–4")
    press("Delete", "^Piano roll", ".mg-range-bar")
    expect(facts).to_contain_text("14 bars")
    fill(page, "bars", 128)
    press("Continue", "^Stop$")
    page.wait_for_function("() => musicgen.desk.takes[1]?.now > 96 * 18")
    press("Stop", "^(Stopping…|Continue)$")
    await_end(page)
    lands_on("^Continue$")
    press("Delete this take", "^Play take 2$")
    press("Keep this take", "^Piano roll of your piece")
    expect(canvas).to_be_in_viewport()
    page.locator(".mg-history > summary").click()
    page.locator(".mg-versions > summary").first.click()
    press("Delete: Disco trio", "^Delete: ", ".mg-history")
