"""Nothing is lost by a reload, a crash, another tab, a clock set back, or a restart of the server."""

import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Error, Page, expect

from app.web.offered_models import example
from tests.app.web.browser import MODEL, WAIT, free_port, started
from tests.app.web.hands import (
    SHOWN,
    await_end,
    begin,
    desk,
    fill,
    go_on,
    open_example,
    playback,
    saved,
    send,
)
from tests.app.web.sites import BOTH

# A newer desk has been stored; a read after the write waits until it is on the disk.
KEPT = """(before) => musicgen.store.latest > before && new Promise((done) => {
  musicgen.store.base.transaction("desks").objectStore("desks").count().onsuccess = () => done(true);
})"""


def again(page: Page) -> None:
    page.reload()
    page.wait_for_function("() => window.musicgen?.desk.current")


@BOTH
def test_reload(page: Page):
    """A desk is restored with all steps of undo and redo."""
    send(page, "my song.mid", example("trio-jazz"))
    expect(page.locator(SHOWN)).to_have_text("my song")
    go_on(page, bars=2, variations=2)
    await_end(page)
    page.locator(".mg-take .mg-star").first.click()
    playback(page, "tempo", 1.4)
    page.get_by_role("button", name="Undo").click()
    before = desk(page)
    saved(page)
    again(page)
    assert desk(page) == before
    page.get_by_role("button", name="Redo").click()
    expect(page.locator(".mg-take")).to_have_count(2)
    expect(page.locator(".mg-take .mg-star[aria-pressed=true]")).to_have_count(1)
    expect(page.locator("#mg-tempo input[type=number]")).to_have_value("168")


def test_takes_that_a_reload_interrupts_say_so_and_empty_ones_go(page: Page):
    def interrupt(when: str) -> None:
        page.locator("#mg-go").click()
        page.wait_for_function(f"() => musicgen.desk.takes.{when}")
        saved(page)
        again(page)

    fill(page, "bars", 64)
    page.evaluate("musicgen.app.composer.grow = () => {}")  # as before the first note
    interrupt("length")
    expect(page.locator(".mg-take")).to_have_count(0)
    interrupt("some(({ now }) => now > 96 * 20)")
    expect(page.locator(".mg-take")).to_have_count(2)
    bars = page.evaluate("musicgen.desk.takes[0].region.stop") - 16
    assert 0 < bars < 64
    facts = page.locator(".mg-take .mg-facts").first
    expect(facts).to_contain_text(f"interrupted after {bars} of 64 bars")


def test_a_project_is_saved_as_a_file_and_opened_elsewhere(page: Page, visit):
    go_on(page, bars=1)
    await_end(page)
    page.locator(".mg-desk-menu > button").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save the project").click()
    assert download.value.suggested_filename == "Piano in C.musicgen"
    data = Path(download.value.path()).read_bytes()
    other = visit()
    open_example(other, "trio-jazz")
    send(other, "half.musicgen", data[:-100])
    expect(other.locator("#mg-dock [role=alert]")).to_contain_text(
        "not a complete musicgen project file"
    )
    send(other, "all.musicgen", data)
    expect(other.locator(".mg-take")).to_have_count(1)
    assert other.evaluate("musicgen.desk.open.takes") == page.evaluate("musicgen.desk.open.takes")
    other.get_by_role("button", name="Undo").click()
    expect(other.locator(SHOWN)).to_have_text("Jazz trio")


def test_the_last_desk_is_restored_even_if_the_clock_was_set_back(page: Page):
    open_example(page, "trio-jazz")
    saved(page)
    page.evaluate("musicgen.store.base = null")  # it stores nothing more
    second = page.context.new_page()  # a copy, since the first is still open
    second.add_init_script("const now = Date.now; Date.now = () => now() - 864e5;")
    second.goto(page.url)
    expect(second.locator(SHOWN)).to_have_text("Jazz trio")
    begin(second, "grid")
    expect(second.locator(SHOWN)).to_have_text("My piece")
    saved(second)
    third = page.context.new_page()
    third.goto(page.url)
    expect(third.locator(SHOWN)).to_have_text("My piece")


@pytest.mark.long
@pytest.mark.parametrize("locks", [True, False])
def test_another_tab_gets_a_copy(visit, locks: bool):
    """Also without TLS, where there are no locks."""
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
def test_a_crash_or_a_last_moment_change_loses_nothing(page: Page):
    for number in range(3):
        saved(page)
        put = f"musicgen.desk.show({{ ...musicgen.desk.current, title: '{number}' }}, 'test')"
        page.evaluate(f"() => {{ {put}; location.reload(); }}")
        expect(page.locator(SHOWN)).to_have_text(f"{number}", timeout=WAIT)
        page.wait_for_function("() => window.musicgen?.desk.current")
    saved(page)
    before = page.evaluate("musicgen.store.latest")
    open_example(page, "trio-jazz")
    page.wait_for_function(KEPT, arg=before)  # without an event of the page closing
    crashing = page.context.new_cdp_session(page)
    crashing.send("Page.enable")
    with suppress(Error):  # it no longer answers
        crashing.send("Page.crash", timeout=1000)
    fresh = page.context.new_page()
    fresh.goto(page.url)
    expect(fresh.locator(SHOWN)).to_have_text("Jazz trio", timeout=WAIT)


@pytest.mark.long
def test_the_page_survives_a_restart_of_the_server(browser: Browser):
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
    alarm = page.locator("#mg-dock [role=alert]")
    expect(alarm).to_contain_text("cannot be reached")
    expect(page.locator(SHOWN)).to_have_text("mine")
    with started("--model", MODEL, port=port):
        go_on(page, bars=1)  # the file is sent again
        await_end(page)
        expect(alarm).to_be_hidden()
    context.close()
