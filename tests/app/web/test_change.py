"""Bars, tracks and notes are chosen and changed: written anew by a model, or by hand; and each change is undone."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.app.web.hands import (
    await_end,
    choose_bars,
    desk,
    downloaded,
    fill,
    go_on,
    keep_hints,
    rest,
)
from tokenization.midi.reading import read_midi

NOTES = "[...musicgen.desk.current.piece.notes]"


def act(page: Page, name: str) -> None:
    page.locator(".mg-range-bar:visible").get_by_role("button", name=name, exact=True).click()


def track(page: Page, name: str) -> Locator:
    named = page.locator(".mg-track-name", has_text=name)
    return page.locator(".mg-track", has=named)


def outside(notes: list[int], first: int, stop: int) -> list[list[int]]:
    """Return the notes that do not begin in ticks first … stop − 1."""
    rows = [notes[i : i + 5] for i in range(0, len(notes), 5)]
    return sorted(row[:3] + row[4:] for row in rows if not first <= row[0] < stop)


def test_bars_are_written_anew_and_all_else_stays(later: Page):
    before = later.evaluate(NOTES)
    fill(later, "variations", 1)
    choose_bars(later, 3, 4)
    act(later, "Write anew")
    expect(later.locator(".mg-take .mg-further")).to_have_text("Take this one", timeout=60_000)
    later.locator(".mg-take .mg-further").click()
    after = later.evaluate(NOTES)
    assert after != before
    assert outside(after, 96, 192) == outside(before, 96, 192)
    later.get_by_role("button", name="Undo").click()
    assert later.evaluate(NOTES) == before
    later.get_by_role("button", name="Redo").click()
    assert later.evaluate(NOTES) == after


def test_bars_that_are_silent_now_are_a_take(later: Page):
    fill(later, "variations", 1)
    choose_bars(later, 3, 3)
    act(later, "Write anew")
    await_end(later)
    later.evaluate("""() => {
      const { desk } = musicgen, take = desk.takes[0], { notes, lines } = take.piece;
      const kept = notes.filter((_, i) => notes[i - (i % 5)] < lines[2] || notes[i - (i % 5)] >= lines[3]);
      desk.put({ ...take, id: take.id, fresh: 0, piece: { ...take.piece, notes: kept } });
    }""")
    expect(later.locator(".mg-take .mg-facts")).to_contain_text("These bars are silent now")
    later.locator(".mg-take .mg-further").click()
    notes = later.evaluate(NOTES)
    assert outside(notes, 96, 144) == outside(notes, 0, 0)


def test_a_part_is_written_to_the_others(later: Page):
    later.get_by_label("How long, in bars, as a number").fill("4")
    choose_bars(later, 3, 16)
    act(later, "Delete")
    expect(later.locator(".mg-stage .mg-facts")).to_contain_text("2 bars")
    before = later.evaluate(NOTES)
    fill(later, "variations", 1)
    later.get_by_text("Tracks", exact=True).click()
    later.evaluate("""() => {
      window.seen = [];
      musicgen.desk.watch((what, { entry }) => {
        if (what === "grown" && entry.state === "running") seen.push([...entry.piece.notes]);
      });
      const words = document.querySelector(".mg-status span"), said = (window.said = []);
      new MutationObserver(() => said.push(words.textContent)).observe(words, { childList: true });
    }""")
    track(later, "Drums").get_by_role("button", name="Write to the others").click()
    await_end(later)
    seen, said = later.evaluate("[seen, said]")
    later.locator(".mg-take .mg-further").click()
    after = later.evaluate(NOTES)

    def of(notes: list[int], drums: bool) -> list[list[int]]:
        rows = [notes[i : i + 5] for i in range(0, len(notes), 5)]
        return sorted(row[:3] for row in rows if (row[4] == 1) == drums)

    assert of(after, False) == of(before, False)
    assert seen  # while it is written, the other parts are there, to be seen and heard
    assert all(of(notes, False) == of(before, False) for notes in seen)
    assert any(words.startswith("Composing drums, bar ") for words in said)
    assert of(after, True) != of(before, True)


def test_music_comes_to_an_end_where_it_is_asked_to(later: Page):
    later.locator("#mg-ends-select").select_option("ends")
    go_on(later, bars=2)
    await_end(later)
    assert later.evaluate("musicgen.desk.takes[0].bars") == 6
    assert later.evaluate("musicgen.desk.settings.ends")


def test_what_a_model_cannot_do_is_done_by_the_related_one_that_can(page: Page):
    before = page.evaluate(NOTES)
    fill(page, "variations", 1)
    choose_bars(page, 3, 3)
    sentence = "untrained:tiny:groove cannot fill in bars, so groove-2 writes this."
    anew = page.locator(".mg-range-bar:visible").get_by_role("button", name="Write anew")
    expect(anew).to_have_attribute("title", re.compile(sentence))
    anew.click()
    expect(page.locator(".mg-by")).to_have_text(sentence)
    await_end(page)
    expect(page.locator(".mg-take .mg-facts")).to_contain_text("by groove-2")
    assert page.evaluate("musicgen.desk.takes[0].provenance.model") == "groove-2"
    page.locator(".mg-take .mg-further").click()
    assert outside(page.evaluate(NOTES), 96, 144) == outside(before, 96, 144)
    expect(page.get_by_label("Model")).to_have_value("untrained:tiny:groove")
    expect(page.locator(".mg-by")).to_have_text("")
    page.locator("#mg-ends-select").select_option("ends")
    expect(page.locator("#mg-ends-why")).to_contain_text("so groove-2 writes this")


def test_what_no_model_of_its_kind_can_do_is_not_offered_and_why(page: Page):
    page.locator("[data-example=piano-g-minor]").click()
    expect(page.locator(".mg-stage h2")).to_have_text("Piano in G minor")
    page.get_by_text("Tracks", exact=True).click()
    write = track(page, "Piano").get_by_role("button", name="Write to")
    expect(write).to_have_attribute("aria-disabled", "true")
    expect(write).to_have_attribute("title", re.compile("groove-2 can"))
    before = desk(page)
    write.click(force=True)  # it says that it is disabled, and why
    expect(page.locator(".mg-mixer .mg-why")).to_contain_text("writes no part to others")
    assert desk(page) == before


def test_a_piece_ends_here_loses_bars_and_goes_on_from_here(page: Page):
    choose_bars(page, 5, 6)
    act(page, "End here")
    expect(page.locator(".mg-stage .mg-facts")).to_contain_text("6 bars")
    choose_bars(page, 2, 3)
    act(page, "Delete")
    expect(page.locator(".mg-stage .mg-facts")).to_contain_text("4 bars")
    fill(page, "bars", 1)
    fill(page, "variations", 1)
    choose_bars(page, 1, 2)
    act(page, "Go on from here")
    await_end(page)
    assert page.evaluate("musicgen.desk.takes[0].region.first") == 2
    for _ in range(2):
        page.get_by_role("button", name="Undo").click()
    for _ in range(2):
        page.get_by_role("button", name="Undo").click()
    expect(page.locator(".mg-stage .mg-facts")).to_contain_text("16 bars")


def test_bars_of_a_take_are_changed_too(page: Page):
    go_on(page, bars=4)
    await_end(page)
    choose_bars(page, 5, 6, card=".mg-take")
    act(page, "End here")
    expect(page.locator(".mg-stage h2")).to_have_text("Disco trio, variation 1")
    expect(page.locator(".mg-stage .mg-facts")).to_contain_text("6 bars")


def test_what_is_new_stays_so_when_bars_before_it_are_deleted(page: Page):
    go_on(page, bars=4)
    await_end(page)
    part = downloaded(page, "New part as MIDI")
    page.locator(".mg-take .mg-further").click()
    choose_bars(page, 2, 3)
    act(page, "Delete")
    expect(page.locator(".mg-stage .mg-facts")).to_contain_text("6 bars")
    assert page.evaluate("musicgen.desk.current.region") == {"first": 2, "stop": 6, "tracks": None}
    assert page.evaluate("musicgen.desk.current.provenance.prompt_bars") == [1, 2]
    again = downloaded(page, "New part as MIDI", card=".mg-stage")
    assert len(read_midi(again).notes) == len(read_midi(part).notes)


def test_bars_of_a_take_that_is_being_written_stay_until_its_end(page: Page):
    """The bars that are yet to come have their place already; they would be left over, empty."""
    go_on(page, bars=64)
    page.wait_for_function("() => musicgen.desk.takes[0]?.now > 12 * 4 * 12")
    choose_bars(page, 9, 9, card=".mg-take")
    bar = page.locator(".mg-take .mg-range-bar")
    for name in ("End here", "Delete", "Set chord"):
        button = bar.get_by_role("button", name=name, exact=True)
        expect(button).to_have_attribute("aria-disabled", "true")
        button.click(force=True)
        expect(bar.locator(".mg-why")).to_contain_text("still being written; press Stop first")
    assert page.evaluate("musicgen.desk.current.kind") == "example"
    page.locator("#mg-halt").click()
    await_end(page)


def test_what_can_be_done_with_chosen_bars_is_told_anew_when_composing_ends(page: Page):
    """A composition that is none stands for one that ends when it should, on a machine of any speed."""
    go_on(page, bars=4)
    await_end(page)
    page.evaluate("() => (musicgen.app.composer.run = { ids: [] })")
    choose_bars(page, 5, 6, card=".mg-take")
    bar = page.locator(".mg-take .mg-range-bar")
    on = bar.get_by_role("button", name="Go on from here")
    expect(on).to_have_attribute("aria-disabled", "true")
    on.click(force=True)
    page.evaluate("() => musicgen.desk.tell('grown', { entry: musicgen.desk.takes[0] })")
    rest(page)
    expect(bar.locator(".mg-why")).to_contain_text("press Stop first")  # as long as that is so
    page.evaluate("""() => {
      musicgen.app.composer.run = null;
      musicgen.desk.tell("composed", { run: {} });
    }""")
    expect(on).to_have_attribute("aria-disabled", "false")
    expect(bar.locator(".mg-why")).to_be_empty()
    expect(bar.locator(".mg-range-words")).to_have_text("Bars 5–6")


@pytest.mark.parametrize(("first", "stays"), [(5, True), (120, False)])
def test_bars_that_are_gone_are_chosen_no_more_and_others_stay_so(
    page: Page, first: int, stays: bool
):
    go_on(page, bars=128)
    page.wait_for_function("() => musicgen.desk.takes[0]?.now > 12 * 4 * 6")
    choose_bars(page, first, first + 1, card=".mg-take")
    bar = page.locator(".mg-take .mg-range-bar")
    expect(bar.locator(".mg-range-words")).to_have_text(f"Bars {first}–{first + 1}")
    page.locator("#mg-halt").click()
    await_end(page)
    assert 6 < page.evaluate("musicgen.desk.takes[0].bars") < 120
    expect(bar).to_be_visible(visible=stays)


def test_a_chord_that_is_none_leaves_a_take_where_it_is(page: Page):
    page.locator("[data-example=piano-g-minor]").click()
    expect(page.locator(".mg-stage h2")).to_have_text("Piano in G minor")
    go_on(page, bars=2)
    await_end(page)
    choose_bars(page, 9, 9, card=".mg-take")
    field = page.locator(".mg-take").get_by_label("A chord for this bar")
    field.fill("Hm?")
    field.press("Enter")
    expect(page.locator(".mg-stage > [role=alert]")).to_contain_text("is no chord")
    expect(page.locator(".mg-stage h2")).to_have_text("Piano in G minor")
    expect(page.locator(".mg-take")).to_have_count(1)
    expect(field).to_be_focused()
    field.fill("Am")
    field.press("Enter")
    expect(page.locator(".mg-stage h2")).to_have_text("Piano in G minor, variation 1")


def spot(page: Page, tick: float, pitch: int, track: int) -> tuple[float, float]:
    """Return where a pitch of a track lies on the stage at a tick."""
    return page.evaluate(
        """([tick, pitch, track]) => {
          const roll = musicgen.rolls.stage(), box = roll.view.getBoundingClientRect();
          const lane = roll.laid.find((one) => one.index === track), left = box.left + 1 - roll.view.scrollLeft;
          return [left + roll.x(tick), box.top + 1 + lane.top + (lane.row(pitch) + 0.5) * lane.step];
        }""",
        [tick, pitch, track],
    )


def test_notes_are_drawn_moved_lengthened_and_deleted(page: Page):
    page.locator("[data-example=grid]").click()
    expect(page.locator(".mg-stage h2")).to_have_text("My piece")
    page.get_by_role("button", name="Edit notes").click()
    rest(page)
    x, y = spot(page, 13, 60, 2)
    page.mouse.click(x, y)
    assert page.evaluate(NOTES) == [12, 12, 60, 84, 2]
    rest(page)
    canvas = page.locator(".mg-stage canvas")
    canvas.press("ArrowUp")
    canvas.press("ArrowRight")
    canvas.press("Shift+ArrowRight")
    assert page.evaluate(NOTES) == [15, 15, 61, 84, 2]
    rest(page)
    x, y = spot(page, 20, 61, 2)
    to = spot(page, 44, 64, 2)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(*to, steps=5)
    page.mouse.up()
    assert page.evaluate(NOTES) == [39, 15, 64, 84, 2]
    canvas.press("Delete")
    assert page.evaluate(NOTES) == []
    for wanted in (
        *([39, 15, 64, 84, 2], [15, 15, 61, 84, 2], [15, 12, 61, 84, 2]),
        [12, 12, 60, 84, 2],  # up and to the right were one step
    ):
        page.keyboard.press("Control+z")
        assert page.evaluate(NOTES) == wanted
    expect(page.locator(".mg-history > summary")).to_contain_text("History")


def test_what_moves_no_note_is_no_step_and_leaves_the_takes(page: Page):
    go_on(page, bars=1)
    await_end(page)
    page.get_by_role("button", name="Edit notes").click()
    page.evaluate("scrollTo(0, 0)")
    rest(page)
    steps = page.evaluate("musicgen.desk.past.length")
    onset, duration, pitch, _, track = page.evaluate(f"{NOTES}.slice(0, 5)")
    x, y = spot(page, onset + duration / 3, pitch, track)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 1, y)  # a hand is never quite still
    page.mouse.up()
    chosen = "[...musicgen.rolls.stage().chosenNotes].length"
    assert page.evaluate(chosen) == 1
    assert onset == 0
    page.locator(".mg-stage canvas").press("ArrowLeft")  # there is nothing before it
    assert page.evaluate(chosen) == 1
    assert page.evaluate("musicgen.desk.past.length") == steps
    expect(page.locator(".mg-take")).to_have_count(1)


def test_a_take_that_another_model_hears_is_none_of_its_run_any_more(page: Page):
    """Or the next variation of what it came of would have no number, nor a button to go on by."""
    go_on(page, bars=1)
    await_end(page)
    page.locator(".mg-take .mg-star").click()
    page.locator(".mg-take .mg-further").click()
    page.get_by_label("Model").select_option("groove")
    page.wait_for_function("() => musicgen.desk.current.model === 'groove'")
    page.locator(".mg-history > summary").click()
    expect(page.locator(".mg-history-row .mg-star[aria-pressed=true]")).to_have_count(1)
    expect(page.locator(".mg-history-row .mg-facts").last).to_contain_text(
        "heard by groove · 5 bars"
    )
    page.locator(".mg-history-open").first.click()
    expect(page.locator(".mg-stage h2")).to_have_text("Disco trio")
    expect(page.locator(".mg-take h3")).to_have_text(["Variation 1"])
    go_on(page, bars=1)
    await_end(page)
    expect(page.locator(".mg-take h3")).to_have_text(["Variation 2"])
    expect(page.locator(".mg-take .mg-further")).to_have_text("Continue from here")


def test_drawn_notes_are_continued(page: Page):
    page.locator("[data-example=grid]").click()
    page.get_by_role("button", name="Edit notes").click()
    rest(page)
    page.mouse.click(*spot(page, 1, 62, 2))
    go_on(page, bars=1)
    await_end(page)
    expect(page.locator(".mg-stage > [role=alert]")).to_be_hidden()
    assert page.evaluate("musicgen.desk.takes[0].title") == "My piece, variation 1"


@pytest.mark.parametrize("typed", ["Am7", "B♭", "C/E", "C9"])
def test_a_chord_typed_over_a_bar_is_played_there(page: Page, typed: str):
    keep_hints(page)
    page.locator("[data-example=piano-g-minor]").click()
    expect(page.locator(".mg-stage h2")).to_have_text("Piano in G minor")
    choose_bars(page, 3, 3)
    field = page.get_by_label("A chord for this bar")
    field.fill("Hm?")
    field.press("Enter")
    expect(page.locator(".mg-stage > [role=alert]")).to_contain_text("is no chord")
    choose_bars(page, 3, 3)
    field.fill(typed)
    field.press("Enter")
    expect(page.locator(".mg-stage > [role=alert]")).to_be_hidden()
    if typed == "C9":
        expect(page.locator(".mg-stage .mg-hint")).to_have_text("“C9” is set as C7.")
    sets = {"Am7": {9, 0, 4, 7}, "B♭": {10, 2, 5}, "C/E": {0, 4, 7}, "C9": {0, 4, 7, 10}}
    classes = sets[typed]
    piece = page.evaluate(
        "(({ lines, notes }) => [lines, [...notes]])(musicgen.desk.current.piece)"
    )
    lines, notes = piece
    rows = [notes[i : i + 5] for i in range(0, len(notes), 5)]
    here = {row[2] % 12 for row in rows if lines[2] <= row[0] < lines[3]}
    assert here
    assert here <= classes


def test_where_the_model_begins_by_itself_no_notes_are_drawn(page: Page):
    page.get_by_role("button", name="Edit notes").click()
    expect(page.locator(".mg-stage .mg-hint")).to_contain_text("press draws")
    page.locator("[data-example=nothing]").click()
    expect(page.locator(".mg-stage h2")).to_have_text("From nothing")
    expect(page.locator(".mg-stage .mg-hint")).not_to_contain_text("draws")
    assert not page.evaluate("musicgen.rolls.stage().acts.hand.on")
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("button", name="Edit notes")).to_have_attribute("aria-pressed", "false")


def test_where_there_is_nothing_yet_no_bars_are_chosen_and_none_are_written_anew(later: Page):
    later.locator("[data-example=nothing]").click()
    expect(later.locator(".mg-stage h2")).to_have_text("From nothing")
    expect(later.locator(".mg-stage .mg-hint")).to_have_text("")
    choose_bars(later, 2, 3)
    bar = later.locator(".mg-stage .mg-range-bar")
    expect(bar).to_be_hidden()
    later.locator(".mg-stage canvas").press("Shift+ArrowRight")
    expect(bar).to_be_hidden()
    later.locator("[data-example=grid]").click()
    expect(later.locator(".mg-stage .mg-hint")).to_contain_text("drag over bars")
    choose_bars(later, 2, 3)
    bar.get_by_role("button", name="Write anew").click(force=True)
    expect(bar.locator(".mg-why")).to_have_text("There are no notes yet to go by.")
    expect(later.locator(".mg-takes-part > [role=alert]")).to_be_hidden()
