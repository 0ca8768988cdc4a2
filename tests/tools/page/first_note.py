"""From the click on Continue to the first note, in a real browser: python -m tests.tools.page.first_note --clicks 20.

One user presses Continue as the page offers it, on one example after the other, and stops at the first note; the
first clicks of a model are waited for to their end. With --look 3 each piece is looked at for three seconds before the
click, in which the server reads it ahead. Printed are the times to the first new note that is painted, on a warm page
and once on a server that has just come up; and of the whole ones how fast the music came: its seconds by its own tempo
over the seconds from the click to the end, and how far the notes on the page were ahead of a listener who began with
the first of them, at the moment when that was least.
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
# Resolves when the run is over. A frame is painted when the next one begins, so times are taken there.
WATCH = """(whole) => new Promise((done) => {
  const before = new Set(document.querySelectorAll(".mg-take"));
  document.querySelector("#mg-go").addEventListener("click", () => {
    const begun = performance.now(), seen = [];
    let first = null, part = 0, came = 0;
    const look = (now) => {
      if (came && first === null) {
        first = performance.now() - begun;
        if (!whole) document.querySelector("#mg-halt").click();
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
"""What one click brought: seconds to the first note and to the end, those of one variation's new bars, and the least
that the page was ahead of who listens from the first note on."""


def click(page: Page, *, whole: bool) -> Click:
    """Press Continue and wait for the end, or stop at the first note."""
    found = page.evaluate(WATCH, whole)
    bars = int(page.locator("#mg-bars input[type=number]").input_value())
    prompt_bars = int(page.locator("#mg-prompt-bars input[type=number]").input_value())
    score = read_midi(bytes(page.evaluate("[...musicgen.desk.takes[0].file]")))
    begin, end = tempo_map(score).to_seconds(4.0 * np.array([prompt_bars, prompt_bars + bars]))
    music, first = float(end - begin), found["first"] / 1000
    ahead = min(part * music - (at - first) for at, part in found["seen"])
    return Click(first, found["whole"] / 1000, music, ahead)


def measured(
    browser: Browser, model: str, clicks: int, whole: int, look: float
) -> tuple[Click, list[Click]]:
    """Return what the first click on a new server brought, and those after it, the first of them whole.

    A piece is looked at for some seconds before each click but the first.
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
    print("seconds to the first note, and how many times as fast as it plays the music came")
    names = ("n", "p50", "p95", "most", "cold", "× p50", "× least", "ahead, s")
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
