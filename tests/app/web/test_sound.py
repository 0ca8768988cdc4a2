"""The page sounds by itself: at once, while it composes, by each track's settings, and without a gap."""

import struct
from itertools import pairwise

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

from app.web.composing.opened_files import made_here
from tests.app.web.browser import WAIT
from tests.app.web.hands import await_end, choose_bars, downloaded, go_on, in_changed_browser
from tokenization.midi.reading import read_midi

# Take down what the page sends to the loudspeaker, from now on.
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


def listen(page: Page) -> None:
    page.evaluate(LISTEN)


def loudness(page: Page) -> np.ndarray:
    """Return the root mean square of what was heard, a value for each 1,024 samples."""
    return np.array(page.evaluate("heard.blocks"))


def forget(page: Page) -> None:
    page.evaluate("heard.blocks = []")


def play(page: Page, card: str = ".mg-stage") -> None:
    page.locator(card).first.get_by_label("Play", exact=True).click()


# For so long nothing more has come: the answers of a busy server may be seconds apart.
ALL_HAS_COME = """() => {
  const count = performance.getEntriesByType("resource").length, now = performance.now();
  if (count !== window.lastCount) [window.lastCount, window.lastCame] = [count, now];
  return now - window.lastCame > 4000;
}"""


def hear(page: Page) -> None:
    """Wait until something is heard: a busy page misses much of what sounds."""
    page.wait_for_function("() => Math.max(...heard.blocks) > 0.02")


def test_a_press_sounds_at_once_and_without_a_request(page: Page):
    listen(page)
    page.wait_for_function(ALL_HAS_COME)  # what stands below the desk comes after it
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.evaluate(
        "addEventListener('click', () => (heard.blocks = []), { capture: true, once: true })"
    )
    play(page)
    page.wait_for_function("() => musicgen.player.tick > 40")
    hear(page)
    sound = loudness(page)
    first = int(np.argmax(sound > 0.003))
    assert sound.max() > 0.02
    assert first * 1024 / page.evaluate("heard.rate") < 0.5
    assert asked == []
    cursor = page.locator(".mg-stage .mg-cursor")
    expect(cursor).to_be_visible()
    expect(page.locator(".mg-stage").get_by_label("Pause")).to_be_visible()
    page.keyboard.press("Escape")
    page.locator("#mg-dock-play").click()
    expect(page.locator(".mg-stage").get_by_label("Play", exact=True)).to_be_visible()


def test_bars_are_heard_as_they_come(page: Page):
    """Music that is played faster than it comes waits for it, and goes on."""
    go_on(page, bars=128)  # the server holds it until it is stopped (held_app.py)
    page.wait_for_function("() => musicgen.desk.takes[0]?.piece.notes.length > 500")
    listen(page)
    page.locator(".mg-take").first.get_by_label("To the new part").click()
    page.wait_for_function("() => musicgen.player.playing && musicgen.player.tick > 12 * 4 * 5.5")
    hear(page)
    assert page.evaluate("musicgen.desk.takes[0].state") == "running"
    assert loudness(page).max() > 0.02
    assert page.evaluate("musicgen.player.entry.id === musicgen.desk.takes[0].id")
    # when composing ends: a little later the music, too, may have come to its end
    page.evaluate("""() => {
      musicgen.desk.watch((what) => what === "composed" && (window.goesOn = musicgen.player.playing));
    }""")
    page.locator("#mg-halt").click()
    await_end(page)
    assert page.evaluate("goesOn")


# A piece of legato beats that comes bar by bar, some bars ahead of what sounds; what is sent to the synthesizer.
ARRIVING = """async () => {
  const { desk, player } = musicgen, { piece } = desk.current, { out } = player.transport, sent = (window.sent = []);
  for (const kind of ["on", "off"]) {
    const act = out[kind].bind(out);
    out[kind] = (...said) => (sent.push([kind, said[1], said.at(-1)]), act(...said));
  }
  const lines = Array.from({ length: 33 }, (_, bar) => 48 * bar), tempos = [[0, 120]];
  const tracks = [{ name: "Organ", program: 16, drum: false }];
  const note = (n) => [12 * n, 12, 60 + n, 90, 0];
  const upTo = (bars) => {
    const notes = Int32Array.from({ length: 20 * bars }, (_, n) => note(Math.floor(n / 5))[n % 5]);
    const grown = { ...piece, lines, tracks, tempos, chords: [], ticksPerBeat: 12, notes };
    return { ...desk.current, id: "arriving", state: bars < 8 ? "running" : "done", now: 48 * bars, piece: grown };
  };
  let bars = 4;
  player.load(upTo(bars), { at: 0 });
  await player.play();
  const coming = setInterval(() => {
    if (player.tick > 48 * (bars - 4)) player.update(upTo(++bars));
    if (bars === 8) clearInterval(coming);
  }, 20);
}"""


def test_bars_that_come_while_others_sound_leave_no_gap(page: Page):
    listen(page)
    page.evaluate(ARRIVING)
    page.wait_for_function("() => sent.filter(([kind]) => kind === 'off').length === 32")
    begun = page.evaluate("sent.filter(([kind]) => kind === 'on').map((one) => one.slice(1))")
    ended = dict(
        page.evaluate("sent.filter(([kind]) => kind === 'off').map((one) => one.slice(1))")
    )
    assert [pitch for pitch, _ in begun] == [*range(60, 92)]
    for (pitch, _), (_, following) in pairwise(begun):
        assert abs(following - ended[pitch]) < 0.02
    assert loudness(page).max() > 0.02


def test_what_plays_goes_on_while_something_else_is_composed(page: Page):
    page.locator("#mg-tempo input").fill("50")  # so that it lasts
    play(page)
    page.wait_for_function("() => musicgen.player.playing")
    go_on(page, bars=2)
    await_end(page)
    assert page.evaluate(
        "musicgen.player.playing && musicgen.player.entry.id === musicgen.desk.open.current"
    )


def test_only_what_is_new_is_heard(page: Page):
    go_on(page, bars=2)
    await_end(page)
    page.get_by_role("button", name="Hear only what is new").click()
    page.evaluate("""() => {
      musicgen.player.watch((what) => what === "play" && (window.begun = musicgen.player.transport.at));
    }""")
    play(page, ".mg-take")
    page.wait_for_function("() => window.begun !== undefined")
    assert page.evaluate("begun") >= 4 * 48


def test_one_take_after_the_other_goes_on_at_the_same_beat(page: Page):
    page.locator("#mg-tempo input").fill("50")  # so that it lasts
    go_on(page, bars=8, variations=2)
    await_end(page)
    takes = page.locator(".mg-take")
    takes.first.get_by_label("Play", exact=True).click()
    page.wait_for_function("() => musicgen.player.playing && musicgen.player.tick > 12 * 4 * 3.1")
    before = page.evaluate("musicgen.player.tick")
    takes.nth(1).get_by_label("Play", exact=True).click()
    expect(takes.first.get_by_label("Play", exact=True)).to_be_visible()
    expect(takes.nth(1).get_by_label("Pause")).to_be_visible()
    assert page.evaluate("musicgen.player.tick") >= before
    assert page.evaluate("musicgen.player.entry.id === musicgen.desk.takes[1].id")
    expect(takes.first.locator(".mg-cursor.mg-faint")).to_be_visible()


def test_tracks_are_muted_and_the_tempo_changed_without_a_server(page: Page):
    listen(page)
    page.wait_for_function(ALL_HAS_COME)
    page.get_by_text("Tracks", exact=True).click()
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    play(page)
    page.locator(".mg-loop").click()  # so that it lasts
    page.wait_for_function("() => musicgen.player.tick > 24")
    for track in ("Bass", "Drums", "Other"):
        page.get_by_role("button", name=f"Mute {track}").click()
    for _ in range(20):  # what sounded then dies away
        forget(page)
        page.wait_for_function("() => heard.blocks.length > 20")
        if loudness(page).max() < 0.004:
            break
    assert loudness(page).max() < 0.004
    assert page.evaluate("musicgen.player.playing")
    page.get_by_role("button", name="Hear alone: Drums").click()
    page.get_by_role("button", name="Mute Drums").click()
    page.wait_for_function("() => Math.max(...heard.blocks) > 0.01")
    before = page.evaluate("musicgen.player.length")
    page.locator("#mg-tempo input").fill("200")
    assert page.evaluate("musicgen.player.length") == before / 2
    page.locator("#mg-transpose input").fill("5")
    assert page.evaluate("musicgen.player.transport.transpose") == 5
    page.get_by_label("Instrument of Bass").select_option("Cello")
    assert page.evaluate("musicgen.player.transport.mix[0].program") == 42
    assert asked == []


def test_a_piece_of_another_kind_has_a_mix_of_its_own(page: Page):
    heard = "[0, 1, 2].filter((track) => musicgen.player.transport.audible(track))"
    page.get_by_text("Tracks", exact=True).click()
    page.get_by_role("button", name="Mute Bass").click()
    assert page.evaluate(heard) == [1, 2]
    page.locator("[data-example=piano-g-minor]").click()
    expect(page.get_by_role("button", name="Mute Piano")).to_have_attribute("aria-pressed", "false")
    assert page.evaluate(heard) == [0, 1, 2]
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("button", name="Mute Bass")).to_have_attribute("aria-pressed", "true")
    assert page.evaluate(heard) == [1, 2]


def test_a_mute_stays_with_its_piece_and_is_told_on_the_fold(page: Page):
    heard = "[0, 1, 2].filter((track) => musicgen.player.transport.audible(track))"
    fold = page.locator(".mg-mixer > summary")
    page.get_by_text("Tracks", exact=True).click()
    page.get_by_role("button", name="Mute Drums").click()
    fold.click()
    expect(fold).to_have_text("TracksDrums muted")
    page.locator("[data-example=trio-jazz]").click()
    expect(page.locator(".mg-stage h2")).to_have_text("Jazz trio")
    expect(fold).to_have_text("Tracks")
    assert page.evaluate(heard) == [0, 1, 2]
    page.get_by_role("button", name="Undo").click()
    expect(fold).to_have_text("TracksDrums muted")
    assert page.evaluate(heard) == [0, 2]
    go_on(page, bars=1)
    await_end(page)
    page.locator(".mg-take .mg-further").click()
    expect(fold).to_have_text("TracksDrums muted")
    assert page.evaluate(heard) == [0, 2]


def test_what_plays_is_heard_as_undo_leaves_it(page: Page):
    """As it was heard as it was changed; and the cursor stays on it."""
    page.locator("#mg-tempo input").fill("50")  # so that it lasts
    play(page)
    page.wait_for_function("() => musicgen.player.playing")
    choose_bars(page, 3, 4)
    page.get_by_role("button", name="Delete", exact=True).click()
    cursor = page.locator(".mg-stage .mg-cursor")
    for name, bars in (("Undo", 16), ("Redo", 14)):
        page.get_by_role("button", name=name).click()
        expect(page.locator(".mg-stage .mg-facts")).to_contain_text(f"{bars} bars")
        assert page.evaluate("musicgen.player.transport.piece.lines.length") == bars + 1
        assert page.evaluate("musicgen.player.playing")
        expect(cursor).to_be_visible()


def test_bars_are_played_over_and_over(page: Page):
    choose_bars(page, 3, 3)
    page.get_by_role("group", name="What to do with bar 3").get_by_role(
        "button", name="Loop"
    ).click()
    # whenever notes are sent: where a timer is late, the clock runs past the end of the loop until then
    page.evaluate("""() => {
      const { transport } = musicgen.player, pump = transport.pump.bind(transport);
      window.most = 0;
      transport.pump = (ahead) => (pump(ahead), (most = Math.max(most, transport.tick)));
    }""")
    page.wait_for_function("() => most > 12 * 4 * 2.9")
    page.wait_for_function("() => musicgen.player.tick < 12 * 4 * 2.5")
    assert page.evaluate("most") <= 12 * 4 * 3 + 1
    assert page.evaluate("musicgen.player.playing")


def test_sound_is_saved_as_a_file(page: Page):
    go_on(page, bars=1)
    await_end(page)
    sound = downloaded(page, "WAV")
    rate = struct.unpack_from("<I", sound, 24)[0]
    samples = np.frombuffer(sound[44:], "<i2").astype(float) / 32768
    assert sound[:4] == b"RIFF"
    assert rate >= 44_100
    assert 0.05 < np.sqrt((samples**2).mean()) < 0.5
    assert 0.5 < np.abs(samples).max() < 0.95  # loud, and clips nowhere


def test_what_is_saved_as_heard_is_what_the_page_plays(page: Page):
    go_on(page, bars=1)
    await_end(page)
    page.get_by_text("Tracks", exact=True).click()
    page.get_by_role("button", name="Mute Bass").click()
    page.locator("#mg-tempo input").fill("200")
    page.locator("#mg-transpose input").fill("3")
    written = downloaded(page, "MIDI as written")
    heard = downloaded(page, "MIDI as heard")
    before, after = read_midi(written), read_midi(heard)
    assert [track.name for track in after.tracks] == ["Drums", "Other"]
    assert after.tempos.beats_per_minute[0] == 2 * before.tempos.beats_per_minute[0]

    def pitches(score, name: str) -> list[int]:
        index = [track.name for track in score.tracks].index(name)
        return score.notes.pitch[score.notes.track == index].tolist()

    assert pitches(after, "Drums") == pitches(before, "Drums")
    higher = [pitch + 3 for pitch in pitches(before, "Other")]
    assert pitches(after, "Other") == [pitch for pitch in higher if pitch < 128]  # as it sounds
    said, says = made_here(heard), made_here(written)
    assert said
    assert says
    assert said.pop("as_heard") == "transposed by +3, at 200 % of the tempo, Bass muted"
    assert said == says
    page.evaluate("musicgen.player.load(musicgen.desk.takes[0])")
    length = page.evaluate("musicgen.player.length")
    sound = downloaded(page, "WAV as heard")
    rate = struct.unpack_from("<I", sound, 24)[0]
    assert abs((len(sound) - 44) / 4 / rate - length) < 2  # not ten seconds
    for track in ("Drums", "Other"):
        page.get_by_role("button", name=f"Mute {track}").click()
    page.locator(".mg-take .mg-menu > summary").click()
    page.get_by_role("button", name="WAV as heard").click()
    expect(page.locator(".mg-take > [role=alert]")).to_contain_text("All tracks are muted")


def test_without_worklets_the_sound_is_a_file(browser: Browser, address: str):
    page = in_changed_browser(browser, address, "delete window.AudioWorkletNode")
    play(page)
    page.wait_for_function("() => musicgen.player.audio.currentTime > 0.3", timeout=WAIT)
    assert page.evaluate("musicgen.player.tick") > 0
    expect(page.locator("#mg-tempo")).to_be_hidden()
    page.locator(".mg-stage").get_by_label("Pause").click()
    page.evaluate("() => (musicgen.player.audio.currentTime = 5)")
    page.locator(".mg-stage").get_by_label("Play", exact=True).click()
    sounds = "() => musicgen.player.playing && !musicgen.player.asked"
    page.wait_for_function(sounds, timeout=WAIT)
    assert page.evaluate("musicgen.player.audio.currentTime") >= 5
    page.evaluate("""() => {
      const { player, desk: { current } } = musicgen;
      return player.load({ ...current, id: "a take", piece: { ...current.piece } });
    }""")
    page.wait_for_function(f"{sounds} && musicgen.player.audio.readyState > 2", timeout=WAIT)
    assert page.evaluate("musicgen.player.audio.currentTime") >= 5
    page.context.close()


@pytest.mark.parametrize("name", ["soundfont.sf2", "vendor/spessasynth/processor.js"])
def test_what_sounds_is_from_this_server_and_kept(page: Page, name: str):
    found = page.evaluate(
        "name => fetch(`${musicgen.player.synth.address}/${name}`)"
        ".then((answer) => [answer.status, answer.headers.get('cache-control')])",
        name,
    )
    assert found[0] == 200
    assert "immutable" in found[1]
