"""How fast the page is, in a real browser: python -m tests.tools.page.speed --visits 5.

For first visits with an empty cache, prints the seconds from the address to a page that shows a piece, the bytes
fetched until then and by the soundfont afterwards, the seconds from play to the first sound, and the frames per second
while a piece of 5,000 notes scrolls and while it plays.
"""

import numpy as np
from playwright.sync_api import Browser, Page, sync_playwright

from tests.app.web.browser import OPTIONS, chromium, serving
from tests.tools.options import options

SHOWN = "() => document.querySelector('.mg-stage .mg-facts')?.textContent.includes('bars')"
BYTES = """() => performance.getEntriesByType("resource")
  .map(({ name, encodedBodySize: size, responseEnd }) => [name, size, responseEnd])"""
# From the click to the first samples that are not silent.
SOUND = """async () => {
  const { player } = musicgen;
  await player.synth.ready;
  const ear = player.synth.context.createAnalyser(), heard = new Float32Array(1024);
  player.synth.output.connect(ear);
  const begun = performance.now();
  document.querySelector(".mg-stage .mg-play").click();
  for (;;) {
    ear.getFloatTimeDomainData(heard);
    if (heard.some((sample) => Math.abs(sample) > 0.003)) break;
    await new Promise((done) => setTimeout(done, 4));
  }
  player.pause();
  return (performance.now() - begun) / 1000;
}"""
# The times of 120 frames while scrolling or playing.
FRAMES = """async (playing) => {
  const { desk, player, rolls } = musicgen, notes = Int32Array.from({ length: 25000 }, (_, n) => {
    const i = Math.floor(n / 5);
    return [6 * i, 4 + (i % 20), 40 + ((7 * i) % 48), 1 + (i % 127), i % 3][n % 5];
  });
  const { piece } = desk.current;
  const lines = Array.from({ length: 626 }, (_, bar) => 48 * bar);
  const tracks = ["Bass", "Drums", "Other"].map((name) => ({ name, program: 0, drum: name === "Drums" }));
  musicgen.app.edit({ ...piece, notes, lines, tracks, chords: [], ticksPerBeat: 12 }, "a long piece");
  await new Promise((done) => setTimeout(done, 500));
  const roll = rolls.stage();
  roll.scale(0.5);
  if (playing) await player.play();
  const times = [];
  await new Promise((done) => {
    const frame = (now) => {
      times.push(now);
      if (!playing) roll.view.scrollLeft += 12;
      if (times.length < 120) requestAnimationFrame(frame);
      else done();
    };
    requestAnimationFrame(frame);
  });
  player.pause();
  return times.slice(1).map((time, i) => time - times[i]);
}"""


def visited(browser: Browser, address: str) -> tuple[Page, float, str]:
    """Open the page as a new visitor; return it, its load time in seconds, and what was fetched before and after."""
    page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    page.goto(address)
    page.wait_for_function(SHOWN)
    ready = page.evaluate("performance.now()")
    page.evaluate("musicgen.player.synth.ready")
    found = page.evaluate(BYTES)
    before = [size for _, size, end in found if end <= ready]
    after = sum(size for _, size, end in found if end > ready)
    fetched = f"{len(before)} requests, {sum(before) / 1e6:.2f} MB; after it {after / 1e6:.2f} MB"
    return page, ready / 1000, fetched


def main() -> None:
    """Measure and print."""
    given = options(__doc__, visits=5)
    ready, sounds, scrolled, played = [], [], [], []
    fetched = ""
    with serving() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=OPTIONS)
        for _ in range(given.visits):
            page, seconds, fetched = visited(browser, address)
            ready.append(seconds)
            sounds.append(page.evaluate(SOUND))
            scrolled += page.evaluate(FRAMES, False)
            played += page.evaluate(FRAMES, True)
            page.context.close()
        browser.close()
    print(f"{given.visits} first visits{'':<32}{'p50':>8}{'max':>9}")
    for what, values in (
        ("from the address to a piece on the page, s", ready),
        ("from pressing play to the first sound, s", sounds),
        ("a frame, 5,000 notes scrolled through, ms", scrolled),
        ("a frame, 5,000 notes while they play, ms", played),
    ):
        print(f"{what:<44}{np.median(values):9.2f}{max(values):9.2f}")
    for what, times in (("scrolled", scrolled), ("playing", played)):
        print(f"frames per second, {what}: {1000 / np.mean(times):.0f}")
    print(f"fetched until then: {fetched}")


if __name__ == "__main__":
    main()
