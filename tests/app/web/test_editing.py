"""Edits of an opened file on the page: the saved file has them and nothing else, through reload, undo and projects."""

from pathlib import Path

from playwright.sync_api import Page

from tests.app.web.hands import await_end, downloaded, go_on, rest, saved, send, spot
from tests.tokenization.midi.all_events import all_events
from tests.tokenization.midi.test_changing import gone_and_new
from tests.tools.page.own_files import everything

CARD = ".mg-stage"


def opened(page: Page, name: str, data: bytes) -> None:
    before = page.evaluate("musicgen.desk.open.current")
    send(page, name, data)
    page.wait_for_function("(id) => musicgen.desk.current?.id !== id", arg=before)
    rest(page)


def draw(page: Page, pitch: int = 65) -> None:
    """Draw a note in the second bar of the first track."""
    page.get_by_role("button", name="Edit notes").click()
    rest(page)
    line = page.evaluate("musicgen.desk.current.piece.lines[1]")
    page.mouse.click(*spot(page, line + 1, pitch, 0))
    page.wait_for_function("() => musicgen.desk.current.edits?.length === 1")


def test_one_drawn_note_is_all_that_is_new_in_the_saved_file(page: Page, visit):
    data = everything()[0]
    opened(page, "song.mid", data)
    assert downloaded(page, "MIDI", CARD) == data
    draw(page)
    first = downloaded(page, "MIDI", CARD)
    gone, new = gone_and_new(data, first)
    assert not gone
    assert [(event.kind, event.what[0]) for event in new.elements()] == [("note", 65)]
    # After a reload, and in another browser.
    saved(page)
    page.reload()
    page.wait_for_function("() => window.musicgen?.desk.current")
    assert downloaded(page, "MIDI", CARD) == first
    page.locator(".mg-desk-menu > button").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save the project").click()
    other = visit()
    send(other, "song.musicgen", Path(download.value.path()).read_bytes())
    other.wait_for_function("() => musicgen.desk.current?.edits?.length === 1")
    assert downloaded(other, "MIDI", CARD) == first
    # Undo gives the file back, and one track has the edits, too.
    page.keyboard.press("Control+z")
    assert downloaded(page, "MIDI", CARD) == data
    page.keyboard.press("Control+y")
    one = downloaded(page, "Grand Piano as MIDI", CARD)
    kept = {event.track for event in all_events(one) if event.kind == "note"}
    assert kept == {"Grand Piano"}
    whole = [event._replace(chunk=0) for event in all_events(first) if event.track == "Grand Piano"]
    assert sorted(map(str, whole)) == sorted(
        str(event._replace(chunk=0)) for event in all_events(one) if event.track == "Grand Piano"
    )


def test_takes_of_an_edited_piece_are_written_into_the_edited_file(page: Page):
    data = everything()[0]
    opened(page, "song.mid", data)
    draw(page)
    go_on(page, bars=1)
    await_end(page)
    take = downloaded(page, "MIDI")
    end = 8 * 4 * 960  # of the given bars
    gone, new = gone_and_new(data, take)
    assert not [event for event in gone if event.tick < end - 960]
    early = [event for event in new if event.tick < end - 960]
    assert [(event.kind, event.what[0]) for event in early] == [("note", 65)]


def test_notes_are_drawn_on_the_chosen_grid(page: Page):
    opened(page, "song.mid", everything()[0])
    page.get_by_role("button", name="Edit notes", exact=True).click()
    page.get_by_label("Grid").select_option(label="1/8 triplet")
    rest(page)
    beat = page.evaluate("musicgen.desk.current.piece.ticksPerBeat")
    page.mouse.click(*spot(page, beat + beat / 3 + 1, 65, 0))
    page.wait_for_function("() => musicgen.desk.current.edits?.length === 1")
    row = page.evaluate("musicgen.desk.current.edits[0].rows[0][1]")
    assert row[:3] == [beat + beat // 3, 4 * beat // 3, 65]
