"""Connections that wait for nothing, or for somebody who does not read, are closed."""

import asyncio
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import pytest
import uvicorn

from app.web.server import front_door
from app.web.server.front_door import ImpatientProtocol

ANSWER = bytes(32 << 20)  # more than the system keeps for a connection
ASKED = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def answer(scope, receive, send):
    """Send more than fits into any buffer."""
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": ANSWER})


@contextmanager
def connection() -> Iterator[tuple[socket.socket, uvicorn.Server]]:
    """Give a connection to a server that closes those that are slow, and the server."""
    config = uvicorn.Config(answer, port=0, http=ImpatientProtocol, log_level="error")
    server = uvicorn.Server(config)
    listener = config.bind_socket()
    listener.listen()
    thread = Thread(target=lambda: asyncio.run(server.serve([listener])))
    thread.start()
    try:
        with socket.socket() as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
            one.settimeout(60)
            one.connect(listener.getsockname())
            yield one, server
    finally:
        server.should_exit = True
        thread.join()


def received(one: socket.socket) -> int:
    """Return how many bytes come to the end, however it comes."""
    total = 0
    try:
        while total < len(ANSWER) and (part := one.recv(1 << 20)):
            total += len(part)
    except ConnectionResetError:
        pass
    return total


def awaited(is_so) -> None:
    late = time.monotonic() + 60
    while not is_so() and time.monotonic() < late:
        time.sleep(0.02)
    assert is_so()


@pytest.mark.parametrize("begun", [b"", b"GET / HTTP/1.1\r\nHost: loc"])
def test_half_a_request_is_hung_up_on(begun: bytes, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(front_door, "HEAD_SECONDS", 0.3)
    with connection() as (one, _):
        one.sendall(begun)
        assert one.recv(1) == b""


@pytest.mark.parametrize("requests", [1, 50])
def test_who_does_not_read_is_hung_up_on(requests: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(front_door, "UNREAD_SECONDS", 0.3)
    with connection() as (one, server):
        one.sendall(requests * ASKED)
        awaited(lambda: server.server_state.total_requests)
        awaited(lambda: not server.server_state.connections)
        assert received(one) < len(ANSWER)


def test_one_client_leaves_connections_to_others(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(front_door, "MOST_CONNECTIONS", 3)
    with connection() as (one, server):
        address = one.getsockname()[0], one.getpeername()[1]
        many = [socket.create_connection(address, timeout=60) for _ in range(5)]
        for refused in many[2:]:
            assert received(refused) == 0
        with socket.create_connection(address, 60, ("127.0.0.2", 0)) as other:
            other.sendall(ASKED)
            assert received(other) >= len(ANSWER)
        for held in many:
            held.close()
        awaited(lambda: len(server.server_state.connections) <= 1)
        with socket.create_connection(address, 60) as again:
            again.sendall(ASKED)
            assert received(again) >= len(ANSWER)
    assert not ImpatientProtocol._open


def test_who_reads_gets_all_of_it(monkeypatch: pytest.MonkeyPatch):
    """Also who takes longer than a head may take to come."""
    monkeypatch.setattr(front_door, "HEAD_SECONDS", 0.2)
    with connection() as (one, _):
        one.sendall(ASKED)
        time.sleep(0.5)
        assert received(one) >= len(ANSWER)
