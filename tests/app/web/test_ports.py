"""MIDI ports of the page, with a stand-in of the browser's: pieces play there, and clock is sent and followed."""

from collections.abc import Callable
from itertools import pairwise

import pytest
from playwright.sync_api import Page, expect

from musicgen.playable import DEFAULT
from tests.app.web.browser import WAIT
from tests.app.web.hands import begin as opened

pytestmark = [pytest.mark.long, pytest.mark.alone]

PORTS = """() => {
  window.sent = [];
  const input = Object.assign(new EventTarget(), { name: "Keys" }), output = {
    id: "out", name: "Studio",
    send: (bytes, time) => sent.push([time ?? performance.now(), ...bytes]),
  };
  const access = { inputs: new Map([["in", input]]), outputs: new Map([["out", output]]) };
  navigator.requestMIDIAccess = async () => access;
  window.receive = (...data) => {
    const message = Object.assign(new Event("midimessage"), { data });
    input.dispatchEvent(message);
    input.onmidimessage?.(message);
  };
}"""
# Send the clock of a program that starts at a beat, until it is stopped.
RUNNING = """([tempo, beat]) => {
  const length = 60000 / tempo / 24, began = performance.now();
  let count = 0;
  Object.assign(window, { clocked: { began, beat, tempo }, stopClock: () => clearInterval(timer) });
  receive(0xf2, 4 * beat, 0);
  receive(0xfb);
  const timer = setInterval(() => {
    for (; began + count * length <= performance.now(); count++) receive(0xf8);
  }, 1);
}"""
# The beat of the running clock now, or at a time in seconds.
BEAT = """(at = performance.now() / 1000) =>
  clocked.beat + (at - clocked.began / 1000) * clocked.tempo / 60"""
TEMPO = 126
TURN = "(turn) => musicgen.app.trade.turn === turn"
# Send clocks at a tempo until the player has moved by some beats; return its tempo and its distance from the clock, the
# median over the last two beats, since a busy machine delays some.
FOLLOWED = """async ([tempo, count]) => {
  const { player } = musicgen, beat = 60000 / tempo, began = performance.now(), offs = [];
  receive(0xf2, 16, 0);
  receive(0xfb);
  for (let n = 0; n < count; n++) {
    const at = began + n * beat / 24;
    while (performance.now() < at) await new Promise((done) => setTimeout(done, 1));
    receive(0xf8);
    if (n >= count - 48)
      offs.push(player.tick / player.piece.ticksPerBeat - (4 + (performance.now() - began) / beat));
  }
  const off = offs.sort((a, b) => a - b)[24];
  return { playing: player.playing, tempo: player.tempo, off: off * beat };
}"""


@pytest.fixture
def ported(visit: Callable[..., Page]) -> Page:
    page = visit(before=f"({PORTS})()")
    page.get_by_role("button", name="MIDI", exact=True).click()
    page.get_by_role("button", name="Find MIDI ports").click()
    page.get_by_label("Play on").select_option("Studio")
    page.wait_for_function("() => musicgen.player.out !== musicgen.player.synth")
    return page


def sent(page: Page) -> list[list[float]]:
    return page.evaluate("sent")


def test_notes_and_clock_go_to_the_port_in_time(ported: Page):
    ported.get_by_label("MIDI clock").select_option("send")
    ported.evaluate("sent.length = 0; musicgen.player.play()")
    ported.wait_for_function(
        "() => sent.filter(([, one]) => one === 0xf8).length > 100", timeout=WAIT
    )
    found = sorted(sent(ported))
    begun = next(one[0] for one in found if one[1] == 0xFA)
    facts = ported.evaluate("({ beat: 60 / musicgen.player.piece.tempos[0][1], first: musicgen.player.clock.seconds("
                            "musicgen.player.piece.notes[0]) })")  # fmt: skip
    notes = [one for one in found if one[1] & 0xF0 == 0x90]
    assert abs(notes[0][0] - begun - 1000 * facts["first"]) < 30
    clocks = [one[0] for one in found if one[1] == 0xF8]
    spans = [b - a for a, b in pairwise(clocks)]
    wanted = 1000 * facts["beat"] / 24
    assert abs(clocks[0] - begun) < 30
    assert abs((clocks[96] - clocks[0]) / 96 - wanted) < 0.5
    assert sum(abs(span - wanted) < 3 for span in spans) > 0.9 * len(spans)
    ported.evaluate("sent.length = 0; musicgen.player.seek(4 * musicgen.player.piece.ticksPerBeat)")
    ported.wait_for_function("() => sent.some(([, one]) => one === 0xfb)")
    signs = [one[1:] for one in sent(ported) if one[1] in (0xFC, 0xF2, 0xFB)]
    assert signs == [[0xFC], [0xF2, 16, 0], [0xFB]]
    ported.evaluate("sent.length = 0; musicgen.player.pause()")
    assert [0xFC] in [one[1:] for one in sent(ported)]


def test_the_clock_of_another_program_is_followed(ported: Page):
    ported.get_by_label("MIDI clock").select_option("follow")
    usual = ported.evaluate("musicgen.player.piece.tempos[0][1]")
    for tempo in (0.8 * usual, 1.2 * usual):
        found = ported.evaluate(FOLLOWED, [tempo, 24 * 6])
        assert found["playing"]
        assert abs(found["tempo"] * usual / tempo - 1) < 0.03
        assert abs(found["off"]) < 80  # milliseconds
        ported.evaluate("receive(0xfc)")
        assert not ported.evaluate("musicgen.player.playing")


def test_one_bar_is_counted_in_and_latency_is_subtracted(ported: Page):
    ported.get_by_label("Count in one bar").check()
    ported.get_by_label("Latency (ms)").fill("40")
    ported.get_by_label("Latency (ms)").blur()
    ported.evaluate("sent.length = 0; musicgen.player.play()")
    ported.wait_for_function("() => musicgen.player.playing", timeout=WAIT)
    ported.wait_for_function("() => sent.filter(([, one]) => (one & 0xf0) === 0x90).length > 6")
    notes = [one for one in sent(ported) if one[1] & 0xF0 == 0x90]
    clicks = [one for one in notes[:4] if one[1] == 0x99]
    assert [one[2] for one in clicks] == [76, 77, 77, 77]
    beat = 60000 / ported.evaluate("musicgen.player.piece.tempos[0][1]")
    assert abs(clicks[3][0] - clicks[1][0] - 2 * beat) < 30
    first = ported.evaluate("1000 * musicgen.player.clock.seconds(musicgen.player.piece.notes[0])")
    assert abs(notes[4][0] - clicks[3][0] - beat - first) < 200


def test_bars_are_traded_in_time_with_a_followed_clock(ported: Page):
    ported.get_by_label("MIDI clock").select_option("follow")
    ported.get_by_label("Model").select_option(DEFAULT)  # an untrained one may answer with silence
    opened(ported, "grid")
    ported.locator(".mg-play-in summary").click()
    ported.get_by_label("Bars to trade").select_option("2")
    ported.get_by_role("button", name="Trade bars", exact=True).click()
    said = ported.locator("#mg-dock [role=status]")
    expect(said).to_have_text("Start the other program: your turn begins at its next bar.")
    ported.evaluate(RUNNING, [TEMPO, 6])  # at the third beat of a bar
    ported.wait_for_function(TURN, arg="mine", timeout=WAIT)
    tempo, begun = ported.evaluate("[musicgen.app.recorder.tempo, musicgen.app.recorder.begun]")
    assert abs(tempo / TEMPO - 1) < 0.03
    assert abs(ported.evaluate(BEAT, begun) - 8) < 0.1
    for beat in (8.5, 12.5):
        ported.wait_for_function(f"() => ({BEAT})() > {beat}")
        ported.keyboard.press("g", delay=150)
    ported.wait_for_function(TURN, arg="theirs", timeout=WAIT)
    assert ported.evaluate(f"({BEAT})()") >= 16
    ported.wait_for_function(f"() => musicgen.player.playing && ({BEAT})() > 18", timeout=WAIT)
    # The model's turn, bars 3 and 4 of the piece, begins with bar 5 of the clock, or a later one on a busy machine.
    ported.wait_for_function("() => musicgen.player.tick / musicgen.player.piece.ticksPerBeat > 10")
    off = f"() => musicgen.player.tick / musicgen.player.piece.ticksPerBeat - ({BEAT})()"
    assert abs((ported.evaluate(off) + 2) % 4 - 2) < 0.16  # of a beat: 80 milliseconds
    ported.wait_for_function(TURN, arg="mine", timeout=WAIT)
    begun = ported.evaluate(BEAT, ported.evaluate("musicgen.app.recorder.begun"))
    assert begun > 23.9
    assert abs((begun + 2) % 4 - 2) < 0.1
    ported.evaluate("stopClock(); receive(0xfc)")
    assert ported.evaluate("[musicgen.app.trade.on, musicgen.player.playing]") == [False, False]
    expect(ported.locator(".mg-stage .mg-facts")).to_contain_text("4 bars")
