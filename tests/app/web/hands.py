"""Actions of a user on the page, for its tests."""

import re
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page, expect

from tests.app.web.browser import WAIT

PHONE: dict[str, Any] = {"width": 390, "is_mobile": True, "has_touch": True}
SHOWN = ".mg-stage h2"
NOTES = "[...musicgen.desk.current.piece.notes]"
# The state of a desk, for comparison.
DESK = """(({ desk }) => JSON.stringify([desk.plain(), ...[...desk.needed].sort().map((id) => desk.entries.get(id))
  .map(({ id, piece, state }) => [id, state, [...piece.notes], piece.lines])]))(musicgen)"""
# Two frames are drawn, and transitions have ended.
AT_REST = """() => new Promise((rested) => {
  const ends = (one) => one.effect?.getComputedTiming().endTime < Infinity;
  const look = () => document.getAnimations().some((one) => one.playState === "running" && ends(one))
    ? requestAnimationFrame(look) : rested();
  requestAnimationFrame(() => requestAnimationFrame(look));
})"""


def rest(page: Page) -> None:
    """Wait until the page has drawn the result of the last action."""
    page.evaluate(AT_REST)


def fill(page: Page, name: str, number: int) -> None:
    field = page.locator(f"#mg-{name} input[type=number]")
    if not field.is_visible():
        page.locator(".mg-controls > summary").click()  # closed at first on a small screen
    field.fill(str(number))
    field.press("Tab")


def go_on(page: Page, *, bars: int = 2, variations: int = 1) -> None:
    """Ask for a continuation."""
    fill(page, "bars", bars)
    fill(page, "variations", variations)
    page.locator("#mg-go").click()


def await_end(page: Page) -> None:
    expect(page.locator(".mg-take .mg-further").first).to_be_visible(timeout=WAIT)
    expect(page.locator("#mg-go")).not_to_have_text("Stop", timeout=WAIT)


def new_notes(page: Page) -> int:
    return int(re.findall(r"\d+", page.locator(".mg-take .mg-facts").first.inner_text())[0])


def downloaded(page: Page, text: str, card: str = ".mg-take") -> bytes:
    """Save something by the menu of a card."""
    one = page.locator(card).first
    one.locator(".mg-menu > button").click()
    with page.expect_download() as download:
        one.get_by_role("button", name=text, exact=True).click()
    return Path(download.value.path()).read_bytes()


def send(page: Page, name: str, data: bytes) -> None:
    page.locator("#mg-file").set_input_files(
        {"name": name, "mimeType": "audio/midi", "buffer": data}
    )


def begin(page: Page, name: str) -> None:
    """Choose something in the menu of what can be opened: an example, "grid" or "nothing"."""
    page.locator(".mg-new-menu > button").click()
    page.locator(f"[data-example={name}]").click()


def playback(page: Page, name: str, number: float) -> None:
    """Set the transposition, or the tempo as a multiple of that of the piece."""
    page.locator(".mg-playback").get_by_role("button", name="Playback").click()
    slider = page.locator(f"#mg-{name} input[type=range]")
    slider.fill(str(round(number * int(slider.input_value())) if name == "tempo" else number))
    page.keyboard.press("Escape")


def open_example(page: Page, name: str) -> None:
    """Open an example."""
    begin(page, name)
    page.wait_for_function("(name) => musicgen.desk.current?.example === name", arg=name)


def desk(page: Page) -> str:
    """Return the state of the desk."""
    return page.evaluate(DESK)


def saved(page: Page) -> None:
    """Wait until the browser has stored the desk."""
    page.evaluate("() => musicgen.store.save()")


def choose_bars(page: Page, first: int, last: int, card: str = ".mg-stage") -> None:
    """Drag over some bars of a roll."""
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


def act(page: Page, name: str, card: str = "body") -> None:
    """Apply an action to the selected bars."""
    bar = page.locator(card).locator(".mg-range-bar:visible")
    bar.get_by_role("button", name=name, exact=True).click()


def track(page: Page, name: str) -> Locator:
    return page.locator(".mg-track", has=page.locator(".mg-track-name", has_text=name))


def outside(notes: list[int], first: int, stop: int) -> list[list[int]]:
    """Return the notes that do not begin in ticks first … stop − 1."""
    rows = [notes[i : i + 5] for i in range(0, len(notes), 5)]
    return sorted(row[:3] + row[4:] for row in rows if not first <= row[0] < stop)


def spot(page: Page, tick: float, pitch: int, track: int) -> tuple[float, float]:
    """Return the position of a tick and a pitch of a track on the stage."""
    return page.evaluate(
        """([tick, pitch, track]) => {
          const roll = musicgen.rolls.stage(), box = roll.view.getBoundingClientRect();
          const lane = roll.laid.find((one) => one.index === track), left = box.left + 1 - roll.view.scrollLeft;
          return [left + roll.x(tick), box.top + 1 + lane.top + (lane.row(pitch) + 0.5) * lane.step];
        }""",
        [tick, pitch, track],
    )
