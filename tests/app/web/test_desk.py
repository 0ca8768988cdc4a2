"""Nothing is lost: not by a reload, a crash, another tab, a server that is started anew; and all can be undone."""

import json
import os
import signal
from contextlib import suppress
from pathlib import Path

from playwright.sync_api import Browser, Error, Page, expect

from app.web.offered_models import example
from tests.app.web.browser import OPTIONS, WAIT, chromium, free_port, started
from tests.app.web.hands import await_end, choose_bars, desk, go_on, in_changed_browser, saved, send
from tokenization.midi.reading import read_midi

SHOWN = ".mg-stage h2"
# Wait until the browser's database has a desk on which a piece of this title lies open.
KEPT = """async (title) => {
  const all = (name) => new Promise((done) => {
    const asked = musicgen.store.base.transaction(name).objectStore(name).getAll();
    asked.onsuccess = () => done(asked.result);
  });
  for (;;) {
    const [desks, entries] = [await all("desks"), await all("entries")];
    if (desks.some(({ open }) => entries.find((one) => one.id === open.current)?.title === title)) return;
    await new Promise((rested) => setTimeout(rested, 50));
  }
}"""
LAID_OPEN = "(({ listed, ...open }) => JSON.stringify(open))(musicgen.desk.open)"


def again(page: Page) -> None:
    page.reload()
    page.wait_for_function("() => window.musicgen?.desk.current")


def test_a_reload_brings_the_desk_back_as_it_was(page: Page):
    send(page, "my song.mid", example("trio-jazz"))
    expect(page.locator(SHOWN)).to_have_text("my song")
    go_on(page, bars=2, variations=2)
    await_end(page)
    page.locator(".mg-take .mg-star").first.click()
    page.locator("#mg-tempo input").fill("140")
    page.get_by_role("button", name="Undo").click()
    before = desk(page)
    saved(page)
    again(page)
    assert desk(page) == before
    page.get_by_role("button", name="Redo").click()
    expect(page.locator(".mg-take")).to_have_count(2)
    expect(page.locator(".mg-take .mg-star[aria-pressed=true]")).to_have_count(1)
    expect(page.locator("#mg-tempo output")).to_have_text("140 %")


def test_what_changed_at_the_last_moment_is_kept(page: Page):
    for number in range(5):
        saved(page)
        put = (
            f"musicgen.desk.show({{ ...musicgen.desk.current, title: 'change {number}' }}, 'test')"
        )
        page.evaluate(f"() => {{ {put}; location.reload(); }}")
        expect(page.locator(SHOWN)).to_have_text(f"change {number}", timeout=WAIT)
        page.wait_for_function("() => window.musicgen?.desk.current")


# How many notes of a take are new.
NEW = "musicgen.desk.takes[0]?.piece.notes.filter((at, i) => i % 5 === 0 && at >= 4 * 48).length"


def test_a_reload_while_it_composes_keeps_what_had_come(page: Page):
    go_on(page, bars=128)
    page.wait_for_function(f"() => {NEW} > 5")
    came = page.evaluate(NEW)
    saved(page)
    again(page)
    expect(page.locator(".mg-take .mg-further")).to_be_visible()
    assert page.evaluate("musicgen.desk.takes[0].state") == "stopped"
    assert page.evaluate(NEW) >= came
    page.locator(".mg-take .mg-further").click()
    go_on(page, bars=1)
    await_end(page)


def test_a_tab_that_crashes_loses_nothing(browser: Browser, address: str):
    context = browser.new_context()
    page = context.new_page()
    page.goto(address)
    expect(page.locator(SHOWN)).to_have_text("Disco trio", timeout=WAIT)
    page.locator("[data-example=trio-jazz]").click()
    expect(page.locator(SHOWN)).to_have_text("Jazz trio")
    page.evaluate(KEPT, "Jazz trio")  # by itself, without a farewell
    crashing = context.new_cdp_session(page)
    crashing.send("Page.enable")
    with suppress(Error):  # it does not answer any more
        crashing.send("Page.crash", timeout=1000)
    fresh = context.new_page()
    fresh.goto(address)
    expect(fresh.locator(SHOWN)).to_have_text("Jazz trio", timeout=WAIT)
    context.close()


def test_the_last_desk_comes_back_also_if_the_clock_was_set_back(browser: Browser, address: str):
    context = browser.new_context()
    first = context.new_page()
    first.goto(address)
    first.locator("[data-example=trio-jazz]").click()
    expect(first.locator(SHOWN)).to_have_text("Jazz trio")
    saved(first)
    first.evaluate("musicgen.store.base = null")  # it keeps nothing more
    second = context.new_page()  # a copy, since the first is still there
    second.add_init_script("const now = Date.now; Date.now = () => now() - 864e5;")
    second.goto(address)
    expect(second.locator(SHOWN)).to_have_text("Jazz trio")
    second.locator("[data-example=grid]").click()
    expect(second.locator(SHOWN)).to_have_text("My piece")
    saved(second)
    third = context.new_page()
    third.goto(address)
    expect(third.locator(SHOWN)).to_have_text("My piece")
    context.close()


def has_a_desk_of_its_own(other: Page, page: Page, title: str) -> None:
    """Open a trio in a tab; it is there when the tab is opened again, and in the one before is what was."""
    other.locator("[data-example=trio-trance]").click()
    expect(other.locator(SHOWN)).to_have_text("Trance trio")
    saved(other)
    again(page)
    expect(page.locator(SHOWN)).to_have_text(title)
    again(other)
    expect(other.locator(SHOWN)).to_have_text("Trance trio")


def test_another_tab_is_a_copy(page: Page):
    page.locator("[data-example=trio-jazz]").click()
    expect(page.locator(SHOWN)).to_have_text("Jazz trio")
    saved(page)
    other = page.context.new_page()
    other.goto(page.url)
    expect(other.locator(SHOWN)).to_have_text("Jazz trio", timeout=WAIT)
    assert other.evaluate("musicgen.desk.id") != page.evaluate("musicgen.desk.id")
    has_a_desk_of_its_own(other, page, "Jazz trio")


def test_without_tls_another_tab_is_a_copy_too(browser: Browser, address: str):
    page = in_changed_browser(
        browser,
        address,
        "Object.defineProperty(Navigator.prototype, 'locks', { value: undefined })",
    )
    saved(page)
    other = page.context.new_page()
    other.goto(address)
    expect(other.locator(SHOWN)).to_have_text("Disco trio", timeout=WAIT)
    has_a_desk_of_its_own(other, page, "Disco trio")
    page.context.close()


def test_a_browser_that_is_told_to_keep_nothing_shows_the_page(
    browser: Browser, address: str, tmp_path: Path
):
    """Where somebody has blocked cookies, a page may not even ask what is stored."""
    blocked = {"profile": {"default_content_setting_values": {"cookies": 2}}}
    (tmp_path / "Default").mkdir()
    (tmp_path / "Default" / "Preferences").write_text(json.dumps(blocked))
    context = browser.browser_type.launch_persistent_context(
        tmp_path, executable_path=chromium(), args=OPTIONS, color_scheme="light"
    )
    context.set_default_timeout(WAIT)
    page = context.new_page()
    page.goto(address)
    expect(page.locator(SHOWN)).to_have_text("Disco trio", timeout=WAIT)
    page.get_by_role("button", name="Dark colours").click()
    expect(page.get_by_role("button", name="Light colours")).to_be_visible()
    context.close()


def test_a_server_that_is_killed_and_started_anew_is_not_missed(browser: Browser):
    port = free_port()
    context = browser.new_context()
    page = context.new_page()
    with started("--model", "untrained:tiny:groove", port=port) as server:
        page.goto(server.address)
        expect(page.locator(SHOWN)).to_have_text("Disco trio", timeout=WAIT)
        send(page, "mine.mid", example("trio-jazz"))
        expect(page.locator(SHOWN)).to_have_text("mine")
        os.kill(server.process.pid, signal.SIGKILL)
        server.process.wait()
    page.locator("#mg-go").click()
    alarm = page.locator("#mg-takes > [role=alert]")
    expect(alarm).to_contain_text("it is gone")
    expect(page.locator(SHOWN)).to_have_text("mine")
    with started("--model", "untrained:tiny:groove", port=port):
        go_on(page, bars=1)  # the file is sent once more
        await_end(page)
        expect(alarm).to_be_hidden()
        saved(page)
        page.reload()
        expect(page.locator(SHOWN)).to_have_text("mine", timeout=WAIT)
        expect(page.locator(".mg-take")).to_have_count(1)
    context.close()


def test_what_no_step_leads_back_to_is_not_kept_for_ever(page: Page):
    page.evaluate("() => musicgen.desk.put({ ...musicgen.desk.current, id: 'of long ago' })")
    saved(page)
    entries = """() => new Promise((done) => {
      const asked = musicgen.store.base.transaction("entries").objectStore("entries").getAllKeys();
      asked.onsuccess = () => done(asked.result);
    })"""
    before = page.evaluate(entries)
    assert "of long ago" in before
    again(page)
    page.wait_for_function(f"async () => !(await ({entries})()).includes('of long ago')")
    assert sorted([*page.evaluate(entries), "of long ago"]) == sorted(before)


def test_undo_and_redo_go_through_everything(page: Page):
    states = [desk_open(page)]

    def done(act) -> None:
        act()
        page.wait_for_function(f"before => {LAID_OPEN} !== before", arg=states[-1])
        states.append(desk_open(page))

    done(lambda: page.locator("[data-example=trio-jazz]").click())
    done(lambda: page.get_by_role("slider", name="Bars of the prompt").press("ArrowLeft"))
    done(lambda: page.get_by_label("Model").select_option("groove"))
    expect(page.locator(SHOWN)).to_have_text("Jazz trio")
    done(lambda: go_on(page, bars=1))
    await_end(page)
    done(lambda: page.locator(".mg-take .mg-drop").click())
    choose_bars(page, 3, 4)
    done(lambda: page.get_by_role("button", name="Delete", exact=True).click())
    for state in states[-2::-1]:
        page.keyboard.press("Control+z")
        assert desk_open(page) == state
    for state in states[1:]:
        page.keyboard.press("Control+Shift+z")
        assert desk_open(page) == state


def desk_open(page: Page) -> str:
    """Return what lies open; the history has a test of its own."""
    return page.evaluate(LAID_OPEN)


def test_takes_that_were_undone_stay_in_the_history(page: Page):
    go_on(page, bars=1, variations=2)
    await_end(page)
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".mg-take")).to_have_count(0)
    page.locator("[data-example=trio-jazz]").click()
    expect(page.locator(SHOWN)).to_have_text("Jazz trio")
    saved(page)
    again(page)
    page.locator(".mg-history > summary").click()
    expect(page.locator(".mg-history-title")).to_have_text(
        ["Disco trio", "Variation 1", "Variation 2", "Jazz trio"]
    )
    page.locator(".mg-history-open").nth(2).click()
    expect(page.locator(SHOWN)).to_have_text("Disco trio, variation 2")


def test_when_all_is_deleted_nothing_is_shown_and_music_can_begin(page: Page):
    page.locator(".mg-history > summary").click()
    page.locator(".mg-history-row .mg-drop").click()
    expect(page.locator(SHOWN)).to_have_text("Nothing is open")
    expect(page.locator(".mg-stage .mg-roll")).to_be_hidden()
    expect(page.locator("#mg-dock-play")).to_be_disabled()
    expect(page.locator("#mg-go")).to_have_text("Begin")
    send(page, "no.mid", b"no music")
    expect(page.locator(".mg-stage > [role=alert]")).to_be_visible()
    expect(page.locator(SHOWN)).to_have_text("Nothing is open")
    go_on(page, bars=1)
    await_end(page)
    page.locator(".mg-take .mg-further").click()
    expect(page.locator(SHOWN)).to_have_text("Variation 1")
    expect(page.locator(".mg-stage .mg-roll")).to_be_visible()
    for _ in range(3):
        page.get_by_role("button", name="Undo").click()
    expect(page.locator(SHOWN)).to_have_text("Disco trio")


# Of a piece's bars, which were written, and by whom.
WRITTEN = ("example · 16 bars", *2 * ["bar 5 · untrained:tiny:groove · seed "], "bar 6 · untrained")


def test_takes_of_one_piece_have_names_of_their_own(later: Page):
    for _ in range(2):
        go_on(later, bars=1, variations=2)
        await_end(later)
    choose_bars(later, 2, 2)
    later.get_by_role("button", name="Write anew").first.click()
    await_end(later)
    later.locator(".mg-history > summary").click()
    titles = ["Disco trio", *(f"Variation {number}" for number in range(1, 7))]
    expect(later.locator(".mg-history-title")).to_have_text(titles)
    expect(later.locator(".mg-take h3")).to_have_text(["Variation 5", "Variation 6"])
    expect(later.locator(".mg-history-row .mg-facts").last).to_contain_text("bar 2 anew · ")


def test_the_history_shows_what_came_from_what_and_leads_back(page: Page):
    go_on(page, bars=1, variations=2)
    await_end(page)
    page.locator(".mg-take .mg-further").nth(1).click()
    go_on(page, bars=1)
    await_end(page)
    page.locator(".mg-history > summary").click()
    rows = page.locator(".mg-history-row")
    expect(rows.locator(".mg-history-title")).to_have_text(
        ["Disco trio", "Variation 1", "Variation 2", "Variation 2.1"]
    )
    facts = rows.locator(".mg-facts").all_inner_texts()
    assert all(wanted in told for wanted, told in zip(WRITTEN, facts, strict=True))
    depths = [row.evaluate("e => e.style.getPropertyValue('--depth')") for row in rows.all()]
    assert depths == ["0", "1", "1", "2"]
    rows.nth(1).locator(".mg-star").click()
    page.get_by_role("button", name="★ only").click()
    expect(rows).to_have_count(1)
    rows.first.locator(".mg-history-open").click()
    expect(page.locator(SHOWN)).to_have_text("Disco trio, variation 1")
    summary = page.locator(".mg-history > summary")
    expect(summary).to_have_text("History: 4 pieces, 1 with a star")
    rows.first.locator(".mg-drop").click()
    expect(summary).to_have_text("History: 3 pieces")


def test_two_hundred_takes_stay(page: Page):
    page.evaluate("""() => {
      const { desk } = musicgen, { current } = desk;
      for (let run = 0; run < 100; run++)
        desk.begin([0, 1].map((number) => ({
          ...current, id: `take ${run} ${number}`, parent: current.id, kind: "take", how: "continue",
          run: `${run}`, number, title: `take ${run}.${number}`, likeness: null,
          region: { first: 4, stop: 16, tracks: null } })));
    }""")
    before = desk(page)
    saved(page)
    again(page)
    assert desk(page) == before
    page.locator(".mg-history > summary").click()
    expect(page.locator(".mg-history-row")).to_have_count(201)


def test_a_desk_is_saved_as_a_file_and_opened_elsewhere(page: Page, browser: Browser):
    go_on(page, bars=1)
    await_end(page)
    page.locator(".mg-desk-menu > summary").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save the desk").click()
    assert download.value.suggested_filename == "Disco trio.musicgen"
    data = Path(download.value.path()).read_bytes()
    assert json.loads(data)["format"] == "musicgen desk 1"
    context = browser.new_context()
    other = context.new_page()
    other.goto(page.url)
    expect(other.locator(SHOWN)).to_have_text("Disco trio", timeout=WAIT)
    other.locator("[data-example=trio-jazz]").click()
    expect(other.locator(SHOWN)).to_have_text("Jazz trio")
    send(other, "half.musicgen", data[:-100])
    expect(other.locator(".mg-stage > [role=alert]")).to_contain_text("only a part of one")
    before = other.evaluate("musicgen.desk.open.listed")
    send(other, "all.musicgen", data)
    expect(other.locator(".mg-take")).to_have_count(1)
    assert desk_open(other) == desk_open(page)
    listed = page.evaluate("musicgen.desk.open.listed")
    assert other.evaluate("musicgen.desk.open.listed") == before + listed
    other.get_by_role("button", name="Undo").click()
    expect(other.locator(SHOWN)).to_have_text("Jazz trio")
    context.close()


def test_a_piece_of_a_model_that_is_not_offered_any_more_goes_on(page: Page):
    """Its desk is of a server that had one, or comes from elsewhere."""
    page.evaluate("() => musicgen.desk.step('opening a desk', { model: 'gone' })")
    expect(page.get_by_label("Model")).to_have_value("untrained:tiny:groove")
    go_on(page, bars=1)
    await_end(page)
    expect(page.locator("#mg-takes > [role=alert]")).to_be_hidden()


def test_a_link_opens_the_same_piece_with_the_same_choices(page: Page, browser: Browser):
    send(page, "mine.mid", example("trio-jazz"))
    expect(page.locator(SHOWN)).to_have_text("mine")
    page.get_by_role("slider", name="Bars of the prompt").press("ArrowLeft")
    page.evaluate("() => musicgen.desk.set({ bars: 5, seed: 42 })")
    link = page.evaluate("() => musicgen.app.link()")
    context = browser.new_context()
    other = context.new_page()
    other.goto(link)
    expect(other.locator(SHOWN)).to_have_text("mine", timeout=WAIT)
    expect(other.locator("#mg-prompt-bars input[type=number]")).to_have_value("3")
    expect(other.locator("#mg-bars input[type=number]")).to_have_value("5")
    settings = other.evaluate("musicgen.desk.settings")
    assert (settings["seed"], settings["newSeed"]) == (42, False)
    notes = other.evaluate("musicgen.desk.current.piece.notes.length") / 5
    assert notes == len(read_midi(example("trio-jazz")).notes)
    assert "#" not in other.url
    context.close()


def test_a_link_to_an_empty_grid_lets_music_begin(page: Page, browser: Browser):
    page.locator("[data-example=grid]").click()
    expect(page.locator(SHOWN)).to_have_text("My piece")
    link = page.evaluate("() => musicgen.app.link()")
    context = browser.new_context()
    other = context.new_page()
    other.goto(link)
    expect(other.locator(SHOWN)).to_have_text("From nothing", timeout=WAIT)
    expect(other.locator("#mg-go")).to_have_text("Begin")
    expect(other.locator(".mg-stage > [role=alert]")).to_be_hidden()
    context.close()


def test_a_link_of_odd_kinds_opens_its_piece_with_what_is_usual(page: Page, browser: Browser):
    odd = "{ bars: 'many', chords: 7, ends: [], temperature: null, seed: 42 }"
    link = page.evaluate(
        f"() => ((musicgen.desk.settings = {{ ...musicgen.desk.settings, ...{odd} }}), musicgen.app.link())"
    )
    context = browser.new_context()
    other = context.new_page()
    other.goto(link)
    expect(other.locator("#mg-seed-number")).to_have_value("42", timeout=WAIT)
    settings = other.evaluate("musicgen.desk.settings")
    kinds = [type(settings[name]) for name in ("bars", "chords", "ends")]
    assert kinds == [int, str, bool]
    go_on(other, bars=1)
    await_end(other)
    context.close()
