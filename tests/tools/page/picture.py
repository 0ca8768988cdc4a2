"""Make the README's picture of the page: python -m tests.tools.page.picture app/page.png.

It shows an example and two continuations at desk width, at two device pixels per CSS pixel.
"""

import io

from PIL import Image
from playwright.sync_api import Page, expect, sync_playwright

from tests.app.web.browser import OPTIONS, WAIT, chromium, serving
from tests.app.web.hands import begin, go_on, rest
from tests.tools.options import options

SCREEN = {"width": 1280, "height": 1490}
COLOURS = 128


def continued(page: Page, address: str, seed: int) -> None:
    """Open an example and continue it."""
    page.set_default_timeout(WAIT)
    page.goto(address)
    begin(page, "piano-g-minor")
    expect(page.locator(".mg-stage h2")).to_have_text("Piano in G minor", timeout=WAIT)
    page.evaluate("(seed) => musicgen.desk.set({ seed, newSeed: false })", seed)
    go_on(page, bars=8, variations=2)
    over = "() => musicgen.desk.takes.length && !musicgen.app.composer.busy"
    page.wait_for_function(over, timeout=10 * WAIT)
    page.evaluate("() => (scrollTo(0, 0), document.activeElement.blur())")
    page.mouse.move(640, 4)
    rest(page)


def main() -> None:
    """Write the picture."""
    given = options(__doc__, "file", seed=4)
    with serving() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=OPTIONS)
        page = browser.new_page(viewport=SCREEN, device_scale_factor=2, reduced_motion="reduce")
        continued(page, address, given.seed)
        picture = Image.open(io.BytesIO(page.screenshot()))
        browser.close()
    few = picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    few.save(given.file, optimize=True)


if __name__ == "__main__":
    main()
