"""The page by the keyboard alone: open a file, select bars, rewrite them, keep a take, save it."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.app.web.browser import WAIT
from tests.app.web.hands import NOTES, SHOWN, fill, outside, rest
from tests.tools.page.own_files import chords, midi, part
from tokenization.midi.reading import read_midi

FOCUSED = """() => {
  const one = document.activeElement;
  return (one.ariaLabel || one.labels?.[0]?.textContent || one.textContent.trim()).split(":")[0];
}"""
MOST_TABS = 120


def reach(page: Page, name: str) -> None:
    """Press Tab until an element is focused."""
    for _ in range(MOST_TABS):
        if page.evaluate(FOCUSED) == name:
            return
        page.keyboard.press("Tab")
    pytest.fail(f"Tab does not reach {name}")


def press(page: Page, name: str) -> None:
    reach(page, name)
    page.keyboard.press("Enter")


def test_a_take_is_made_and_saved_by_keys_alone(page: Page, tmp_path: Path):
    fill(page, "variations", 1)
    page.locator("h1").click()
    song = tmp_path / "song.mid"
    song.write_bytes(midi({"Keys": part(0, 4, chords())})[0])
    with page.expect_file_chooser() as chooser:
        press(page, "Open…")
    chooser.value.set_files(song)
    expect(page.locator(SHOWN)).to_have_text("song")
    before = page.evaluate(NOTES)
    reach(page, "Piano roll of your piece")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("Shift+ArrowRight")
    expect(page.locator(".mg-range-words").first).to_have_text("Bars 2–3")
    press(page, "Rewrite")
    expect(page.locator(".mg-take .mg-further")).to_be_visible(timeout=WAIT)
    expect(page.locator("#mg-go")).to_have_text("Continue", timeout=WAIT)
    press(page, "Keep this take")
    rest(page)
    bar = 4 * page.evaluate("musicgen.desk.current.piece.ticksPerBeat")
    after = page.evaluate(NOTES)
    assert outside(after, bar, 3 * bar) == outside(before, bar, 3 * bar)
    reach(page, "Save")
    page.keyboard.press("ArrowDown")
    assert page.evaluate(FOCUSED) == "MIDI"
    with page.expect_download() as download:
        page.keyboard.press("Enter")
    saved = read_midi(Path(download.value.path()).read_bytes())
    assert len(saved.notes) == len(after) // 5
    page.keyboard.press("Control+Enter")
    expect(page.locator("#mg-go")).to_have_text("Stop")
    expect(page.locator("#mg-go")).to_have_text("Continue", timeout=WAIT)
    page.locator(".mg-take").first.wait_for()


def test_a_starred_take_stays_and_leaving_a_piece_forgets_what_was_set_for_it(page: Page):
    """Earlier starred takes are first; playback stops, and the history has one row for a piece."""
    fill(page, "bars", 1)
    fill(page, "variations", 2)
    page.get_by_label("Write an ending").check()
    page.get_by_label("Chord progression").fill("C | F")
    page.get_by_label("Form of the new bars").fill("A")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".mg-take .mg-further").nth(1)).to_be_visible(timeout=WAIT)
    expect(page.locator("#mg-go")).to_have_text("Continue", timeout=WAIT)
    page.get_by_role("article", name="Take 2").get_by_label("Star").click()
    page.keyboard.press("Control+Enter")
    expect(page.locator(".mg-take")).to_have_count(3, timeout=WAIT)
    names = [one.get_attribute("aria-label") for one in page.locator(".mg-take").all()]
    assert names == ["Take 2", "Take 3", "Take 4"]
    expect(page.locator("#mg-go")).to_have_text("Continue", timeout=WAIT)
    page.locator(".mg-history > summary").click()
    expect(page.locator(".mg-history-list").first.locator("> .mg-history-row")).to_have_count(1)
    page.get_by_text("4 earlier versions").click()
    expect(page.locator(".mg-versions .mg-history-row")).to_have_count(4)
    page.locator(".mg-stage").get_by_label("Play", exact=True).click()
    page.wait_for_function("() => musicgen.player.playing")
    page.locator(".mg-new-menu > button").click()
    page.locator("[data-example=trio-jazz]").click()
    page.wait_for_function("() => musicgen.desk.current?.example === 'trio-jazz'")
    assert not page.evaluate("musicgen.player.playing")
    kept = page.evaluate(
        "(({ ends, chords, form }) => [ends, chords, form])(musicgen.desk.settings)"
    )
    assert kept == [False, "", ""]


def test_a_click_on_the_form_changes_no_goal_and_a_take_is_dragged_out(page: Page):
    page.get_by_role("button", name="Plan", exact=True).click()
    rest(page)
    x, y = page.evaluate("""() => {
      const roll = musicgen.rolls.stage(), box = roll.view.getBoundingClientRect(), { lines } = roll.plan;
      return [box.left + roll.x(lines[17] + 1) - roll.view.scrollLeft, box.bottom - 72];
    }""")  # the letters are 62 to 80 pixels above the bottom
    page.mouse.click(x, y)
    assert page.evaluate("Object.keys(musicgen.desk.goals).length") == 0
    save = page.locator(".mg-stage .mg-menu > button").last
    save.hover()
    page.wait_for_timeout(500)
    given = save.evaluate("""(button) => {
      const dataTransfer = new DataTransfer(), event = new DragEvent("dragstart", { dataTransfer });
      button.dispatchEvent(event);
      return dataTransfer.getData("DownloadURL");
    }""")
    assert given.startswith("audio/midi:Piano in C.mid:blob:")
    again = save.evaluate("""async (button) => {
      const { createObjectURL } = URL;
      let made = 0;
      URL.createObjectURL = (what) => (made++, createObjectURL(what));
      for (const _ of "123") button.dispatchEvent(new Event("pointerenter"));
      await new Promise((done) => setTimeout(done, 300));
      URL.createObjectURL = createObjectURL;
      return made;
    }""")
    assert again == 0, "the file is made again although the piece is the same"
