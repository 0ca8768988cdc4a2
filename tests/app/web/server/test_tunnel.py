"""A page is made public through a tunnel, or stays where it is with one sentence."""

import signal
import sys
import time
import urllib.request
from pathlib import Path
from types import SimpleNamespace

import pytest

from app.web.serve import TunnelError, public_address
from app.web.server.folder import PREFIX
from tests.app.web.browser import started

PAGE = SimpleNamespace(
    server_name="127.0.0.1", server_port=1, share_token="", local_url="http://here/"
)


def test_the_tunnels_address_is_given(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("gradio.networking.setup_tunnel", lambda **_: "http://a1.gradio.live")
    assert public_address(PAGE) == "https://a1.gradio.live"


def test_a_tunnel_that_cannot_be_had_is_told_in_a_sentence(monkeypatch, capfd):
    def fails(**_):
        print("login to server failed\n", file=sys.stderr)
        raise ValueError("Could not create share URL.\nmore lines")

    monkeypatch.setattr("gradio.networking.setup_tunnel", fails)
    with pytest.raises(
        TunnelError, match=r"tunnel cannot be opened .* stays at http://here/"
    ) as raised:
        public_address(PAGE)
    assert "\n" not in str(raised.value)
    assert capfd.readouterr() == ("", "")


def test_without_a_network_the_local_page_is_served_and_a_killed_servers_files_go(tmp_path: Path):
    nowhere = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), "http://127.0.0.1:9")
    around = {**nowhere, "TMPDIR": str(tmp_path), "HF_HOME": str(tmp_path), "NO_PROXY": ""}
    with started("--model", "untrained:tiny", **around) as server:
        server.process.send_signal(signal.SIGKILL)
        server.process.wait(60)
    (dead,) = tmp_path.glob(f"{PREFIX}*")
    with started("--model", "untrained:tiny", "--share", **around) as server:
        late = time.monotonic() + 60
        while "tunnel" not in (said := server.said()) and time.monotonic() < late:
            time.sleep(0.1)
        urllib.request.urlopen(server.address, timeout=60).close()
        (alive,) = tmp_path.glob(f"{PREFIX}*")
        assert alive != dead
    warning, address, sentence = said.splitlines()
    assert "becomes public" in warning
    assert server.address in address
    assert "tunnel cannot be opened" in sentence
    assert list(tmp_path.glob(f"{PREFIX}*")) == []
