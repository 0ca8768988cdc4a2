"""A film strip of a first visit to a page without a server: python -m tests.tools.page.film --site FOLDER OUT.png.

`musicgen page FOLDER` wrote the folder. On a phone, a user opens an own file at once, clicks Continue and plays the
take. The strip has the frames at which most has changed, each with its seconds after the address. --dark films the dark
page.
"""

import base64
import io
import time
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from playwright.sync_api import CDPSession, sync_playwright

from tests.app.web.browser import OPTIONS, WAIT, chromium
from tests.app.web.hands import PHONE
from tests.app.web.sites import served
from tests.tools.options import options
from tests.tools.page.own_files import own_files
from tests.tools.page.speed import OWN

HEIGHT, SMALL = 844, 0.5
LABEL, GAP = 22, 8
Frame = tuple[float, Image.Image]


def filmed(session: CDPSession) -> list[Frame]:
    """Begin to film; return the list that gets the frames with their times."""
    frames: list[Frame] = []

    def come(event: dict) -> None:
        picture = Image.open(io.BytesIO(base64.b64decode(event["data"]))).convert("RGB")
        frames.append((event["metadata"]["timestamp"], picture))
        session.send("Page.screencastFrameAck", {"sessionId": event["sessionId"]})

    session.on("Page.screencastFrame", come)
    session.send("Page.startScreencast", {"format": "png"})
    return frames


def telling(frames: list[Frame], count: int) -> list[Frame]:
    """Choose the frames before and after which most changes, with the first and the last."""
    plain = [np.asarray(one.resize((78, 169)), np.float32) for _, one in frames]
    chosen = [0, len(frames) - 1]
    while len(chosen) < min(count, len(frames)):
        far = [min(np.abs(one - plain[i]).mean() for i in chosen) for one in plain]
        if max(far) == 0:
            break
        chosen.append(int(np.argmax(far)))
    return [frames[i] for i in sorted(chosen)]


def strip(frames: list[Frame], begun: float) -> Image.Image:
    """Return frames side by side, with their times."""
    width, height = (round(SMALL * size) for size in (PHONE["width"], HEIGHT))
    sheet = Image.new("RGB", (len(frames) * (width + GAP) + GAP, height + LABEL + GAP), "#808080")
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(14)
    for i, (at, one) in enumerate(frames):
        left = GAP + i * (width + GAP)
        draw.text((left, 3), f"{at - begun:.2f} s", "white", font)
        sheet.paste(one.resize((width, height)), (left, LABEL))
    return sheet


def main() -> None:
    """Film and write."""
    given = options(__doc__, "out", site="build/page", frames=10, dark=False)
    file = own_files()["pop band"]
    with served(Path(given.site)) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=OPTIONS)
        context = browser.new_context(
            viewport={"width": PHONE["width"], "height": HEIGHT},
            is_mobile=True,
            has_touch=True,
            color_scheme="dark" if given.dark else "light",
        )
        page = context.new_page()
        page.set_default_timeout(2 * WAIT)
        session = context.new_cdp_session(page)
        frames = filmed(session)
        begun = time.time()
        page.goto(address, wait_until="commit")
        times = page.evaluate(OWN, [file.name, [*file.data]])
        page.wait_for_timeout(1000)
        session.send("Page.stopScreencast")
        page.wait_for_timeout(200)
        browser.close()
    strip(telling([one for one in frames if one[0] > begun], given.frames), begun).save(given.out)
    names = "own file", "first new note", "its sound"
    print(", ".join(f"{name} {at:.2f} s" for name, at in zip(names, times, strict=True)))


if __name__ == "__main__":
    main()
