"""From the click on Continue to the first note, in a real browser: python -m tests.tools.page.first_note --clicks 20.

A user clicks Continue with the default settings, on one example after another, and stops at the first note; the first
clicks run to the end. With --look 3, each piece is on the page for three seconds before the click, while the server
reads it in advance. Prints the times to the first new note painted, on a warm page and once on a new server. For the
complete runs, prints the speed as a multiple of real time, and the smallest lead of the notes on the page over a
listener who starts at the first one.
"""

from collections import namedtuple

import numpy as np
from playwright.sync_api import Browser, Page, sync_playwright

from app.web.offered_models import EXAMPLES, OfferedModels
from tests.app.web.browser import OPTIONS, chromium, serving
from tests.tools.options import options
from tokenization.analysis.beats import tempo_map
from tokenization.midi.reading import read_midi

WAIT = 120_000  # milliseconds
# Resolves at the end. A frame has been painted when the next begins, so times are taken there.
WATCH = """(whole) => new Promise((done) => {
  const before = new Set(document.querySelectorAll(".mg-take"));
  document.querySelector("#mg-go").addEventListener("click", () => {
    const begun = performance.now(), seen = [];
    let first = null, part = 0, came = 0;
    const look = (now) => {
      if (came && first === null) {
        first = performance.now() - begun;
        if (!whole) document.querySelector("#mg-go").click();
      }
      if (came) seen.push([(performance.now() - begun) / 1000, part]);
      const cards = [...document.querySelectorAll(".mg-take")].filter((card) => !before.has(card));
      came = Math.max(0, ...cards.map((card) => parseInt(card.querySelector(".mg-facts").textContent) || 0));
      part = document.querySelector(".mg-progress").value;
      const over = cards.length && cards.every((card) => card.querySelector(".mg-further:not([hidden])"));
      if (!over || first === null) return requestAnimationFrame(look);
      done({ first, whole: performance.now() - begun, seen });
    };
    requestAnimationFrame(look);
  }, { once: true, capture: true });
  setTimeout(() => document.querySelector("#mg-go").click());
})"""


Click = namedtuple("Click", "first whole music ahead")
"""One click: seconds to the first note and to the end, seconds of new music, and the smallest lead over a listener."""


def click(page: Page, *, whole: bool) -> Click:
    """Click Continue and wait for the end, or stop at the first note."""
    found = page.evaluate(WATCH, whole)
    bars = int(page.locator("#mg-bars input[type=number]").input_value())
    prompt_bars = int(page.locator("#mg-chosen input[type=number]").input_value())
    score = read_midi(bytes(page.evaluate("[...musicgen.desk.takes[0].file]")))
    begin, end = tempo_map(score).to_seconds(4.0 * np.array([prompt_bars, prompt_bars + bars]))
    music, first = float(end - begin), found["first"] / 1000
    ahead = min(part * music - (at - first) for at, part in found["seen"])
    return Click(first, found["whole"] / 1000, music, ahead)


def measured(
    browser: Browser, model: str, clicks: int, whole: int, look: float
) -> tuple[Click, list[Click]]:
    """Return the first click on a new server and the later ones, `whole` of which run to the end.

    Before each of the later clicks the piece is on the page for `look` seconds.
    """
    names = [*EXAMPLES]
    with serving("--model", model) as address:
        page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
        page.set_default_timeout(WAIT)
        page.goto(f"{address}/")
        page.locator(".mg-stage .mg-facts", has_text="bars").wait_for()
        cold, warm = click(page, whole=False), []
        for number in range(clicks):
            example = names[number % len(names)]
            page.locator(f"[data-example={example}]").click()
            page.locator(f"[data-example={example}][aria-pressed=true]").wait_for()
            page.wait_for_timeout(1000 * look)
            warm.append(click(page, whole=number < whole))
        page.context.close()
    return cold, warm


def main() -> None:
    """Measure and print."""
    given = options(__doc__, clicks=20, whole=3, look=0.0, model=[*OfferedModels().languages])
    print("seconds to the first note, and speed as a multiple of real time")
    names = ("n", "p50", "p95", "max", "cold", "× p50", "× min", "lead, s")
    print(f"{'model':<24}", *(f"{name:>8}" for name in names))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=OPTIONS)
        for model in given.model:
            cold, warm = measured(browser, model, given.clicks, given.whole, given.look)
            first = np.quantile([one.first for one in warm], (0.5, 0.95, 1))
            speeds = [one.music / one.whole for one in warm[: given.whole]]
            ahead = min(one.ahead for one in warm[: given.whole])
            cells = (*first, cold.first, np.median(speeds), min(speeds), ahead)
            print(f"{model:<24} {len(warm):>8}", *(f"{cell:8.3f}" for cell in cells), flush=True)
        browser.close()


if __name__ == "__main__":
    main()
