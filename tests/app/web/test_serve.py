"""The life of a server: local by default, public on request, and ended in order."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from gradio_client import Client
from starlette.requests import Request

from app.audio import AudioError
from app.cli import main
from app.commands.app import warnings
from app.web import launch
from app.web.guard import POLICY
from app.web.launch import Endpoints
from app.web.process import keep_gradio_local
from tests.app.web.browser import MODEL, started


def test_nothing_contacts_other_servers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    assert "http" not in POLICY
    assert "//" not in POLICY
    names = ("GRADIO_ANALYTICS_ENABLED", "HF_HUB_DISABLE_TELEMETRY", "GRADIO_TEMP_DIR")
    for name in (*names, "no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "before")
    keep_gradio_local(tmp_path, "10.0.0.7")
    assert [os.environ[name] for name in names] == ["False", "1", str(tmp_path / "gradio")]
    assert os.environ["NO_PROXY"] == os.environ["no_proxy"] == "before,127.0.0.1,localhost,::1,10.0.0.7"  # fmt: skip


def test_the_command_warns_of_public_access():
    assert warnings("127.0.0.1", False) == []
    assert "no password" in warnings("0.0.0.0", False)[0]
    assert "public" in warnings("127.0.0.1", True)[0]


def test_sound_is_not_rendered_on_for_a_client_that_is_gone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    left = threading.Event()

    def render(
        _path: Path, _midi: bytes, _font: Path | None, is_wanted: Callable[[], bool]
    ) -> None:
        assert is_wanted()
        left.set()
        while is_wanted():
            time.sleep(0.01)
        raise AudioError("nobody waits for it any more")

    body = b'--X\r\nContent-Disposition: form-data; name="ask"\r\n\r\n{}\r\n--X--\r\n'
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, object]:
        if messages:
            return messages.pop()
        await asyncio.to_thread(left.wait)
        return {"type": "http.disconnect"}

    desk: Any = SimpleNamespace(
        midi=lambda _: b"MThd", actions=SimpleNamespace(place=lambda _: nullcontext())
    )
    kind = (b"content-type", b"multipart/form-data; boundary=X")
    request = Request({"type": "http", "method": "POST", "headers": [kind]}, receive)
    monkeypatch.setattr(launch, "render_to", render)
    with ThreadPoolExecutor(1) as thread, pytest.raises(AudioError, match="nobody waits"):
        thread.submit(asyncio.run, Endpoints(desk, None, tmp_path).sound(request)).result(60)


@pytest.mark.parametrize("port", ["0", "65536", "-1"])
def test_an_invalid_port_is_reported(port: str, capsys: pytest.CaptureFixture[str]):
    assert main(["app", "--port", port]) == 2
    said = f"musicgen: --port is {port}; it must be a number from 1 to 65535\n"
    assert capsys.readouterr().err == said


def awaited(is_so) -> None:
    late = time.monotonic() + 60
    while not is_so() and time.monotonic() < late:
        time.sleep(0.05)


@pytest.mark.long
def test_the_page_works_offline_and_its_files_are_deleted(tmp_path: Path):
    nowhere = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), "http://127.0.0.1:9")
    around = {**nowhere, "TMPDIR": str(tmp_path), "HF_HOME": str(tmp_path), "NO_PROXY": ""}
    with started("--model", "untrained:tiny", "--share", **around) as server:
        awaited(lambda: "tunnel" in server.said())
        assert len([*tmp_path.glob("musicgen-app-*")]) == 1
        warning, address, sentence = server.said().splitlines()
    assert "becomes public" in warning
    assert server.address in address
    assert "tunnel cannot be opened" in sentence
    assert list(tmp_path.glob("musicgen-app-*")) == []


@pytest.mark.long
@pytest.mark.parametrize("plays", [False, True])
def test_the_server_ends_in_order_when_idle_and_while_composing(plays: bool):
    with started("--model", MODEL, module="tests.app.web.held_app") as server:
        awaited(server.said)  # it answers shortly before it prints this
        if plays:
            client = Client(server.address, verbose=False)
            playing = client.submit(None, MODEL, bars=128, api_name="/continue")
            awaited(lambda: playing.status().code.name == "PROCESSING")
            time.sleep(1)  # it is composing by now
            assert not playing.done()
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(120) == 130
        assert server.said() == f"The page is at {server.address}/ (Ctrl-C stops it).\n"
