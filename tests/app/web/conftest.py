"""A server and a browser shared by the tests of the page."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, expect, sync_playwright

from tests.app.web.browser import MODEL, OPTIONS, WAIT, chromium, started
from tests.app.web.hands import rest
from tests.app.web.sites import save_small, served, write_site

expect.set_options(timeout=WAIT)  # the default of five seconds is too short on a busy machine


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The temporary folder of the server."""
    return tmp_path_factory.mktemp("server")


@pytest.fixture(scope="session")
def server(files: Path):
    """A server on which requests of 64 bars or more run until they are stopped."""
    with started("--model", MODEL, module="tests.app.web.held_app", TMPDIR=str(files)) as running:
        yield running
        assert "Traceback" not in running.said()
    assert list(files.iterdir()) == []  # all files are deleted at its end


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory):
    """The address of a page that composes by itself, with two untrained models."""
    folder = tmp_path_factory.mktemp("site")
    models = [save_small(folder / name) for name in ("small", "other")]
    write_site(folder / "page", "--model", models[0], "--model", models[1])
    with served(folder / "page") as at:
        yield at


@pytest.fixture(scope="session")
def address(request: pytest.FixtureRequest) -> str:
    """The address of the page: of the server, or of another one for tests with BOTH."""
    if getattr(request, "param", "server") == "site":
        return request.getfixturevalue("site")
    return request.getfixturevalue("server").address


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
def visit(browser: Browser, address: str):
    """Open the page; afterwards, check that no script failed and no other server was contacted."""
    contexts, asked, failures = [], [], []

    def opened(width: int = 1280, scheme: str = "light", before: str = "", **more):
        """Open it in a new context, optionally after an init script."""
        screen = {"width": width, "height": 900 if width > 640 else 844}
        settings = {"service_workers": "block", **more}
        context = browser.new_context(viewport=screen, color_scheme=scheme, **settings)  # type: ignore[arg-type]
        contexts.append(context)
        if before:
            context.add_init_script(before)
        page = context.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: failures.append(str(error)))
        page.goto(address)
        loaded = 4 * WAIT  # Python in a browser, on a busy machine
        expect(page.locator(".mg-stage h2")).not_to_have_text("…", timeout=loaded)
        rest(page)  # until it is drawn
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not failures
    assert not [url for url in asked if not url.startswith((address, "data:", "blob:"))]


@pytest.fixture
def page(visit):
    """A newly opened page."""
    return visit()
