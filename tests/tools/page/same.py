"""Whether a page without a server writes the music of the command line: python -m tests.tools.page.same --site FOLDER.

`musicgen page FOLDER` wrote the folder. Prints the hashes of known requests in a worker of the browser beside those of
this machine. Then a user opens a file, continues it by 4 bars, and saves both takes, which are compared with the files
of `musicgen continue`. With --browser firefox, in Firefox.
"""

import hashlib
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from app import cli
from app.web.offered_models import example
from musicgen.playable import find
from tests.app.web.browser import OPTIONS, chromium
from tests.app.web.sites import hashes_in, served
from tests.musicgen.kernel import same_music
from tests.tools.options import options
from tests.tools.page.firefox import firefox

NAME, BARS, SEED = "trio-jazz", 4, 2026
# A user opens a file, continues it and saves the takes: their bytes.
JOURNEY = """async ([name, bytes, bars, seed]) => {
  const until = async (test) => {
    for (;;) {
      const found = await test();
      if (found) return found;
      await new Promise((done) => setTimeout(done, 20));
    }
  };
  const find = (selector) => until(() => document.querySelector(selector));
  const input = await find("#mg-file"), files = new DataTransfer();
  files.items.add(new File([Uint8Array.from(bytes)], name));
  input.files = files.files;
  input.dispatchEvent(new Event("change"));
  await until(() => window.musicgen?.desk.current?.fileName === name);
  musicgen.desk.set({ seed, newSeed: false, bars, variations: 2, draw: 1 });
  (await find("#mg-go")).click();
  await until(() => musicgen.desk.takes.length === 2 && !musicgen.app.composer.busy);
  const saved = [], click = HTMLAnchorElement.prototype.click;
  HTMLAnchorElement.prototype.click = function () { saved.push(fetch(this.href)); };
  for (const card of document.querySelectorAll(".mg-take")) {
    const before = saved.length;
    card.querySelector(".mg-menu > button").click();
    await until(() => {
      const buttons = [...card.querySelectorAll(".mg-menu button")];
      return buttons.find((one) => one.textContent === "MIDI");
    }).then((button) => button.click());
    await until(() => saved.length > before);
  }
  HTMLAnchorElement.prototype.click = click;
  const parts = await Promise.all(saved.map(async (answer) => [...(await (await answer).bytes())]));
  return [(await find("#mg-chosen input[type=number]")).value, parts];
}"""


@contextmanager
def page(kind: str) -> Iterator[tuple[Callable[[str], Any], Callable[..., Any]]]:
    """Run a browser; yield what opens an address, and what evaluates a function there."""
    if kind == "firefox":
        with firefox() as running:
            running.show(1280, 900)
            yield lambda address: running.goto(address, wait="interactive"), running.evaluate
        return
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=OPTIONS)
        one = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
        yield one.goto, one.evaluate
        browser.close()


def by_command(prompt: str) -> list[bytes]:
    """Return both takes of the journey from the command line."""
    with tempfile.TemporaryDirectory() as folder:
        given = Path(folder) / NAME  # as the page names it in what it saves
        given.write_bytes(example(NAME))
        asked = ["--bars", BARS, "--prompt-bars", prompt, "--variations", 2, "--draw", 1, "--seed", SEED]  # fmt: skip
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            assert cli.main(["continue", *map(str, [given, *asked, "-o", folder])]) == 0
        return [path.read_bytes() for path in sorted(Path(folder).glob("*prompt_cont_*.mid"))]


def short(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def main() -> int:
    """Compare and print; return 1 if anything differs."""
    given = options(__doc__, site="build/page", browser="chromium")
    with served(Path(given.site)) as address, page(given.browser) as (goto, evaluate):
        goto(f"{address}/LICENCES.txt")
        there = hashes_in(evaluate, Path(given.site))
        goto(address)
        prompt, saved = evaluate(JOURNEY, [f"{NAME}.mid", [*example(NAME)], BARS, SEED])
    here = same_music.hashes(find("ensemble"))
    rows = [
        (f"{name} {i}", one, there[name][i])
        for name, takes in here.items()
        for i, one in enumerate(takes)
    ]
    commands = by_command(prompt)
    rows += [(f"saved {i}", short(one), short(bytes(saved[i]))) for i, one in enumerate(commands)]
    print(f"{'request':<14}{'here':<18}{given.browser:<18}")
    for name, own, other in rows:
        print(f"{name:<14}{own:<18}{other:<18}{'the same' if own == other else 'NOT the same'}")
    return int(any(own != other for _, own, other in rows))


if __name__ == "__main__":
    sys.exit(main())
