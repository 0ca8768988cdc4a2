"""The server keeps the browser and gradio at home, and the command says who can reach the page."""

import os

import pytest

import app.web.server.front_door
from app.cli import main
from app.commands.app import warnings
from app.web.composing.requests import SamplingValues, options_from
from app.web.server.process import be_quiet_outside


def test_the_policy_names_no_other_host():
    assert "http" not in app.web.server.front_door.POLICY
    assert "//" not in app.web.server.front_door.POLICY


def test_gradio_is_kept_at_home(monkeypatch, tmp_path):
    for name in (
        "GRADIO_ANALYTICS_ENABLED",
        "HF_HUB_DISABLE_TELEMETRY",
        "GRADIO_TEMP_DIR",
        "no_proxy",
        "NO_PROXY",
    ):
        monkeypatch.setenv(name, "before")
    be_quiet_outside(tmp_path, "10.0.0.7")
    assert os.environ["GRADIO_ANALYTICS_ENABLED"] == "False"
    assert os.environ["GRADIO_TEMP_DIR"].startswith(str(tmp_path))
    assert os.environ["NO_PROXY"] == "before,127.0.0.1,localhost,::1,10.0.0.7"


def test_the_command_warns_of_strangers():
    assert warnings("127.0.0.1", False) == []
    assert "no password" in warnings("0.0.0.0", False)[0]
    assert "public" in warnings("127.0.0.1", True)[0]


@pytest.mark.parametrize("port", ["80000", "-1", "0", "65536"])
def test_a_port_that_there_is_not_is_named(port: str, capsys):
    assert main(["app", "--port", port]) == 2
    assert (
        capsys.readouterr().err
        == f"musicgen: --port is {port}; it must be a number from 1 to 65535\n"
    )


PLAIN = SamplingValues(temperature=0.9, top_p=1, top_k=0, min_p=0, seed=7)


@pytest.mark.parametrize("number", [None, "four", True, [4], {}, float("nan"), float("inf")])
def test_what_is_no_number_is_named(number: object):
    with pytest.raises(ValueError, match=r"^bars is "):
        options_from(bars=number, variations=1, sampling=PLAIN)  # type: ignore[arg-type]


def test_plain_numbers_become_options():
    options = options_from(bars=4.0, variations=2, sampling=PLAIN)
    assert (options.bars, options.variations, options.seed, options.sampling.top_k) == (
        4,
        2,
        7,
        None,
    )
    with pytest.raises(ValueError, match="temperature is -1"):
        options_from(bars=4, variations=2, sampling=PLAIN._replace(temperature=-1))
    with pytest.raises(ValueError, match="bars is empty"):
        options_from(bars=None, variations=2, sampling=PLAIN)  # type: ignore[arg-type]
