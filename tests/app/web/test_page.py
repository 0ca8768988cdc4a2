"""The page in a browser as a musician uses it; test_desk.py is about stored desks."""

import re
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

from app.web.offered_models import example
from tests.app.web.browser import WAIT
from tests.app.web.hands import (
    NOTES,
    PHONE,
    SHOWN,
    act,
    await_end,
    begin,
    choose_bars,
    downloaded,
    fill,
    go_on,
    new_notes,
    open_example,
    outside,
    rest,
    send,
    spot,
    track,
)
from tests.app.web.sites import BOTH
from tokenization.formats import read_file
from tokenization.midi.reading import read_midi

pytestmark = BOTH
AXE = Path(__file__).parent / "vendor" / "axe.min.js"
PROMPT = "#mg-chosen input[type=number]"
FACTS = ".mg-stage .mg-facts"
ALARM = "#mg-dock [role=alert]"
BAR = 96  # ticks
# The notes of the file of the piece, as it is read for the next request.
READ_AGAIN = """async () => {
  const { file: bytes, fileName: name } = musicgen.desk.current, model = musicgen.app.model.name;
  return (await musicgen.requests.open({ bytes, name, model })).piece.notes;
}"""


def test_open(page: Page):
    """Open a file, invalid ones, an example, and a new idea."""
    alarm = page.locator(ALARM)
    send(page, "my song.mid", example("trio-jazz"))
    expect(page.locator(SHOWN)).to_have_text("my song")
    expect(page.locator(FACTS)).to_contain_text("16 bars")
    large = b"MThd" + bytes(1 << 20)
    for name, data in (("page.mid", b"<!doctype html>"), ("bild.mxl", b"\xff\xfb"), ("large.mid", large)):  # fmt: skip
        send(page, name, data)
        expect(alarm).to_contain_text(f"“{name}” is")
        assert "\\x" not in alarm.inner_text()
        expect(page.locator(SHOWN)).to_have_text("my song")  # unchanged
    open_example(page, "piano-g-minor")
    expect(alarm).to_be_hidden()
    expect(page.get_by_label("Model")).to_have_value(
        page.evaluate("musicgen.app.facts.models[0].name")
    )
    expect(page.locator(PROMPT)).to_have_value("16")
    begin(page, "nothing")
    expect(page.locator("#mg-go")).to_have_text("Generate")
    expect(page.locator(".mg-rest")).to_contain_text("Press Generate:")
    expect(page.locator("#mg-chosen")).to_be_hidden()


def test_a_browser_that_is_too_old_is_told(browser: Browser, address: str):
    page = browser.new_context().new_page()
    page.add_init_script("delete Uint8Array.fromBase64")
    page.goto(address)
    expect(page.locator("[role=alert]")).to_contain_text("This browser is too old for the page")
    page.context.close()


def test_begin(page: Page):
    """A new idea is followed, and an impossible one is reported."""
    idea, alarm = page.locator(".mg-idea"), page.locator(ALARM)
    begin(page, "nothing")
    for label, choice in (("Key", "G minor"), ("Time signature", "3/4")):
        idea.get_by_label(label).select_option(choice)
    idea.get_by_label("Instruments").fill("Violin, violin, kazoo")
    go_on(page, bars=1)
    expect(alarm).to_contain_text("There is no instrument 'kazoo'")
    idea.get_by_label("Instruments").fill("violin, Violin")
    idea.get_by_label("Instruments").press("Tab")
    idea.get_by_label("Add an instrument").select_option("Flute")
    expect(idea.get_by_label("Instruments")).to_have_value("Violin, Violin, Flute")
    idea.get_by_label("Tempo").fill("5")
    go_on(page, bars=1)
    expect(alarm).to_contain_text("The tempo is 5; it must be from 30")
    idea.get_by_label("Tempo").fill("72")
    go_on(page, bars=1)
    await_end(page)
    expect(alarm).to_be_hidden()
    piece = page.evaluate("musicgen.desk.takes[0].piece")
    assert [track["name"] for track in piece["tracks"]] == ["Violin", "Violin 2", "Flute"]
    assert (piece["tempos"], piece["meters"][0][1:]) == ([[0, 72]], [3, 4])


def test_continue(page: Page):
    """Two takes of two bars, one of which is played and continued."""
    page.get_by_text("For experts").click()
    page.get_by_label("Seed", exact=True).fill("9")
    page.get_by_label("Seed", exact=True).press("Tab")
    status = page.locator("#mg-dock [role=status]")
    expect(status).to_have_text("")  # it must exist before its text for screen readers
    go_on(page, bars=2, variations=2)
    await_end(page)
    expect(status).to_have_text(re.compile(r"^2 takes of 2 bars in [\d.]+ s\.$"))
    expect(page.get_by_role("article", name="Take 2")).to_be_visible()
    file = downloaded(page, "MIDI")
    assert b'"seed": 9' in file
    whole, heard = read_midi(file), read_midi(example("piano-c-major"))
    part = read_midi(downloaded(page, "New bars as MIDI"))
    assert len(whole.notes) > len(part.notes) == new_notes(page) > 0
    assert len(whole.notes) - len(part.notes) == len(heard.notes)
    page.get_by_role("button", name="Play take 1").click()
    page.wait_for_function("() => musicgen.player.playing && musicgen.player.tick > 15 * 96")
    page.keyboard.press(" ")
    page.locator(".mg-take .mg-further").first.click()
    expect(page.locator(SHOWN)).to_have_text("Piano in C, take 1")
    expect(page.locator(FACTS)).to_contain_text("18 bars")
    expect(page.locator(PROMPT)).to_have_value("18")
    expect(page.locator(".mg-take")).to_have_count(0)


def test_stop(page: Page):
    """Music appears while it is written, and is kept when stopped."""
    go_on(page, bars=128, variations=2)
    page.wait_for_function("() => musicgen.desk.takes[0]?.now > 96 * 20")
    expect(page.get_by_role("progressbar", name="Progress")).to_be_visible()
    expect(page.locator("#mg-dock [role=status]")).to_contain_text(
        re.compile(r"Composing bar \d+ of 128")
    )
    page.get_by_role("button", name="Play take 1").click()
    page.wait_for_function("() => musicgen.player.playing && musicgen.player.tick > 96 * 17")
    assert page.evaluate("musicgen.desk.takes[0].state") == "running"
    page.keyboard.press(" ")
    page.locator("#mg-go").click()
    await_end(page)
    expect(page.locator("#mg-dock [role=status]")).to_contain_text("Stopped")
    bars, beats = page.evaluate("[musicgen.desk.takes[0].chosen, musicgen.rolls.takes()[0].beats]")
    *lines, end = page.evaluate("musicgen.desk.takes[0].piece.lines")
    whole = read_midi(downloaded(page, "MIDI")).rescaled(BAR // 4)
    assert 20 < bars == len(lines) < 128
    assert lines[-1] <= whole.notes.onset_ticks.max() < end == beats * BAR // 4
    assert len(read_midi(downloaded(page, "New bars as MIDI")).notes) == new_notes(page) > 3


def test_undo(page: Page):
    """All steps can be undone and redone."""
    laid_open = "(({ listed, ...open }) => JSON.stringify(open))(musicgen.desk.open)"
    states = [page.evaluate(laid_open)]

    def done(what) -> None:
        what()
        page.wait_for_function(f"before => {laid_open} !== before", arg=states[-1])
        states.append(page.evaluate(laid_open))

    done(lambda: open_example(page, "trio-jazz"))
    page.get_by_text("Tracks", exact=True).click()
    done(lambda: page.get_by_label("Instrument of Bass").select_option("Flute"))
    done(lambda: page.get_by_role("slider", name="Continue after bar").press("ArrowLeft"))
    done(lambda: page.get_by_label("Model").select_option(index=1))
    expect(page.locator(SHOWN)).to_have_text("Jazz trio")
    done(lambda: go_on(page, bars=1))
    await_end(page)
    done(lambda: page.locator(".mg-take .mg-drop").click())
    choose_bars(page, 3, 4)
    done(lambda: act(page, "Delete"))
    for state in states[-2::-1]:
        page.keyboard.press("Control+z")
        assert page.evaluate(laid_open) == state
    for state in states[1:]:
        page.keyboard.press("Control+Shift+z")
        assert page.evaluate(laid_open) == state


def test_rewrite(page: Page):
    """Some bars are rewritten, and all others stay."""
    before = page.evaluate(NOTES)
    fill(page, "variations", 1)
    choose_bars(page, 3, 4)
    act(page, "Rewrite")
    expect(page.locator(".mg-take .mg-further")).to_have_text("Keep this take", timeout=WAIT)
    page.locator(".mg-take .mg-further").click()
    after = page.evaluate(NOTES)
    assert after != before
    assert outside(after, 2 * BAR, 4 * BAR) == outside(before, 2 * BAR, 4 * BAR)


def test_accompany(page: Page):
    """A part is written to the others, which stay and are shown meanwhile."""
    open_example(page, "trio-disco")
    choose_bars(page, 3, 16)
    act(page, "Delete")
    expect(page.locator(FACTS)).to_contain_text("2 bars")
    before = page.evaluate(NOTES)
    fill(page, "variations", 1)
    page.get_by_text("Tracks", exact=True).click()
    page.evaluate("""() => {
      window.seen = [];
      musicgen.desk.watch((what, { entry }) => what === "grown" && seen.push([...entry.piece.notes]));
    }""")
    track(page, "Drums").get_by_role("button", name="Rewrite this part").click()
    await_end(page)
    seen = page.evaluate("seen")
    page.locator(".mg-take .mg-further").click()
    after = page.evaluate(NOTES)

    def of(notes: list[int], drums: bool) -> list[list[int]]:
        rows = [notes[i : i + 5] for i in range(0, len(notes), 5)]
        return sorted(row[:3] for row in rows if (row[4] == 1) == drums)

    assert seen
    assert all(of(notes, False) == of(before, False) for notes in [*seen, after])
    assert of(after, True) != of(before, True)


def test_rewrite_tracks(page: Page):
    """Bars × tracks are rewritten, chosen by heads of lanes, buttons or keys; so is every track."""
    open_example(page, "trio-disco")
    before = page.evaluate(NOTES)
    choose_bars(page, 3, 3)
    bar = page.locator(".mg-stage .mg-range-bar")
    bar.get_by_role("button", name="Bass", exact=True).click()
    expect(bar.get_by_role("button", name="Rewrite 1 track")).to_be_visible()
    expect(bar.get_by_role("button", name="Delete", exact=True)).to_be_hidden()
    page.locator(".mg-stage canvas").press("t")  # the next track alone
    assert page.evaluate("[...musicgen.rolls.stage().picked]") == [1]
    page.locator(".mg-stage .mg-roll").click(position={"x": 20, "y": 75})  # the head of the bass
    assert sorted(page.evaluate("[...musicgen.rolls.stage().picked]")) == [0, 1]
    bar.get_by_role("button", name="Rewrite 2 tracks").click()
    await_end(page)
    page.locator(".mg-take .mg-further").first.click()
    after = page.evaluate(NOTES)

    def kept(notes: list[int]) -> list[list[int]]:
        rows = [notes[i : i + 5] for i in range(0, len(notes), 5)]
        return sorted(row for row in rows if row[4] > 1 or not 2 * BAR <= row[0] < 3 * BAR)

    assert [row[:3] for row in kept(after)] == [row[:3] for row in kept(before)]
    assert after != before
    page.get_by_text("Tracks", exact=True).click()
    expect(page.locator(".mg-track-name").first).to_have_attribute("title", "Bass")
    for button in page.get_by_role("button", name="Rewrite this part").all():
        expect(button).to_have_attribute("aria-disabled", "false")


def test_add_parts_and_harmonise(page: Page):
    """Several parts are added in one take; chords are written as symbols."""
    choose_bars(page, 3, 16)
    act(page, "Delete")
    before = page.evaluate(NOTES)
    fill(page, "variations", 1)
    page.get_by_role("button", name="Add part", exact=True).click()
    box = page.locator(".mg-jobs").first
    expect(box.get_by_role("button", name="Write", exact=True)).to_have_attribute(
        "aria-disabled", "true"
    )
    box.get_by_label("Any other instrument").press_sequentially("banjo")
    box.get_by_label("Drums").check()
    box.get_by_role("button", name="Write", exact=True).click()
    await_end(page)
    page.locator(".mg-take .mg-further").click()
    assert page.evaluate("musicgen.desk.current.piece.tracks.map(({ name }) => name)") == [
        "Piano",
        "Drums",
        "Banjo",
    ]
    rows = np.reshape(page.evaluate(NOTES), (-1, 5))
    assert rows[rows[:, 4] == 0].flatten().tolist() == before
    read = np.reshape(page.evaluate(READ_AGAIN), (-1, 5))  # new notes may have other lengths
    page.get_by_role("button", name="Harmonise", exact=True).click()
    page.get_by_role("button", name="Other chord symbols").click()  # all are given
    await_end(page)
    expect(page.locator(".mg-take .mg-facts")).to_contain_text("New chords")
    page.locator(".mg-take .mg-further").click()
    after = np.reshape(page.evaluate(NOTES), (-1, 5))
    assert after.tolist() == read.tolist()
    assert np.delete(after, 1, axis=1).tolist() == np.delete(rows, 1, axis=1).tolist()
    page.keyboard.press("Control+z")
    expect(page.locator(".mg-take .mg-further")).to_be_visible()


def test_end(page: Page):
    """Music ends at the requested bar."""
    page.get_by_label("Write an ending").check()
    go_on(page, bars=2)
    await_end(page)
    assert page.evaluate("musicgen.desk.takes[0].piece.lines.length") == 19
    assert page.evaluate("musicgen.desk.settings.ends")


def test_edit(page: Page):
    """Notes are drawn on a blank piece, moved, lengthened, deleted, restored, and continued."""
    begin(page, "grid")
    expect(page.locator(SHOWN)).to_have_text("My piece")
    page.get_by_role("button", name="Edit notes").click()
    rest(page)
    page.mouse.click(*spot(page, 13, 60, 0))
    assert page.evaluate(NOTES) == [12, 12, 60, 84, 0]
    rest(page)
    canvas = page.locator(".mg-stage canvas")
    # Lengthen it by its right edge, and move it.
    drags = (
        ((23.8, 60), (26.8, 60), [12, 15, 60, 84, 0]),
        ((20, 60), (44, 64), [36, 15, 64, 84, 0]),
    )
    for start, to, wanted in drags:
        rest(page)
        end = spot(page, *to, 0)
        page.mouse.move(*spot(page, *start, 0))
        page.mouse.down()
        page.mouse.move(*end, steps=5)
        page.mouse.up()
        assert page.evaluate(NOTES) == wanted
    canvas.press("Delete")
    assert page.evaluate(NOTES) == []
    for wanted in ([36, 15, 64, 84, 0], [12, 15, 60, 84, 0], [12, 12, 60, 84, 0]):
        page.keyboard.press("Control+z")
        assert page.evaluate(NOTES) == wanted
    go_on(page, bars=1)
    await_end(page)
    expect(page.locator(ALARM)).to_be_hidden()
    assert page.evaluate("musicgen.desk.takes[0].title") == "My piece, take 1"
    onset, _, pitch, *_ = page.evaluate("[...musicgen.desk.takes[0].piece.notes]")
    assert [onset / BAR, pitch] == [1 / 4, 60]


def test_save(page: Page):
    """A take is saved as audio, its piece as a score and by tracks."""
    open_example(page, "trio-disco")
    go_on(page, bars=1)
    await_end(page)
    sound = downloaded(page, "WAV")
    assert (sound[:4], len(sound) > 1 << 18) == (b"RIFF", True)
    heard = read_midi(example("trio-disco"))
    score = read_file(downloaded(page, "Score (MusicXML)", ".mg-stage"), name="it")
    assert {one.name for one in score.tracks} >= {one.name for one in heard.tracks}
    assert -(-score.end_ticks // (4 * score.ticks_per_beat)) == 16
    bass = read_midi(downloaded(page, "Bass as MIDI", ".mg-stage"))
    index = [one.name for one in heard.tracks].index("Bass")
    assert len(bass.notes) == (heard.notes.track == index).sum()


# All controls with their size; a checkbox counts with its label.
TARGETS = """() => [...document.querySelectorAll("button, a, input, summary, label:has(input), [role=slider]")]
  .filter((one) => one.checkVisibility({ visibilityProperty: true }) && one.closest("#mg-desk, .mg-dock"))
  .filter((one) => !one.matches("label input, .mg-menu-list *"))
  .map((one) => ({ name: one.ariaLabel || one.textContent.trim(), box: one.getBoundingClientRect() }))
  .map(({ name, box }) => ({ name, least: Math.min(box.width, box.height) }))"""
FINGER = 44  # pixels
SCROLLS = """(of) => (({ scrollHeight, clientHeight }) => scrollHeight > clientHeight)(document.querySelector(of))"""


def test_phone(visit):
    """The settings are in a fold; new takes are in view, and so are Play and Continue."""
    page = visit(**PHONE, reduced_motion="reduce")
    how, field = page.locator(".mg-controls > summary"), page.locator("#mg-bars input[type=number]")
    expect(field).to_be_hidden()
    expect(how).to_contain_text("16 bars, 2 takes")
    fill(page, "bars", 64)
    expect(how).to_contain_text("64 bars")
    assert page.evaluate(SCROLLS, ".mg-controls") is False  # all of them are on the page
    page.evaluate("scrollTo(0, 300)")
    page.locator("#mg-go").tap()
    first = page.locator(".mg-take").first
    expect(first.locator(".mg-roll")).to_be_in_viewport(
        ratio=1, timeout=WAIT
    )  # while it is written
    assert page.evaluate("musicgen.app.composer.busy")
    for name in ("#mg-go", "#mg-dock-play"):
        expect(page.locator(name)).to_be_in_viewport(ratio=1)
    page.wait_for_function("() => musicgen.desk.takes[0].now > 96 * 17")
    page.locator("#mg-go").tap()
    await_end(page)
    expect(first).to_be_in_viewport()
    page.locator(".mg-history > summary").tap()
    page.get_by_text("Tracks", exact=True).tap()
    fit_for_fingers(page, 40)
    begin(page, "nothing")
    page.get_by_label("Model").select_option(index=1)
    expect(page.locator(".mg-idea")).to_be_in_viewport()
    fit_for_fingers(page, 20)


def test_fingers(visit):
    """A bar is selected, and a note deleted, by touch."""
    page = visit(**PHONE)
    expect(page.locator(".mg-stage .mg-hint")).to_contain_text("Tap or drag over bar numbers")
    for _ in range(2):  # once more, and it is no longer selected
        selected = page.locator(".mg-stage .mg-range-bar").is_visible()
        page.locator(".mg-stage canvas").tap(position={"x": 72, "y": 28})
        expect(page.locator(".mg-stage .mg-range-bar")).to_be_visible(visible=not selected)
    expect(page.locator(".mg-stage .mg-range-words")).to_have_text("Bar 1")
    page.get_by_role("button", name="Edit notes").tap()
    expect(page.locator("#mg-dock [role=status]")).to_contain_text("The bin deletes")
    rest(page)
    before = page.evaluate(NOTES)
    page.touchscreen.tap(*spot(page, before[0] + 1, before[2] - 1, before[4]))  # beside it
    page.get_by_role("button", name="Delete notes").tap()
    assert page.evaluate(NOTES) == before[5:]
    expect(page.get_by_role("button", name="Delete notes")).to_have_attribute(
        "aria-disabled", "true"
    )


def fit_for_fingers(page: Page, least: int) -> None:
    """Check that there are many controls, all large enough, on a page no wider than the screen."""
    rest(page)
    targets = page.evaluate(TARGETS)
    assert len(targets) > least
    assert not [one for one in targets if one["least"] < FINGER]
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def checked(page: Page, *acts) -> list:
    """Perform actions; return the serious faults that axe finds after each."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = []
    for one in acts:
        one()
        rest(page)
        answer = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
        found += [
            (fault["id"], [node["html"][:120] for node in fault["nodes"]])
            for fault in answer["violations"]
            if fault["impact"] in ("serious", "critical")
        ]
    return found


def finished(page: Page) -> None:
    """Write a short continuation, and open everything."""
    page.get_by_text("Tracks", exact=True).click()
    page.locator(".mg-play-in summary").click()
    go_on(page, bars=1, variations=2)
    await_end(page)
    page.locator(".mg-history > summary").click()
    choose_bars(page, 2, 2)


@pytest.mark.parametrize(
    "screen",
    [
        {},
        pytest.param({"scheme": "dark"}, marks=pytest.mark.long),
        pytest.param(PHONE, marks=pytest.mark.long),
    ],
    ids=str,
)
def test_axe_finds_no_serious_accessibility_fault(visit, screen: dict):
    page = visit(**screen)
    if screen != PHONE:
        page.get_by_text("For experts").click()

    def drawn_on() -> None:
        begin(page, "grid")
        page.get_by_role("button", name="Edit notes").click()

    def deleted() -> None:
        rows = page.locator(".mg-history-row .mg-drop")
        for left in range(rows.count() - 1, -1, -1):
            rows.first.click()
            expect(rows).to_have_count(left)
        expect(page.locator(SHOWN)).to_have_text("New idea")

    assert not checked(
        page,
        lambda: finished(page),
        lambda: page.locator(".mg-take .mg-menu > button").first.click(),
        lambda: page.get_by_role("button", name="Plan", exact=True).click(),
        lambda: page.get_by_role("button", name="Add part", exact=True).click(),
        lambda: page.keyboard.press("Escape"),
        lambda: (page.keyboard.press("Escape"), send(page, "a.mid", b"no music")),
        drawn_on,
        deleted,
    )
