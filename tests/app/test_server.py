"""Requests are limited in size, answers keep the browser at home, and the command says who can reach the page."""

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

import app.server
from app.commands.app import warnings
from app.server import Guard, be_quiet_outside
from app.wishes import sentence, wished


async def echo(scope, receive, send):
    """Answer with the size of the body."""
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        size += len(message["body"])
        more = message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(size).encode()})


def ask(headers: list, parts: list[bytes]) -> list[dict]:
    sent, left = [], list(parts)

    async def receive():
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

    async def send(message):
        sent.append(message)

    guarded = Guard(echo)({"type": "http", "headers": headers}, receive, send)
    # In a thread that has no loop yet: a browser of other tests keeps one here.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, guarded).result()
    return sent


def test_a_small_request_passes_with_the_policy():
    start, body = ask([(b"content-length", b"4")], [b"12", b"34"])
    assert (start["status"], body["body"]) == (200, b"4")
    assert b"default-src 'self'" in dict(start["headers"])[b"content-security-policy"]


@pytest.mark.parametrize("length", [b"999999999", b"-1", b"many"])
def test_a_large_or_odd_length_is_refused_unread(length: bytes):
    assert ask([(b"content-length", length)], [])[0]["status"] == 413


def test_a_body_that_is_larger_than_it_says_is_cut_off(monkeypatch):
    monkeypatch.setattr(app.server, "MOST_BODY_BYTES", 10)
    assert ask([], [b"123456", b"789012", b"3"]) == []


def test_the_policy_names_no_other_host():
    assert "http" not in app.server.POLICY
    assert "//" not in app.server.POLICY


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


def test_plain_numbers_become_a_wish():
    wish = wished(4.0, 2, 0.9, 1, 0, 0, 7)
    assert (wish.bars, wish.variations, wish.seed, wish.sampling.top_k) == (4, 2, 7, None)
    with pytest.raises(ValueError, match="temperature is -1"):
        wished(4, 2, -1, 1, 0, 0, 7)
    with pytest.raises(ValueError, match="bars is empty"):
        wished(None, 2, 1, 1, 0, 0, 7)  # type: ignore[arg-type]


def test_an_error_becomes_a_sentence():
    assert sentence(ValueError("there is\n no file")) == "There is no file."
    assert sentence(ValueError("What?")) == "What?"
    assert sentence(ValueError("song.mid is empty")) == "song.mid is empty."
