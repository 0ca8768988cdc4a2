"""How fast the page is, in a real browser: python -m tests.tools.page.speed --visits 5 --clicks 10 --whole 3 --look 3.

For first visits with an empty cache, prints the seconds from the address to a page that shows a piece, the seconds from
play to the first sound, and the frames per second while a piece of 5,000 notes scrolls and while it plays.

Of these visits, each opens an own file at once, clicks Continue and plays the take with its first note, and does so
again with what the browser has kept: prints the seconds from the address to the file on the page, to the first new
note, and to its sound.

Then a user clicks Continue with the default settings, on one example after another, and stops at the first note; the
first clicks run to the end. With --look 3, each piece is on the page for three seconds before the click, while the
server reads it in advance. Prints the seconds to the first new note painted, and of the complete runs the speed as a
multiple of real time, and the frames per second while they were written.

With --site FOLDER, all this of a page that `musicgen page FOLDER` wrote, without a server. With --browser firefox, only
the visits with an own file, and two takes from the click to their end.
"""

from pathlib import Path

import numpy as np
from playwright.sync_api import Browser, Page, sync_playwright

from app.web.offered_models import EXAMPLES
from tests.app.web.browser import OPTIONS, WAIT, chromium, serving
from tests.app.web.hands import open_example
from tests.app.web.sites import served
from tests.tools.options import options
from tests.tools.page.firefox import firefox
from tests.tools.page.own_files import OwnFile, own_files
from tokenization.analysis.beats import tempo_map
from tokenization.midi.reading import read_midi

SHOWN = "() => document.querySelector('.mg-stage .mg-facts')?.textContent.includes('bars')"
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
# The seconds from the address to an own file, to the first new note, and to its sound.
OWN = """async ([name, bytes]) => {
  const until = async (test) => {
    for (;;) {
      const found = test();
      if (found) return found;
      await new Promise((done) => setTimeout(done, 4));
    }
  };
  const find = (selector) => until(() => document.querySelector(selector)), now = () => performance.now() / 1000;
  const input = await find("#mg-file"), files = new DataTransfer();
  files.items.add(new File([Uint8Array.from(bytes)], name));
  input.files = files.files;
  input.dispatchEvent(new Event("change"));
  await until(() => window.musicgen?.desk.current?.fileName === name);
  const opened = now();
  (await find("#mg-go")).click();
  await until(() => parseInt(document.querySelector(".mg-take .mg-facts")?.textContent) > 0);
  const written = now(), { player, desk } = musicgen;
  (await find(".mg-take .mg-play")).click();
  await player.synth.ready;
  const ear = player.synth.context.createAnalyser(), heard = new Float32Array(1024), [{ piece, region }] = desk.takes;
  player.synth.output.connect(ear);
  const isSilent = () => player.synth.context.state === "suspended" && now() > written + 3; // no audio device
  await until(() => {
    ear.getFloatTimeDomainData(heard);
    return isSilent() || (player.tick >= piece.lines[region.first] && heard.some((sample) => Math.abs(sample) > 0.003));
  });
  return [opened, written, isSilent() ? null : now()];
}"""
# Deletes the project, but not what the browser has kept of the page.
FORGET = """async () => {
  for (const { name } of await indexedDB.databases()) {
    await new Promise((done) => (indexedDB.deleteDatabase(name).onsuccess = done));
  }
}"""
# Wait until the browser has kept the files of a page without a server, as it has for who comes back.
KEPT = """async () => {
  if (await navigator.serviceWorker.getRegistration()) await navigator.serviceWorker.ready;
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
# The seconds to the first note and to the end. A frame has been painted when the next begins, so times are taken there.
WATCH = """(whole) => new Promise((done) => {
  const before = new Set(document.querySelectorAll(".mg-take")), go = document.querySelector("#mg-go");
  const begun = performance.now(), passed = () => (performance.now() - begun) / 1000;
  let first = null, came = 0, frames = 0;
  const look = () => {
    frames += 1;
    if (came && first === null) {
      first = passed();
      if (!whole) go.click();
    }
    const cards = [...document.querySelectorAll(".mg-take")].filter((card) => !before.has(card));
    came = Math.max(0, ...cards.map((card) => parseInt(card.querySelector(".mg-facts").textContent) || 0));
    const over = cards.length && cards.every((card) => card.querySelector(".mg-further:not([hidden])"));
    if (over && first !== null) done([first, passed(), frames / passed()]);
    else requestAnimationFrame(look);
  };
  go.click();
  requestAnimationFrame(look);
})"""


def opened(browser: Browser, address: str) -> tuple[Page, float]:
    """Open the page as a new visitor; return it and its load time in seconds."""
    page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    page.set_default_timeout(2 * WAIT)
    page.goto(address)
    page.wait_for_function(SHOWN)
    return page, page.evaluate("performance.now()") / 1000


def click(page: Page, *, whole: bool) -> tuple[float, float, float]:
    """Click Continue; return the seconds to the first note, the multiple of real time, and the frame rate."""
    first, last, rate = page.evaluate(WATCH, whole)
    bars, prompt_bars = (
        int(page.locator(f"#mg-{name} input[type=number]").input_value())
        for name in ("bars", "chosen")
    )
    score = read_midi(bytes(page.evaluate("[...musicgen.desk.takes[0].file]")))
    begin, end = tempo_map(score).to_seconds(4.0 * np.array([prompt_bars, prompt_bars + bars]))
    return first, float(end - begin) / last, rate


def of_own_file(own: list, again: list) -> list[tuple[str, list[float]]]:
    """Return the lines about visits with an own file."""
    return [
        ("from the address to an own file, s", [one[0] for one in own]),
        ("from the address to its first new note, s", [one[1] for one in own]),
        ("from the address to the sound of that, s", [one[2] for one in own]),
        ("again, from the address to its first new note, s", [one[1] for one in again]),
    ]


def table(head: str, lines: list[tuple[str, list[float]]]) -> None:
    """Print medians and maxima."""
    print(f"{head:<50}{'p50':>8}{'max':>9}")
    for what, values in lines:
        if None in values:
            print(f"{what:<50} not measured")
        else:
            print(f"{what:<50}{np.median(values):8.2f}{max(values):9.2f}")


def in_firefox(address: str, visits: int, file: OwnFile) -> None:
    """Measure visits to a page in Firefox, and print."""
    own, again, takes = [], [], []
    for _ in range(visits):
        with firefox() as page:
            page.show(1280, 900)
            for found in (own, again):
                page.goto(address, wait="interactive")
                found.append(page.evaluate(OWN, [file.name, [*file.data]]))
                page.evaluate(KEPT)
                page.goto(f"{address}/nothing", wait="complete")
                page.evaluate(FORGET)
            page.goto(address, wait="interactive")
            page.evaluate(
                f"async () => {{ while (!({SHOWN})()) await new Promise(requestAnimationFrame); }}"
            )
            takes.append(page.evaluate(WATCH, True)[1])
    lines = [*of_own_file(own, again), ("from the click to the end of two takes, s", takes)]
    table(f"{visits} first visits in Firefox", lines)


def main() -> None:
    """Measure and print."""
    given = options(__doc__, visits=5, clicks=10, whole=3, look=0.0, site="", browser="chromium")
    ready, sounds, scrolled, played, clicks, own, again = [], [], [], [], [], [], []
    file = own_files()["pop band"]
    serve = served(Path(given.site)) if given.site else serving()
    if given.browser == "firefox":
        with serve as address:
            return in_firefox(address, given.visits, file)
    with serve as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=OPTIONS)
        for _ in range(given.visits):
            page, seconds = opened(browser, address)
            ready.append(seconds)
            sounds.append(page.evaluate(SOUND))
            scrolled += page.evaluate(FRAMES, False)
            played += page.evaluate(FRAMES, True)
            page.context.close()
            context = browser.new_context(viewport={"width": 1280, "height": 900})
            for found in (own, again):
                page = context.new_page()
                page.set_default_timeout(2 * WAIT)
                page.goto(address, wait_until="commit")
                found.append(page.evaluate(OWN, [file.name, [*file.data]]))
                page.evaluate(KEPT)
                page.goto(f"{address}/nothing")
                page.evaluate(FORGET)
                page.close()
            context.close()
        page, _ = opened(browser, address)
        for number in range(given.clicks):
            open_example(page, [*EXAMPLES][number % len(EXAMPLES)])
            page.wait_for_timeout(1000 * given.look)
            clicks.append(click(page, whole=number < given.whole))
        browser.close()
    lines = [
        ("from the address to a piece on the page, s", ready),
        ("from pressing play to the first sound, s", sounds),
        *of_own_file(own, again),
        ("from the click to the first note, s", [first for first, *_ in clicks]),
    ]
    table(f"{given.visits} first visits, {given.clicks} clicks", lines)
    speeds = ", ".join(f"{speed:.1f}" for _, speed, _ in clicks[: given.whole])
    print(f"new music as a multiple of real time: {speeds}")
    rates = ", ".join(f"{rate:.0f}" for *_, rate in clicks[: given.whole])
    print(f"frames per second, while it is written: {rates}")
    for what, times in (("scrolled", scrolled), ("playing", played)):
        print(f"frames per second, {what}: {1000 / np.mean(times):.0f}")


if __name__ == "__main__":
    main()
