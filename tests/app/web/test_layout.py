"""Where things stand: takes under the piece, what is new in them, and what is asked for at hand, on any screen."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.app.web.browser import WAIT
from tests.app.web.hands import await_end, go_on, keep_hints, rest
from tests.app.web.test_access import PHONE


def test_on_a_phone_what_is_asked_for_lies_in_a_sheet(visit):
    page = visit(**PHONE)
    how, field = page.locator(".mg-how"), page.locator("#mg-bars input[type=number]")
    expect(field).to_be_hidden()
    expect(how).to_have_attribute("aria-expanded", "false")
    how.click()
    expect(field).to_be_visible()
    expect(page.locator(".mg-sheet-close")).to_be_focused()
    expect(page.locator(".mg-stage h2")).to_be_in_viewport()  # the music is not buried
    page.keyboard.press("Escape")
    expect(field).to_be_hidden()
    expect(how).to_be_focused()
    how.click()
    go_on(page, bars=1)
    expect(field).to_be_hidden()
    await_end(page)
    page.locator(".mg-unfold").click()
    for name in ("#mg-tempo", ".mg-loop", ".mg-clicks"):
        expect(page.locator(name)).to_be_in_viewport(ratio=1)


# How far the middles of what stands in a row lie apart.
APART = """(row) => {
  const parts = "button, summary, h3, .mg-facts, .mg-dock-time, .mg-dial";
  const boxes = [...document.querySelector(row).querySelectorAll(parts)].map((one) => one.getBoundingClientRect());
  const middles = boxes.filter(({ height }) => height).map(({ top, height }) => top + height / 2);
  return Math.max(...middles) - Math.min(...middles);
}"""


@pytest.mark.parametrize("width", [820, 390])
def test_what_fits_stands_in_one_line(visit, width: int):
    page = visit(**PHONE) if width == 390 else visit(width)
    page.evaluate("() => musicgen.desk.set({ seed: 2147483647, newSeed: false })")
    go_on(page, bars=12, variations=2)
    await_end(page)
    rows = [
        ".mg-take .mg-head",
        ".mg-take .mg-foot",
        "#mg-dock",
        ".mg-stage .mg-foot",
        ".mg-status",
    ]
    assert all(page.evaluate(APART, row) < 8 for row in rows)
    wide, needed = page.locator(".mg-dock-time").evaluate("e => [e.clientWidth, e.scrollWidth]")
    assert wide >= needed
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.locator(".mg-history > summary").click()
    page.locator(".mg-history-row .mg-drop").last.scroll_into_view_if_needed()
    expect(page.locator(".mg-history-row .mg-drop").last).to_be_in_viewport(ratio=1)
    line = page.locator(".mg-history-list")
    assert line.evaluate("e => e.scrollWidth <= e.clientWidth")


@pytest.mark.parametrize("width", [1280, 390])
def test_takes_follow_the_piece_and_what_is_asked_for_stays_at_hand(visit, width: int):
    page = visit(width)
    go_on(page, bars=1, variations=4)
    await_end(page)
    gap = page.evaluate(
        "document.querySelector('#mg-takes').getBoundingClientRect().top - "
        "document.querySelector('.mg-stage').getBoundingClientRect().bottom"
    )
    assert 0 <= gap <= 24
    page.locator(".mg-take").last.scroll_into_view_if_needed()
    expect(page.locator(".mg-stage h2")).not_to_be_in_viewport()
    expect(page.locator("#mg-go")).to_be_in_viewport(ratio=1)


def test_a_take_shows_what_is_new_after_a_bar_that_leads_in(page: Page):
    page.locator("#mg-tempo input").fill("50")  # so that it lasts
    go_on(page, bars=4, variations=2)
    await_end(page)
    shown = "musicgen.rolls.takes().map((roll) => [roll.begin, roll.end, roll.x(roll.begin) - roll.gutter])"
    assert page.evaluate(shown) == [[3 * 48, 8 * 48, 0]] * 2
    page.locator(".mg-take").first.get_by_label("Play", exact=True).click()
    page.wait_for_function("() => musicgen.player.playing")
    assert page.evaluate("musicgen.player.tick") >= 3 * 48  # from where it is seen on
    page.locator(".mg-take").first.get_by_label("Pause").click()
    page.get_by_role("button", name="With the prompt").click()
    page.wait_for_function("() => musicgen.rolls.takes().every((roll) => roll.begin === 0)")


def test_the_view_follows_what_sounds(page: Page):
    roll = "musicgen.rolls.stage()"
    page.locator("#mg-tempo input").fill("50")  # so that it lasts
    for _ in range(5):
        page.locator(".mg-stage").get_by_label("Zoom in").click()
    assert page.evaluate(f"{roll}.view.scrollLeft = 0") == 0
    page.evaluate("() => musicgen.player.seek(48 * 12)")
    page.locator(".mg-stage").get_by_label("Play", exact=True).click()
    page.wait_for_function(f"() => {roll}.view.scrollLeft > {roll}.inner")
    # a busy machine draws late: the cursor is awaited in view, not met there
    page.wait_for_function("""() => {
      const roll = musicgen.rolls.stage(), seen = roll.x(musicgen.player.tick) - roll.view.scrollLeft;
      return musicgen.player.playing && roll.gutter <= seen && seen <= roll.view.clientWidth;
    }""")


def test_words_of_musicians_come_first(page: Page):
    for name in ("#mg-daring", "#mg-dense", "#mg-bars", "#mg-ends"):
        expect(page.locator(name)).to_be_visible()
    for name in (
        "#mg-temperature",
        "#mg-top-p",
        "#mg-top-k",
        "#mg-min-p",
        "#mg-recall",
        "#mg-seed",
    ):
        expect(page.locator(name)).to_be_hidden()
    page.get_by_text("More: temperature").click()
    expect(page.locator("#mg-top-p")).to_be_visible()


def test_a_wild_take_does_not_flatten_the_piece(page: Page):
    rows = "musicgen.rolls.stage().lanes.map((lane) => lane.rows)"
    before = page.evaluate(rows)
    page.evaluate("""() => {
      const { desk } = musicgen, { current } = desk, { piece } = current;
      const notes = Int32Array.from({ length: 15000 }, (_, n) => {
        const i = Math.floor(n / 5);
        return [192 + (i % 500), 6, (37 * i) % 128, 80, i % 3][n % 5];
      });
      desk.begin([{ ...current, id: "wild", parent: current.id, kind: "take", how: "continue", run: "wild", number: 0,
        piece: { ...piece, notes }, likeness: null, region: { first: 4, stop: 16, tracks: null } }]);
    }""")
    expect(page.locator(".mg-take")).to_be_visible()
    rest(page)
    pitched = [0, 2]
    after = page.evaluate(rows)
    assert all(after[i] <= before[i] + 24 for i in pitched)
    assert after[1] <= 15


def test_the_examples_stand_in_one_row(page: Page):
    tops = page.evaluate(
        "[...document.querySelectorAll('.mg-chips .mg-chip')].map((chip) => "
        "Math.round(chip.getBoundingClientRect().top))"
    )
    assert len(tops) == 8
    assert len(set(tops)) == 1


def test_the_desk_is_there_before_gradios_own_scripts(browser, address: str):
    context = browser.new_context()
    page = context.new_page()
    page.route("**/assets/*.js", lambda route: route.abort())
    page.goto(address)
    expect(page.locator(".mg-stage h2")).to_have_text("Disco trio", timeout=WAIT)
    go_on(page, bars=1)
    await_end(page)
    context.close()


@pytest.mark.parametrize("width", [820, 390])
def test_how_far_it_is_and_the_tools_of_takes_stand_in_one_line(visit, width: int):
    page = visit(width)
    go_on(page, bars=128)
    words, status = page.locator(".mg-status [role=status]"), page.locator(".mg-status")
    expect(words).to_contain_text(re.compile(r"^Bar \d+ of 128 · \d+ (s|min) left$"))
    tall, finger = words.evaluate("e => e.getBoundingClientRect().height"), 44
    assert tall < 30
    assert page.evaluate(APART, ".mg-status") < 8
    assert status.evaluate("e => e.getBoundingClientRect().height") <= finger
    expect(status.get_by_role("progressbar")).to_be_visible()
    if width == 390:
        page.locator(".mg-examples > summary").click()
    page.locator("[data-example=trio-jazz]").click()  # what is composed goes into the history
    expect(words).to_contain_text("in the history", timeout=WAIT)
    assert words.evaluate("e => e.getBoundingClientRect().height") <= finger
    page.locator("#mg-halt").click()
    expect(page.locator("#mg-go")).to_be_visible(timeout=WAIT)


@pytest.mark.parametrize("width", [1280, 390])
def test_a_menu_opens_where_all_of_it_is_seen(visit, width: int):
    page = visit(width)
    go_on(page, bars=1)
    await_end(page)
    for card in (".mg-stage", ".mg-take"):
        opener = page.locator(f"{card} .mg-menu > summary").first
        for far in (60, 500):  # from the window's top
            page.evaluate(
                "([card, far]) => scrollBy(0, document.querySelector(`${card} .mg-menu`)"
                ".getBoundingClientRect().top - far)",
                [card, far],
            )
            opener.click()
            for item in page.locator(f"{card} .mg-item").all():
                expect(item).to_be_in_viewport(ratio=1)
            page.keyboard.press("Escape")
            expect(opener).to_be_focused()


@pytest.mark.parametrize("width", [820, 390])
def test_a_take_that_is_being_written_is_in_sight_and_the_history_follows_it(visit, width: int):
    page = visit(**PHONE) if width == 390 else visit(width)
    examples = page.locator(".mg-chips")
    expect(examples).to_be_visible()
    go_on(page, bars=128)
    expect(page.locator(".mg-take .mg-facts")).to_contain_text("new notes", timeout=WAIT)
    expect(page.locator(".mg-take .mg-roll")).to_be_in_viewport(ratio=1)
    gap = """() => document.querySelector(".mg-history").getBoundingClientRect().top
      - document.querySelector(".mg-take").getBoundingClientRect().bottom"""
    assert 0 <= page.evaluate(gap) <= 24
    expect(examples).to_be_visible(visible=width > 640)  # on a phone they make way
    page.locator("#mg-halt").click()
    await_end(page)


def test_the_cursor_stays_at_its_beat_when_the_roll_is_zoomed(page: Page):
    page.evaluate("() => musicgen.player.seek(4 * 48)")
    off = """() => {
      const roll = musicgen.rolls.stage(), at = new DOMMatrix(getComputedStyle(roll.cursor).transform).e;
      return Math.abs(at - roll.x(4 * 48));
    }"""
    page.wait_for_function(f"() => ({off})() < 1")
    page.locator(".mg-stage").get_by_label("Zoom in").click()
    assert page.evaluate(off) < 1


@pytest.mark.parametrize("width", [1024, 820, 390])
def test_the_tools_of_the_piece_stand_in_one_line_and_a_copied_link_is_told(visit, width: int):
    page = visit(width)
    keep_hints(page)
    assert page.evaluate(APART, ".mg-stage .mg-foot") < 8
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy link").click()
    expect(page.locator(".mg-stage .mg-hint")).to_be_visible()
    expect(page.locator(".mg-stage .mg-hint")).to_contain_text("Copied")


def test_what_is_told_beside_the_buttons_moves_none_of_them(page: Page):
    keep_hints(page)
    places = "() => [...document.querySelectorAll('.mg-stage .mg-foot .mg-chip')].map((one) => one.offsetTop)"
    before = page.evaluate(places)
    page.get_by_role("button", name="Copy link").click()
    expect(page.locator(".mg-stage .mg-hint")).to_contain_text("Copied")
    assert page.evaluate(places) == before
