"""The life of a server: at home in what it asks, public where it is told to be, and ended in order."""

import os
import signal
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from gradio_client import Client

from app.cli import main
from app.commands.app import warnings
from app.web.serve import TunnelError, public_address
from app.web.server.front_door import POLICY
from app.web.server.process import PREFIX, be_quiet_outside
from tests.app.web.browser import MODEL, started


def test_the_browser_and_gradio_are_kept_at_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    assert "http" not in POLICY
    assert "//" not in POLICY
    names = ("GRADIO_ANALYTICS_ENABLED", "HF_HUB_DISABLE_TELEMETRY", "GRADIO_TEMP_DIR")
    for name in (*names, "no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "before")
    be_quiet_outside(tmp_path, "10.0.0.7")
    assert [os.environ[name] for name in names] == ["False", "1", str(tmp_path / "gradio")]
    assert os.environ["NO_PROXY"] == os.environ["no_proxy"] == "before,127.0.0.1,localhost,::1,10.0.0.7"  # fmt: skip


def test_the_command_warns_of_strangers():
    assert warnings("127.0.0.1", False) == []
    assert "no password" in warnings("0.0.0.0", False)[0]
    assert "public" in warnings("127.0.0.1", True)[0]


@pytest.mark.parametrize("port", ["0", "65536", "-1"])
def test_a_port_that_there_is_not_is_named(port: str, capsys: pytest.CaptureFixture[str]):
    assert main(["app", "--port", port]) == 2
    said = f"musicgen: --port is {port}; it must be a number from 1 to 65535\n"
    assert capsys.readouterr().err == said


PAGE = SimpleNamespace(
    server_name="127.0.0.1", server_port=1, share_token="", local_url="http://here/"
)


def test_the_tunnels_address_is_given_or_why_there_is_none(monkeypatch, capfd):
    monkeypatch.setattr("gradio.networking.setup_tunnel", lambda **_: "http://a1.gradio.live")
    assert public_address(PAGE) == "https://a1.gradio.live"

    def fails(**_):
        print("login to server failed\n", file=sys.stderr)
        raise ValueError("Could not create share URL.\nmore lines")

    monkeypatch.setattr("gradio.networking.setup_tunnel", fails)
    match = r"tunnel cannot be opened .* stays at http://here/"
    with pytest.raises(TunnelError, match=match) as raised:
        public_address(PAGE)
    assert "\n" not in str(raised.value)
    assert capfd.readouterr() == ("", "")


def awaited(is_so) -> None:
    late = time.monotonic() + 60
    while not is_so() and time.monotonic() < late:
        time.sleep(0.05)


@pytest.mark.long
def test_without_a_network_the_local_page_is_served_and_a_killed_servers_files_go(tmp_path: Path):
    nowhere = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), "http://127.0.0.1:9")
    around: dict[str, Any] = {
        **nowhere,
        "TMPDIR": str(tmp_path),
        "HF_HOME": str(tmp_path),
        "NO_PROXY": "",
    }
    with started("--model", "untrained:tiny", **around) as server:
        server.process.send_signal(signal.SIGKILL)
        server.process.wait(60)
    (dead,) = tmp_path.glob(f"{PREFIX}*")
    with started("--model", "untrained:tiny", "--share", **around) as server:
        awaited(lambda: "tunnel" in server.said())
        (alive,) = tmp_path.glob(f"{PREFIX}*")
        assert alive != dead
        warning, address, sentence = server.said().splitlines()
    assert "becomes public" in warning
    assert server.address in address
    assert "tunnel cannot be opened" in sentence
    assert list(tmp_path.glob(f"{PREFIX}*")) == []


@pytest.mark.long
@pytest.mark.parametrize("plays", [False, True])
def test_it_ends_in_order_as_it_begins_and_in_the_middle_of_music(plays: bool):
    with started("--model", MODEL, module="tests.app.web.held_app") as server:
        awaited(server.said)  # it answers a little before it says so
        if plays:
            client = Client(server.address, verbose=False)
            playing = client.submit(None, MODEL, bars=128, api_name="/continue")
            awaited(lambda: playing.status().code.name == "PROCESSING")
            time.sleep(1)  # the music is under way
            assert not playing.done()
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(120) == 130
        assert server.said() == f"The page is at {server.address}/ (Ctrl-C ends it).\n"
