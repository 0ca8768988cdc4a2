"""A server and a browser, shared by all tests of the page in a process."""

from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, expect, sync_playwright

from tests.app.web.browser import OPTIONS, WAIT, chromium, serving
from tests.app.web.hands import rest

expect.set_options(timeout=WAIT)  # five seconds are not enough for a machine that is busy


@pytest.fixture(scope="session")
def address():
    """A server that writes no request of 64 bars to its end: such music is under way until it is stopped."""
    with serving("--model", "untrained:tiny:groove", module="tests.app.web.held_app") as found:
        yield found


@pytest.fixture(scope="session")
def later_address():
    """A server of that kind whose model speaks a later language: it fills in bars, writes parts and comes to an end."""
    with serving("--model", "untrained:tiny:groove-2", module="tests.app.web.held_app") as found:
        yield found


@pytest.fixture(scope="session")
def browser():
    path = chromium()
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=OPTIONS)
        make = running.new_context

        def patient(**settings: Any) -> BrowserContext:
            context = make(**settings)
            context.set_default_timeout(WAIT)
            return context

        running.new_context = patient  # type: ignore[method-assign]
        yield running
        running.close()


@pytest.fixture
def visit(browser: Browser, address: str, request: pytest.FixtureRequest):
    """Open the page on some screen; at the end, it has asked nobody but our server, and no script has failed."""
    contexts, asked, failures = [], [], []
    addresses = [address]

    def opened(width: int = 1280, scheme: str = "light", later: bool = False, **more):
        screen = {"width": width, "height": 900 if width > 640 else 844}
        context = browser.new_context(viewport=screen, color_scheme=scheme, **more)  # type: ignore[arg-type]
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: failures.append(str(error)))
        if later:
            addresses.append(request.getfixturevalue("later_address"))
        page.goto(addresses[-1])
        expect(page.locator(".mg-stage h2")).to_have_text("Disco trio", timeout=WAIT)
        rest(page)  # all of it is drawn
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not failures
    assert not [url for url in asked if not url.startswith((*addresses, "data:", "blob:"))]


@pytest.fixture
def page(visit):
    """A page at its start."""
    return visit()


@pytest.fixture
def later(visit):
    """A page at its start, whose model can be asked for more than to go on."""
    return visit(later=True)
