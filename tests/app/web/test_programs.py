"""gradio behind the page: loaded on request, and at most a sentence if that fails."""

import asyncio
import json
import subprocess
import sys
from typing import Any

import httpx
import pytest
from starlette.middleware.exceptions import ExceptionMiddleware

from app.web import programs
from app.web.errors import HANDLERS
from app.web.guard import Refused
from tests.app.web.browser import MODEL, run_apart
from tests.tools.house import ROOT

# A server in this process, so that its modules can be listed; the endpoints need no composing process.
SERVES = f"""
import sys, urllib.error, urllib.request
from pathlib import Path
from tempfile import TemporaryDirectory
HIDDEN
from app.web.composing.composer import Composer
from app.web.guard import Names
from app.web.launch import open_page
from app.web.process import keep_gradio_local, leave, listen

def read(path):
    try:
        return urllib.request.urlopen(server.address + path, timeout=120).read().decode()
    except urllib.error.HTTPError as error:
        return error.read().decode()

with TemporaryDirectory() as folder:
    keep_gradio_local(Path(folder))
    _, server = open_page(
        Composer(), Path(folder) / "gradio", model={MODEL!r}, host="127.0.0.1",
        listener=listen("127.0.0.1", None), names=Names("127.0.0.1"), soundfont=None,
        browser=False, share=False, mcp=False,
    )
    def loaded():
        heavy = ("gradio", "fastapi", "pandas", "matplotlib", "pretty_midi", "torch", "numba")
        print(*[name for name in heavy if sys.modules.get(name)], sep=",")
    print(len(read("")) > 1000, read("favicon.ico") == "")
    loaded()
    print(read("gradio_api/info")[:160])
    loaded()
    print(len(read("")) > 1000)
    sys.stdout.flush()
leave(0)
"""


def said(hidden: str = "") -> list[str]:
    words = [sys.executable, "-c", SERVES.replace("HIDDEN", hidden)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout.splitlines()


def test_the_page_answers_without_gradio_which_loads_on_request():
    page, before, info, after, page_again = said()
    assert (page, before) == ("True True", "")
    assert info.startswith('{"named_endpoints":{"/models"')
    assert "gradio" in after
    assert page_again == "True"


def test_without_gradio_the_page_answers_and_the_endpoints_say_what_is_missing():
    page, before, info, after, page_again = said("sys.modules['gradio'] = None")
    assert (page, page_again) == ("True True", "True")
    assert before == after == ""
    assert json.loads(info) == {"detail": Refused(503, programs.NOT_INSTALLED).sentence}


async def inner(scope: Any, receive: Any, send: Any) -> None:
    """Answer with the encodings that may be used."""
    body = json.dumps([name.decode() for name, _ in scope["headers"]]).encode()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


@pytest.mark.parametrize("fails", [False, True])
def test_the_configuration_comes_slowly_rather_than_late(fails: bool, monkeypatch):
    monkeypatch.setattr(programs, "PATIENCE_SECONDS", 0.01)
    sent = []

    async def load(_: Any) -> Any:
        await asyncio.sleep(0.1)
        if fails:
            raise Refused(503, programs.NOT_LOADED)
        return inner

    async def send(message: Any) -> None:
        sent.append(message)

    monkeypatch.setattr(programs.Programs, "_load", load)
    scope = {"type": "http", "path": "/config", "headers": [(b"accept-encoding", b"br")]}
    run_apart(programs.Programs()(scope, None, send))
    start, *parts = sent
    assert (start["type"], start["status"]) == ("http.response.start", 200)
    assert len(parts) > 2
    assert not parts[-1].get("more_body")
    answer = json.loads(b"".join(part["body"] for part in parts))
    assert ("log has the reason" in answer["detail"]) if fails else answer == []


def test_loading_is_tried_again_after_a_failure(monkeypatch, caplog: pytest.LogCaptureFixture):
    tries = []

    def mounted(*_: Any) -> Any:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("a damaged file")
        return Living()

    class Living:
        """An application with a life."""

        def __init__(self) -> None:
            self.router = self

        def lifespan_context(self, _: Any) -> Any:
            return self

        async def __aenter__(self) -> None:
            tries.append(2)

        async def __aexit__(self, *_: Any) -> None: ...

        async def __call__(self, *request: Any) -> None:
            await inner(*request)

    async def ask() -> list[httpx.Response]:
        app = ExceptionMiddleware(programs.Programs(), HANDLERS)
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            found = [await client.get("/gradio_api/info")]
            both = [client.get("/gradio_api/info"), client.get("/config")]
            found += await asyncio.gather(*both)
            return [*found, await client.get("/nothing")]

    monkeypatch.setattr(programs, "_mounted", mounted)
    failed, *well, nothing = run_apart(ask())
    assert (failed.status_code, "log has the reason" in failed.text) == (503, True)
    assert "a damaged file" in caplog.text
    assert [answer.status_code for answer in well] == [200, 200]
    assert tries == [1, 1, 2]  # loaded once, for both
    assert nothing.status_code == 404
