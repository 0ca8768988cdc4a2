"""What a person's hands do with the page, for its tests."""

import re
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, expect

from tests.app.web.browser import WAIT

# What lies on a desk, without where it is kept: to be compared before and after.
DESK = """() => {
  const { desk } = musicgen, entry = ({ id, title, piece, state, chosen, region }) =>
    ({ id, title, state, chosen, region, notes: [...piece.notes], lines: piece.lines });
  const { open, past, future, stars, settings } = desk.plain();
  const entries = [...desk.needed].sort().map((id) => entry(desk.entries.get(id)));
  return JSON.stringify({ open, past, future, stars, settings, entries });
}"""


# Two frames are drawn, and no colour is on its way any more; the bar of progress is, for as long as music is written.
AT_REST = """() => new Promise((rested) => {
  const ends = (one) => one.effect?.getComputedTiming().endTime < Infinity && one.transitionProperty !== "width";
  const look = () => document.getAnimations().some((one) => one.playState === "running" && ends(one))
    ? requestAnimationFrame(look) : rested();
  requestAnimationFrame(() => requestAnimationFrame(look));
})"""


def in_changed_browser(browser: Browser, address: str, script: str) -> Page:
    """Return the page with its first piece, in a browser that a script changes before; its context is the caller's."""
    context = browser.new_context()
    context.add_init_script(script)
    page = context.new_page()
    page.goto(address)
    expect(page.locator(".mg-stage h2")).to_have_text("Disco trio", timeout=WAIT)
    rest(page)
    return page


def rest(page: Page) -> None:
    """Wait until the page has drawn what has come of the last act, however long that takes."""
    page.evaluate(AT_REST)


def keep_hints(page: Page) -> None:
    """Let what is told beside the tools stay there: a busy machine may look for it after its four seconds."""
    page.evaluate("""() => {
      const { setTimeout } = window;
      window.setTimeout = (act, pause, ...more) => (pause === 4000 ? 0 : setTimeout(act, pause, ...more));
    }""")


def fill(page: Page, name: str, number: int) -> None:
    field = page.locator(f"#mg-{name} input[type=number]")
    if not field.is_visible():
        page.locator(".mg-how").click()  # on a small screen, what is asked for lies in a sheet
    field.fill(str(number))
    field.press("Tab")


def go_on(page: Page, *, bars: int = 2, variations: int = 1) -> None:
    """Ask for a continuation."""
    fill(page, "bars", bars)
    fill(page, "variations", variations)
    page.locator("#mg-go").click()


def await_end(page: Page) -> None:
    expect(page.locator(".mg-take .mg-further").first).to_be_visible(timeout=WAIT)
    expect(page.locator("#mg-go")).to_be_visible(timeout=WAIT)


def new_notes(page: Page) -> int:
    return int(re.findall(r"\d+", page.locator(".mg-take .mg-facts").first.inner_text())[0])


def downloaded(page: Page, text: str, card: str = ".mg-take") -> bytes:
    """Save something of a card by its menu."""
    one = page.locator(card).first
    one.locator(".mg-menu > summary").click()
    with page.expect_download() as download:
        one.get_by_role("button", name=text, exact=True).click()
    return Path(download.value.path()).read_bytes()


def send(page: Page, name: str, data: bytes) -> None:
    page.locator("#mg-file").set_input_files(
        {"name": name, "mimeType": "audio/midi", "buffer": data}
    )


def desk(page: Page) -> str:
    """Return all that lies on the desk."""
    return page.evaluate(DESK)


def saved(page: Page) -> None:
    """Wait until the browser has kept the desk."""
    page.evaluate("() => musicgen.store.save()")


def choose_bars(page: Page, first: int, last: int, card: str = ".mg-stage") -> None:
    """Drag over some bars of a roll, as it is drawn."""
    rest(page)
    spots: Any = page.evaluate(
        """([card, first, last]) => {
          const roll = card === ".mg-stage" ? musicgen.rolls.stage() : musicgen.rolls.takes()[0];
          roll.view.scrollIntoView({ block: "center" });
          const box = roll.view.getBoundingClientRect(), { lines } = roll.piece;
          const at = (bar) => box.left + roll.x((lines[bar] + lines[bar + 1]) / 2) - roll.view.scrollLeft;
          return [at(first - 1), at(last - 1), box.top + 90];
        }""",
        [card, first, last],
    )
    left, right, top = spots
    page.mouse.move(left, top)
    page.mouse.down()
    page.mouse.move(left + 8, top)
    page.mouse.move(right, top, steps=4)
    page.mouse.up()
