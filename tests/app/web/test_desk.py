"""Nothing is lost: not by a reload, a crash, another tab, a server that is started anew."""

import json
import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Error, Page, expect

from app.audio import default_soundfont
from app.web.offered_models import example
from tests.app.web.browser import MODEL, OPTIONS, WAIT, chromium, free_port, started
from tests.app.web.hands import SHOWN, await_end, desk, go_on, open_example, saved, send
from tokenization.midi.reading import read_midi


def again(page: Page) -> None:
    page.reload()
    page.wait_for_function("() => window.musicgen?.desk.current")


def test_reload(page: Page):
    """A desk comes back as it was left, with all steps that lead back and forth."""
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


def test_link(page: Page, visit, address: str):
    """A link opens the same piece with the same choices; a broken one is told."""
    send(page, "mine.mid", example("trio-jazz"))
    expect(page.locator(SHOWN)).to_have_text("mine")
    page.get_by_role("slider", name="Bars of the prompt").press("ArrowLeft")
    page.evaluate("() => Object.assign(musicgen.desk.settings, { bars: 5, seed: 42, chords: 7 })")
    other = visit(link=page.evaluate("() => musicgen.app.link()"))
    expect(other.locator(SHOWN)).to_have_text("mine")
    expect(other.locator("#mg-prompt-bars input[type=number]")).to_have_value("15")
    expect(other.locator("#mg-bars input[type=number]")).to_have_value("5")
    settings = other.evaluate("musicgen.desk.settings")
    asked = [settings[name] for name in ("seed", "newSeed", "chords")]
    assert asked == [42, False, ""]  # what is of an odd kind is left out
    notes = other.evaluate("musicgen.desk.current.piece.notes.length") / 5
    assert notes == len(read_midi(example("trio-jazz")).notes)
    assert "#" not in other.url
    broken = visit(link=f"{address}/#desk=broken")
    expect(broken.locator(SHOWN)).to_have_text("Piano in C")
    expect(broken.locator(".mg-stage > [role=alert]")).to_contain_text("This link is broken")


def test_a_desk_is_saved_as_a_file_and_opened_elsewhere(page: Page, visit):
    go_on(page, bars=1)
    await_end(page)
    page.locator(".mg-desk-menu > summary").click()
    licences = page.locator(".mg-desk-menu a").evaluate(
        "async ({ href }) => (await fetch(href)).text()"
    )
    assert f"{default_soundfont().stem}, a General MIDI soundfont" in licences
    with page.expect_download() as download:
        page.get_by_role("button", name="Save the project").click()
    assert download.value.suggested_filename == "Piano in C.musicgen"
    data = Path(download.value.path()).read_bytes()
    other = visit()
    open_example(other, "trio-jazz")
    send(other, "half.musicgen", data[:-100])
    expect(other.locator(".mg-stage > [role=alert]")).to_contain_text("only a part of one")
    before, listed = (one.evaluate("musicgen.desk.open.listed") for one in (other, page))
    send(other, "all.musicgen", data)
    expect(other.locator(".mg-take")).to_have_count(1)
    assert other.evaluate("musicgen.desk.open.listed") == before + listed
    assert other.evaluate("musicgen.desk.open.takes") == page.evaluate("musicgen.desk.open.takes")
    other.get_by_role("button", name="Undo").click()
    expect(other.locator(SHOWN)).to_have_text("Jazz trio")


def test_the_last_desk_comes_back_also_if_the_clock_was_set_back(page: Page):
    open_example(page, "trio-jazz")
    saved(page)
    page.evaluate("musicgen.store.base = null")  # it keeps nothing more
    second = page.context.new_page()  # a copy, since the first is still there
    second.add_init_script("const now = Date.now; Date.now = () => now() - 864e5;")
    second.goto(page.url)
    expect(second.locator(SHOWN)).to_have_text("Jazz trio")
    second.locator("[data-example=grid]").click()
    expect(second.locator(SHOWN)).to_have_text("My piece")
    saved(second)
    third = page.context.new_page()
    third.goto(page.url)
    expect(third.locator(SHOWN)).to_have_text("My piece")


@pytest.mark.long
@pytest.mark.parametrize("locks", [True, False])
def test_another_tab_is_a_copy(visit, locks: bool):
    """Without TLS there are no locks, and it is one too."""
    none = "Object.defineProperty(Navigator.prototype, 'locks', { value: undefined })"
    page = visit(before="" if locks else none)
    open_example(page, "trio-jazz")
    saved(page)
    other = page.context.new_page()
    other.goto(page.url)
    expect(other.locator(SHOWN)).to_have_text("Jazz trio", timeout=WAIT)
    assert other.evaluate("musicgen.desk.id") != page.evaluate("musicgen.desk.id")
    open_example(other, "trio-trance")
    saved(other)
    again(page)
    expect(page.locator(SHOWN)).to_have_text("Jazz trio")
    again(other)
    expect(other.locator(SHOWN)).to_have_text("Trance trio")


@pytest.mark.long
def test_a_tab_that_crashes_or_changes_at_the_last_moment_loses_nothing(page: Page):
    for number in range(3):
        saved(page)
        put = f"musicgen.desk.show({{ ...musicgen.desk.current, title: '{number}' }}, 'test')"
        page.evaluate(f"() => {{ {put}; location.reload(); }}")
        expect(page.locator(SHOWN)).to_have_text(f"{number}", timeout=WAIT)
        page.wait_for_function("() => window.musicgen?.desk.current")
    open_example(page, "trio-jazz")
    page.wait_for_timeout(3000)  # it is kept by itself, without a farewell
    crashing = page.context.new_cdp_session(page)
    crashing.send("Page.enable")
    with suppress(Error):  # it does not answer any more
        crashing.send("Page.crash", timeout=1000)
    fresh = page.context.new_page()
    fresh.goto(page.url)
    expect(fresh.locator(SHOWN)).to_have_text("Jazz trio", timeout=WAIT)


@pytest.mark.long
def test_a_reload_while_it_composes_keeps_what_had_come(page: Page):
    new = (
        "musicgen.desk.takes[0]?.piece.notes.filter((at, i) => i % 5 === 0 && at >= 16 * 96).length"
    )
    go_on(page, bars=128)
    page.wait_for_function(f"() => {new} > 5")
    came = page.evaluate(new)
    saved(page)
    again(page)
    expect(page.locator(".mg-take .mg-further")).to_be_visible()
    assert page.evaluate("musicgen.desk.takes[0].state") == "stopped"
    assert page.evaluate(new) >= came
    page.locator(".mg-take .mg-further").click()
    go_on(page, bars=1)
    await_end(page)


@pytest.mark.long
def test_a_browser_that_is_told_to_keep_nothing_shows_the_page(browser, address, tmp_path: Path):
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
    expect(page.locator(SHOWN)).to_have_text("Piano in C", timeout=WAIT)
    page.get_by_role("button", name="Dark mode").click()
    expect(page.get_by_role("button", name="Light mode")).to_be_visible()
    context.close()


@pytest.mark.long
def test_a_server_that_is_killed_and_started_anew_is_not_missed(browser: Browser):
    port = free_port()
    context = browser.new_context()
    page = context.new_page()
    with started("--model", MODEL, port=port) as server:
        page.goto(server.address)
        send(page, "mine.mid", example("trio-jazz"))
        expect(page.locator(SHOWN)).to_have_text("mine")
        os.kill(server.process.pid, signal.SIGKILL)
        server.process.wait()
    page.locator("#mg-go").click()
    alarm = page.locator("#mg-takes > [role=alert]")
    expect(alarm).to_contain_text("it is gone")
    expect(page.locator(SHOWN)).to_have_text("mine")
    with started("--model", MODEL, port=port):
        go_on(page, bars=1)  # the file is sent once more
        await_end(page)
        expect(alarm).to_be_hidden()
    context.close()


@pytest.mark.long
def test_the_browser_keeps_what_steps_lead_back_to_and_desks_that_are_open(page: Page):
    page.evaluate("() => musicgen.desk.put({ ...musicgen.desk.current, id: 'of long ago' })")
    saved(page)
    own = page.evaluate("musicgen.desk.id")
    keys = """(name) => new Promise((done) => {
      const asked = musicgen.store.base.transaction(name).objectStore(name).getAllKeys();
      asked.onsuccess = () => done(asked.result);
    })"""
    before = page.evaluate(keys, "entries")
    assert "of long ago" in before
    page.evaluate("""() => {
      const desks = musicgen.store.base.transaction("desks", "readwrite").objectStore("desks");
      for (let i = 0; i < 30; i++) desks.put({ ...musicgen.desk.plain(), id: `later ${i}`, saved: Date.now() + i });
    }""")
    other = page.context.new_page()
    other.goto(page.url)
    other.wait_for_function("() => window.musicgen?.desk.current")
    other.wait_for_function(f"async () => (await ({keys})('desks')).length < 30")
    assert own in other.evaluate(keys, "desks")  # a tab that lies open for long
    assert sorted([*other.evaluate(keys, "entries"), "of long ago"]) == sorted(before)


@pytest.mark.long
def test_the_history_leads_back_and_when_all_of_it_is_deleted_music_can_begin(page: Page):
    go_on(page, bars=1, variations=2)
    await_end(page)
    summary, rows = page.locator(".mg-history > summary"), page.locator(".mg-history-row")
    summary.click()
    titles = ["Piano in C", "Take 1", "Take 2"]
    expect(rows.locator(".mg-history-title")).to_have_text(titles)
    facts = rows.locator(".mg-facts").all_inner_texts()
    assert [told.rpartition(" · ")[0].rstrip("0123456789") for told in facts] == [
        "example · 16 bars", *2 * [f"bar 17 · {MODEL} · seed "]
    ]  # fmt: skip
    rows.nth(1).locator(".mg-star").click()
    page.get_by_role("button", name="★ only").click()
    expect(rows).to_have_count(1)
    rows.first.locator(".mg-history-open").click()
    expect(page.locator(SHOWN)).to_have_text("Piano in C, take 1")
    expect(summary).to_have_text("History: 3 pieces, 1 with a star")
    page.get_by_role("button", name="★ only").click()
    for left in (2, 1, 0):
        rows.first.locator(".mg-drop").click()
        expect(rows).to_have_count(left)
    expect(page.locator(SHOWN)).to_have_text("Nothing is open")
    expect(page.locator("#mg-dock-play")).to_be_disabled()
    page.evaluate("() => musicgen.desk.set({ seed: 2, newSeed: false })")  # of which notes come
    go_on(page, bars=1)
    await_end(page)
    page.locator(".mg-take .mg-further").click()
    expect(page.locator(SHOWN)).to_have_text("Take 1")
