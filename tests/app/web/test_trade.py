"""Trading bars: the user plays, the model answers at the bar line, and all is one piece."""

import pytest
from playwright.sync_api import Page, expect

from musicgen.playable import DEFAULT
from tests.app.web.browser import WAIT
from tests.app.web.hands import NOTES
from tests.app.web.hands import begin as opened
from tests.app.web.test_page import checked

pytestmark = pytest.mark.long

# Record every note sent to the synthesizer with its time, and the messages on turns.
# Trading is stopped at the user's second turn.
WATCHED = """() => {
  const { app: { trade }, player: { synth } } = musicgen, on = synth.on.bind(synth);
  window.sounded = [];
  synth.on = (channel, pitch, velocity, time) => {
    sounded.push({ time: performance.now() / 1000 + time - synth.now(), turn: trade.turn, pitch });
    on(channel, pitch, velocity, time);
  };
  const say = trade.say;
  window.sentences = [];
  trade.say = (text) => {
    say(text);
    sentences.push(text);
    if (/^Your turn: .*\\d[.]$/.test(text)) setTimeout(() => trade.stop());
  };
}"""
TURN = "(turn) => musicgen.app.trade.turn === turn"


def begin(page: Page, example: str = "grid") -> None:
    page.get_by_label("Model").select_option(DEFAULT)  # an untrained one may answer with silence
    page.wait_for_function("() => !musicgen.app.underWay")
    opened(page, example)
    page.wait_for_function("() => !musicgen.app.underWay")
    page.locator(".mg-play-in summary").click()
    page.get_by_label("Bars to trade").select_option("2")
    page.get_by_role("button", name="Trade bars", exact=True).click()
    page.wait_for_function(TURN, arg="mine", timeout=WAIT)


def test_trade_bars(page: Page, record_property):
    begin(page)
    said = page.locator("#mg-dock [role=status]")
    page.evaluate(WATCHED)
    expect(said).to_contain_text(
        "One bar of count-in. Your turn: bars 1 to 2. Play on the keys A W S"
    )
    expect(page.get_by_role("button", name="● Record")).to_be_disabled()
    assert not checked(page, lambda: None)
    page.wait_for_function(
        "() => performance.now() / 1000 > musicgen.app.recorder.begun", timeout=WAIT
    )
    for key in "as":
        page.keyboard.press(key, delay=150)
    page.keyboard.down("g")  # held across the request, up to the bar line
    page.wait_for_function(TURN, arg="asked", timeout=WAIT)
    page.keyboard.press("k")  # after the request
    line = page.evaluate("musicgen.app.trade.line")
    page.wait_for_function(TURN, arg="theirs", timeout=WAIT)
    page.keyboard.up("g")  # the turn ended at the bar line
    page.wait_for_function(TURN, arg=None, timeout=2 * WAIT)
    assert page.evaluate("sentences") == [
        "The model’s turn: bars 3 to 4.",
        "Your turn: bars 5 to 6.",
        "",
    ]
    sounded = page.evaluate("sounded")
    answer = [note["time"] for note in sounded if note["turn"] == "theirs"]
    delay = min(answer) - line
    record_property("seconds from the bar line to the answer", round(delay, 3))
    assert delay >= 0
    expect(page.locator(".mg-stage .mg-facts")).to_contain_text("4 bars")
    expect(page.locator(".mg-stage h2")).to_have_text("My piece")
    notes = page.evaluate(NOTES)
    rows = [notes[i : i + 5] for i in range(0, len(notes), 5)]
    third = page.evaluate("musicgen.desk.current.piece.lines[2]")
    mine = [pitch for onset, _, pitch, *_ in rows if onset < third]
    assert sorted(mine) == [60, 62, 67, 72]  # including the note after the request
    assert [row for row in rows if row[0] >= third]
    expect(page.get_by_role("button", name="● Record")).to_be_enabled()


def test_a_silent_turn_ends_the_trade(page: Page):
    begin(page)
    expect(page.locator("#mg-dock [role=status]")).to_have_text("Nothing was played.", timeout=WAIT)
    expect(page.get_by_role("button", name="Trade bars", exact=True)).to_be_visible()
    assert page.evaluate("musicgen.app.trade.on") is False


def test_the_other_parts_accompany_a_turn(page: Page):
    """Under the first turn they repeat the piece, under the next the answer; both stay in the piece."""
    begin(page, "trio-disco")
    page.evaluate(WATCHED)
    page.wait_for_function("() => musicgen.player.playing", timeout=WAIT)
    page.wait_for_function("() => performance.now() / 1000 > musicgen.app.trade.line - 3")
    page.keyboard.press("g")
    page.wait_for_function(TURN, arg=None, timeout=2 * WAIT)
    assert page.evaluate("sentences")[1] == "Your turn: bars 21 to 22."
    line = page.evaluate("musicgen.app.trade.line - 4")  # the start of the second turn of two bars
    mine = [note for note in page.evaluate("sounded") if note["turn"] == "mine"]
    kicks = [note["time"] for note in mine if note["pitch"] == 36]
    assert kicks
    assert min(kicks) < line
    notes, lines = page.evaluate(NOTES), page.evaluate("musicgen.desk.current.piece.lines")
    rows = [notes[i : i + 5] for i in range(0, len(notes), 5)]
    bars = [[row for row in rows if start <= row[0] < start + 48] for start in lines[12:20]]
    drums = page.evaluate("musicgen.desk.current.piece.tracks.findIndex((one) => one.drum)")
    last, first = ([row[:1] + row[2:3] for row in bars[bar] if row[4] == drums] for bar in (2, 4))
    assert [[onset + lines[16] - lines[14], pitch] for onset, pitch in last] == first
