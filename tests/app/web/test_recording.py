"""Recording from a MIDI keyboard, with a stand-in of the browser's: the pedal, bends, and a loop that is overdubbed."""

import io
from collections.abc import Callable

import mido
import pytest
from playwright.sync_api import Page, expect

from tests.app.web.browser import WAIT
from tests.app.web.hands import NOTES, downloaded, rest
from tests.app.web.test_editing import CARD, opened
from tests.app.web.test_ports import PORTS
from tests.tokenization.midi.test_changing import gone_and_new
from tests.tools.page.own_files import everything, lead_sheet
from tokenization.formats import read_file

pytestmark = pytest.mark.long

SECONDS = "() => musicgen.app.recorder.on && musicgen.app.recorder.now()"


@pytest.fixture
def keyed(visit: Callable[..., Page]) -> Page:
    page = visit(before=f"({PORTS})()")
    page.evaluate("musicgen.player.synth.start()")
    page.locator(".mg-play-in summary").click()
    page.get_by_role("button", name="MIDI keyboard").click()
    expect(page.get_by_role("button", name="MIDI keyboard")).to_have_attribute(
        "aria-pressed", "true"
    )
    return page


def play(page: Page, *messages: list[int]) -> None:
    page.evaluate("(all) => all.forEach((one) => receive(...one))", [*messages])


def until(page: Page, seconds: float) -> None:
    page.wait_for_function(f"() => ({SECONDS})() > {seconds}", timeout=WAIT)


def record(page: Page) -> None:
    page.get_by_role("button", name="● Record").click()
    until(page, 0)


def done(page: Page) -> None:
    page.get_by_role("button", name="■ Done").click()
    rest(page)


def perform(page: Page) -> None:
    """Play a note with the pedal, and bend another."""
    play(page, [0xB0, 64, 127], [0x90, 61, 99])
    until(page, 0.4)
    play(page, [0x80, 61, 0])
    until(page, 1.2)
    play(page, [0xB0, 64, 0], [0x90, 66, 99], [0xE0, 0, 80])
    until(page, 1.6)
    play(page, [0xE0, 0, 64], [0x80, 66, 0])


def test_pedal_and_bends_are_events_of_the_file(keyed: Page):
    data = everything()[0]
    opened(keyed, "song.mid", data)
    record(keyed)
    perform(keyed)
    done(keyed)
    out = downloaded(keyed, "MIDI", CARD)
    gone, new = gone_and_new(data, out)
    assert not gone
    kinds = sorted(event.kind for event in new.elements())
    assert kinds == ["control_change"] * 2 + ["note"] * 2 + ["pitchwheel"] * 2
    notes = sorted((event for event in new if event.kind == "note"), key=lambda one: one.tick)
    pedal = sorted((event for event in new if event.kind == "control_change"), key=lambda one: one.tick)  # fmt: skip
    assert [event.what[0] for event in notes] == [61, 66]
    assert notes[0].what[2] < pedal[1].tick - 480  # the key was released before the pedal
    assert {event.channel for event in new} == {notes[0].channel}
    keyed.keyboard.press("Control+z")
    assert downloaded(keyed, "MIDI", CARD) == data


def test_a_new_piece_is_saved_with_its_pedal_and_a_score_with_longer_notes(keyed: Page):
    keyed.locator(".mg-new-menu > button").click()
    keyed.locator("[data-example=grid]").click()
    rest(keyed)
    record(keyed)
    perform(keyed)
    done(keyed)
    saved = mido.MidiFile(file=io.BytesIO(downloaded(keyed, "MIDI", CARD)))
    found = [(one.type, getattr(one, "control", None), getattr(one, "value", getattr(one, "pitch", None)))
             for track in saved.tracks for one in track if one.type in ("control_change", "pitchwheel")]  # fmt: skip
    assert [one for one in found if one[1] != 7] == [
        ("control_change", 64, 127), ("control_change", 64, 0), ("pitchwheel", None, 2048), ("pitchwheel", None, 0)
    ]  # fmt: skip
    opened(keyed, "song.musicxml", lead_sheet())
    record(keyed)
    perform(keyed)
    done(keyed)
    score = read_file(downloaded(keyed, "Score (MusicXML)", CARD))
    long = score.notes.pitch == 61
    assert score.notes.duration_ticks[long].max() / score.ticks_per_beat > 1.5


def test_a_marked_range_loops_and_each_pass_is_added(keyed: Page):
    opened(keyed, "song.mid", everything()[0])
    before = keyed.evaluate(NOTES)
    keyed.evaluate("musicgen.app.bars(musicgen.desk.current.id, 'loop', { first: 2, stop: 3 })")
    keyed.wait_for_function("() => musicgen.player.playing", timeout=WAIT)
    record(keyed)
    expect(keyed.locator("#mg-dock [role=status]")).to_contain_text("each pass of bar 3 is added")
    assert keyed.evaluate("musicgen.player.playing")
    bar = keyed.evaluate("musicgen.desk.current.piece.lines[2]")
    for pitch, begins in ((90, 0.5), (91, 1)):
        before_pass = keyed.evaluate("musicgen.desk.current.id")
        until(keyed, begins)
        play(keyed, [0x90, pitch, 99])
        until(keyed, begins + 0.3)
        play(keyed, [0x80, pitch, 0])
        changed = "(id) => musicgen.desk.current.id !== id"
        keyed.wait_for_function(changed, arg=before_pass, timeout=WAIT)
    assert keyed.evaluate("musicgen.player.playing && musicgen.player.tick") < bar + 4 * 24 * 4
    done(keyed)
    assert not keyed.evaluate("musicgen.player.playing")
    length = keyed.evaluate("musicgen.desk.current.piece.lines[3]") - bar

    def added() -> list[int]:
        notes = keyed.evaluate(NOTES)
        rows = [notes[i : i + 5] for i in range(0, len(notes), 5)]
        new = [row for row in rows if row[2] in (90, 91)]
        assert len(rows) == len(before) // 5 + len(new)
        assert all(bar <= row[0] < bar + length for row in new)
        return sorted(row[2] for row in new)

    assert added() == [90, 91]
    keyed.keyboard.press("Control+z")
    assert added() == [90]
    keyed.keyboard.press("Control+z")
    assert added() == []
