"""What comes late, or while something else is under way, does no harm."""

import re
from collections.abc import Callable

from playwright.sync_api import Browser, Page, Route, expect

from musicgen.generation.sampling import MUSICAL
from tests.app.web.browser import WAIT
from tests.app.web.hands import await_end, go_on, in_changed_browser, saved

SHOWN = ".mg-stage h2"
# Each note that is begun and ended from here on, as a synthesizer is told.
LISTEN = """() => {
  const { synth } = musicgen.player;
  window.heard = [];
  for (const what of ["on", "off"]) synth[what] = (channel, pitch) => heard.push([what, pitch]);
}"""


def held_up(page: Page) -> Callable[[], None]:
    """Keep the next piece that is to be opened from coming; returns what lets it come."""
    waiting: list[Route] = []
    page.route("**/run/desk_open", lambda route: waiting.append(route))

    def let_come() -> None:
        while not waiting:  # asked for, and on its way
            page.wait_for_timeout(50)
        with page.expect_response("**/run/desk_open"):
            waiting[0].continue_()
        page.evaluate("() => new Promise((done) => setTimeout(done, 300))")

    return let_come


def test_a_piece_that_comes_after_another_was_chosen_stays_away(page: Page):
    let_come = held_up(page)
    page.locator("[data-example=trio-jazz]").click()
    page.locator("[data-example=grid]").click()
    expect(page.locator(SHOWN)).to_have_text("My piece")
    let_come()
    expect(page.locator(SHOWN)).to_have_text("My piece")
    assert page.evaluate("musicgen.desk.listed.length") == 2


def test_a_broken_link_is_told_on_an_empty_desk_too(browser: Browser, address: str):
    page = browser.new_context().new_page()
    page.goto(f"{address}/#desk=broken")
    expect(page.locator(SHOWN)).to_have_text("Disco trio", timeout=WAIT)
    expect(page.locator(".mg-stage > [role=alert]")).to_contain_text("This link is broken")
    page.context.close()


def test_how_freely_to_draw_is_the_servers_word_to_begin_with(browser: Browser, address: str):
    page = browser.new_context().new_page()
    names = "temperature, topP, topK, minP, recall"
    asked = f"(({{ {names} }}) => [{names}])(musicgen.desk.settings)"
    drawn = [MUSICAL.temperature, MUSICAL.top_p, MUSICAL.top_k or 0, MUSICAL.min_p, MUSICAL.recall]
    page.goto(address)
    page.wait_for_function("() => window.musicgen?.desk.current")
    assert page.evaluate(asked) == drawn
    page.context.close()

    def other(route: Route) -> None:
        answer = route.fetch(timeout=WAIT)
        route.fulfill(response=answer, body=re.sub(r'"topP": [\d.]+', '"topP": 0.5', answer.text()))

    page = browser.new_context().new_page()
    page.route(f"{address}/", other)
    page.goto(address)
    page.wait_for_function("() => window.musicgen?.desk.current")
    assert page.evaluate(asked) == [drawn[0], 0.5, *drawn[2:]]
    page.context.close()


def test_a_key_that_is_let_go_ends_the_note_that_it_began(page: Page):
    page.get_by_text("Play to it").click()
    page.get_by_role("button", name="Computer keys").click()
    page.evaluate("() => musicgen.player.synth.ready")
    page.evaluate("() => musicgen.player.synth.context.resume()")  # no key waits for that
    page.evaluate(LISTEN)
    keys = page.keyboard
    keys.down("a")
    keys.press("x")  # an octave up, while it sounds
    keys.up("a")
    page.wait_for_function("() => heard.length >= 2")
    keys.down("d")
    page.wait_for_function("() => heard.length >= 3")
    page.locator("#mg-bars input[type=number]").focus()
    keys.up("d")
    page.wait_for_function("() => heard.length >= 4")
    assert page.evaluate("heard") == [["on", 60], ["off", 60], ["on", 76], ["off", 76]]


def test_what_is_played_goes_to_the_piece_that_it_was_played_to(page: Page):
    page.get_by_text("Play to it").click()
    page.get_by_role("button", name="Computer keys").click()
    page.get_by_label("Part", exact=True).select_option(label="Bass")
    bass = int(page.get_by_label("Part", exact=True).input_value())
    page.get_by_role("button", name="● Record").click()
    page.wait_for_timeout(2500)  # the count-in
    page.locator("body").press("a", delay=300)
    page.locator("[data-example=piano-g-minor]").click()
    expect(page.locator(SHOWN)).to_have_text("Piano in G minor")
    page.get_by_role("button", name="■ Done").click()
    expect(page.locator(SHOWN)).to_have_text("Disco trio")
    assert page.evaluate("musicgen.desk.current.act") == "playing in"
    of_bass = "musicgen.desk.current.piece.notes.filter((track, at) => at % 5 === 4 && track === {}).length"
    before = "musicgen.desk.entries.get(musicgen.desk.current.parent).piece.notes"
    assert page.evaluate(of_bass.format(bass)) == 1 + page.evaluate(
        of_bass.format(bass).replace("musicgen.desk.current.piece.notes", before)
    )
    assert page.evaluate("musicgen.desk.current.piece.notes.length") == 5 * (1214 + 1)


def test_a_volume_does_not_bring_its_instrument_to_another_piece(page: Page):
    page.get_by_text("Tracks", exact=True).click()
    page.get_by_label("Volume of Other").fill("90")
    page.evaluate("""() => {
      const { app, desk } = musicgen, { piece } = desk.current;
      app.edit({ ...piece, tracks: piece.tracks.map((track) => ({ ...track, program: 73 })) }, "another instrument");
    }""")
    page.wait_for_function("() => musicgen.player.transport.said[1] === '73 90'")
    expect(page.get_by_label("Instrument of Other")).to_have_value("73")


def test_without_worklets_the_piece_that_is_pressed_is_the_one_that_sounds(
    browser: Browser, address: str
):
    page = in_changed_browser(browser, address, "delete window.AudioWorkletNode")
    page.evaluate("() => musicgen.player.synth.ready")
    page.evaluate("""() => {
      const { player } = musicgen, { soundOf } = player;
      window.sources = new Map();
      player.soundOf = async (entry) => {
        const address = await soundOf(entry);
        sources.set(new URL(address, document.baseURI).href, entry.id);
        return address;
      };
    }""")
    page.locator(".mg-stage").get_by_label("Play", exact=True).click()
    page.wait_for_function("() => musicgen.player.audio.currentTime > 0.3", timeout=WAIT)
    # another piece, which lasts long enough to be met while it sounds
    page.evaluate("""() => {
      const { app, desk } = musicgen, { piece } = desk.current, notes = piece.notes.slice(0, -500);
      desk.begin([{ ...desk.current, id: "other", kind: "take", how: "continue", run: "r", number: 0,
        parent: desk.current.id, piece: { ...piece, notes }, file: null,
        region: { first: 4, stop: 16, tracks: null } }]);
      app.play(desk.entries.get("other"));
    }""")
    page.wait_for_function(
        "() => sources.get(musicgen.player.audio.src) === 'other' && musicgen.player.playing",
        timeout=WAIT,
    )
    page.context.close()


def test_a_link_is_given_where_the_clipboard_is_closed(browser: Browser, address: str):
    page = in_changed_browser(
        browser,
        address,
        "Object.defineProperty(navigator, 'clipboard', { value: undefined });"
        "window.prompt = (words, link) => (window.given = link);",
    )
    page.get_by_role("button", name="Copy link").click()
    page.wait_for_function("() => window.given?.includes('#desk=')")
    expect(page.locator(".mg-stage > [role=alert]")).to_be_hidden()
    page.context.close()


def test_a_tab_that_lies_open_for_long_is_not_swept(page: Page):
    saved(page)
    own = page.evaluate("musicgen.desk.id")
    page.evaluate("""() => new Promise((done, failed) => {
      const asked = indexedDB.open("musicgen");
      asked.onsuccess = () => {
        const work = asked.result.transaction("desks", "readwrite"), desks = work.objectStore("desks");
        for (let i = 0; i < 30; i++) desks.put({ ...musicgen.desk.plain(), id: `later ${i}`, saved: Date.now() + i });
        [work.oncomplete, work.onabort] = [done, failed];
      };
    })""")
    other = page.context.new_page()
    other.goto(page.url)
    other.wait_for_function("() => window.musicgen?.desk.current")
    left = """() => new Promise((done) => {
      const asked = indexedDB.open("musicgen");
      asked.onsuccess = () => {
        const keys = asked.result.transaction("desks").objectStore("desks").getAllKeys();
        keys.onsuccess = () => done(keys.result);
      };
    })"""
    other.wait_for_function(f"async () => (await ({left})()).length < 30")
    assert own in other.evaluate(left)


def test_a_request_to_stop_that_was_lost_can_be_sent_again(page: Page):
    go_on(page, bars=128)
    page.wait_for_function("() => musicgen.desk.takes[0]?.now > 0")
    page.route("**/run/desk_stop", lambda route: route.abort(), times=1)
    page.locator("#mg-halt").click()
    page.wait_for_function("() => !musicgen.app.composer.run.stopped")
    page.locator("#mg-halt").click()
    await_end(page)


# Of what the server says while it composes, all but the first view waits for `letOn`.
HOLD = """() => {
  const { server } = musicgen, write = server.write.bind(server), on = new Promise((done) => (window.letOn = done));
  server.write = async function* (...asked) {
    let first = true;
    for await (const view of write(...asked)) {
      if (!first) await on;
      first = false;
      yield view;
    }
  };
}"""


def test_a_take_that_comes_is_seen_on_the_stage_and_ends_when_it_is_deleted(page: Page):
    page.evaluate(HOLD)
    go_on(page, bars=128)
    page.wait_for_function("() => musicgen.desk.takes[0]?.now > 0")
    page.locator(".mg-history > summary").click()
    page.locator(".mg-history-open").nth(1).click()
    expect(page.locator(SHOWN)).to_have_text("Disco trio, variation 1")
    before = page.evaluate("musicgen.rolls.stage().piece.notes.length")
    page.evaluate("letOn()")
    page.wait_for_function(
        "before => musicgen.rolls.stage().piece.notes.length > before", arg=before
    )
    page.locator(".mg-history-row .mg-drop").nth(1).click()
    expect(page.locator("#mg-go")).to_be_visible()
    expect(page.locator(SHOWN)).to_have_text("Disco trio")
