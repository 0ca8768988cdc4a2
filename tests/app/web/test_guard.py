"""Requests of strangers are refused early, in one sentence that repeats nothing of them."""

import asyncio
import json
import os
import resource
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from app.web import guard, process
from app.web.offered_models import example
from tests.app.web.browser import MODEL, started

API = "/gradio_api"
FORM = "multipart/form-data; boundary=X"
SILENCE = None  # a part of a body that does not arrive


def ask(
    method: str, path: str, *parts: bytes | None, let_in=None, **headers: str
) -> tuple[int, str]:
    """Return the status and body of an answer; an accepted request is answered with the size of its body."""
    sent, left = [], list(parts or [b""])
    given = {"host": "localhost:7860"} | {n.replace("_", "-"): v for n, v in headers.items()}

    async def receive():
        if left[0] is SILENCE:
            await asyncio.sleep(60)
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

    async def send(message):
        sent.append(message)

    async def echo(scope, receive, send):
        message = await receive()
        if let_in is not None:
            let_in(scope)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": str(len(message["body"])).encode()})

    scope = {"type": "http", "method": method, "path": path, "query_string": b"", "client": ("127.0.0.1", 1),
             "headers": [(name.encode(), value.encode()) for name, value in given.items()]}  # fmt: skip
    door = guard.Guard(
        echo, names=guard.Names("127.0.0.1"), room=guard.Room(), files=Path("nowhere")
    )
    # In a thread without an event loop: the browser of other tests keeps one in this thread.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, door(scope, receive, send)).result()  # type: ignore[arg-type]
    assert b"default-src 'self'" in dict(sent[0]["headers"])[b"content-security-policy"]
    return sent[0]["status"], sent[1]["body"].decode()


def padded(size: int) -> bytes:
    return b'{"a":"' + b"x" * (size - 8) + b'"}'


def listed(commas: int) -> bytes:
    return b'{"data":[' + b"1," * commas + b"1]}"


def test_the_size_of_bodies_is_limited(monkeypatch: pytest.MonkeyPatch):
    path = f"{API}/run/predict"
    assert ask("POST", path, b'{"data"', b":[]}") == (200, "11")
    assert ask("POST", path, padded(guard.JSON_BYTES)) == (200, str(guard.JSON_BYTES))
    assert ask("POST", path, padded(guard.JSON_BYTES + 1))[0] == 413
    for length in (str(guard.JSON_BYTES + 1), "-1", "many"):  # refused without reading
        assert ask("POST", path, SILENCE, content_length=length)[0] == 413
    for sent, most in (("cancel", guard.JSON_BYTES), ("upload", guard.FORM_BYTES)):
        parts = [bytes(50_000)] * (most // 50_000 + 1)
        assert ask("POST", f"{API}/{sent}", *parts)[0] == 413
    both = bytes(guard.UPLOAD_BYTES * 7 // 3)  # a file, and one to write into as base64
    assert ask("POST", "/desk/write", both)[0] == 200
    assert ask("POST", "/desk/write", both, both)[0] == 413
    monkeypatch.setattr(guard, "BODY_SECONDS", 0.1)
    assert ask("POST", f"{API}/cancel", b"{", SILENCE)[0] == 408


BODIES = [
    (listed(guard.MOST_VALUES), 200),
    (listed(guard.MOST_VALUES + 1), 413),
    *[(body, 400) for body in (b"[" * 60_000, b"[1]", b"NaN", b'{"a": "\\ud800"}', b"\xff")],
]


@pytest.mark.parametrize(("body", "wanted"), BODIES)
def test_a_json_body_must_be_a_small_object(body: bytes, wanted: int):
    began = time.process_time()
    status, said = ask("POST", f"{API}/run/predict", body)
    assert status == wanted
    assert time.process_time() - began < 1  # CPU time, since the machine may be busy
    if wanted != 200:
        assert len(said) < 150
        assert json.loads(said)["detail"].endswith(".")


@pytest.mark.parametrize(
    "host",
    ["evil.example:7860", "127.0.0.1.evil.example", "", "10.0.0.7", "]", "evil.example@127.0.0.1",
     "127.0.0.1/evil", "127.0.0.1?evil", "127.0.0.1:99999999"],
)  # fmt: skip
def test_other_host_names_are_refused(host: str):
    assert ask("GET", "/", host=host)[0] == 421
    for said in (host, f"{host}, localhost"):
        assert ask("GET", "/", x_forwarded_host=said)[0] == 421


def test_the_host_names_of_the_server_are_answered():
    for host, name in (
        ("127.0.0.1", "localhost:1"),
        ("127.0.0.1", "[::1]:7860"),
        ("0.0.0.0", "10.0.0.7:7860"),
        ("0.0.0.0", socket.gethostname()),
        ("pc.lan", "pc.lan"),
        ("::", "[fe80::1]"),
    ):
        guard.Names(host).check(name)
    names = guard.Names("127.0.0.1", ["music.example"])
    names.check("Music.Example:443")
    names.add("https://abc.gradio.live")
    names.check("abc.gradio.live")
    with pytest.raises(guard.Refused):
        names.check("abd.gradio.live")


OWN = {"origin": "http://localhost:7860", "sec_fetch_site": "same-origin"}
CROSS = {"sec_fetch_site": "cross-site"}


@pytest.mark.parametrize(
    ("wanted", "method", "path", "headers"),
    [
        *[(403, "POST", f"{API}/upload", {"origin": origin})
          for origin in ("http://evil.example", "null", "http://localhost:3000", "", "http://[")],
        (403, "POST", f"{API}/reset", CROSS),
        (200, "POST", f"{API}/reset", OWN),
        (200, "GET", "/", {**CROSS, "sec_fetch_mode": "navigate"}),
        (403, "GET", "/musicgen/x.js", {**CROSS, "sec_fetch_mode": "no-cors"}),
    ],
)  # fmt: skip
def test_cross_site_requests_are_refused(
    wanted: int, method: str, path: str, headers: dict[str, str]
):
    assert ask(method, path, b"{}", **headers)[0] == wanted


@pytest.mark.parametrize(
    ("method", "path"),
    [
        *[("POST", f"{API}/{path}") for path in ("component_server", "vibe-edit", "upload_more/../x", "")],
        ("PUT", f"{API}/upload"),
        *[("GET", path) for path in ("/monitoring", "/nothing", f"{API}/custom_component/x/client/y/z.js")],
        *[("GET", f"{API}/{path}") for path in ("file=http://127.0.0.1:1/", "file=HTTPS://a.example/x")],
        *[("GET", f"{API}/{path}") for path in ("upload_progress", "deep_link", "proxy=x", "stream/x")],
    ],
)  # fmt: skip
def test_unused_endpoints_of_gradio_are_not_reached(method: str, path: str):
    status, said = ask(method, path, b"{}")
    there = "There is nothing at this address."
    wanted = (404, there) if method == "GET" else (405, "Nothing can be sent to this address.")
    assert (status, json.loads(said)["detail"]) == wanted


@pytest.mark.parametrize(
    ("method", "file", "wanted"),
    [
        *[("tools/call", file, 400) for file in ("http://10.0.0.1/a.mid", " ftp://x/", ["file:///etc/passwd"], {"url": "https://x"})],
        ("tools/call", "TVRoZAAA", 200),
        ("initialize", "https://assistant.example", 200),
    ],
)  # fmt: skip
def test_tools_of_assistants_fetch_no_address(method: str, file: object, wanted: int):
    body = {"method": method, "params": {"name": "write", "arguments": {"file": file}}}
    status, said = ask("POST", f"{API}/mcp/", json.dumps(body).encode())
    assert status == wanted, said


def test_headers_that_gradio_trusts_are_removed():
    seen = []
    headers = {"x_gradio_server": "http://evil.example"}
    ask("GET", "/config", let_in=lambda scope: seen.append(scope["headers"]), **headers)
    assert seen == [[(b"host", b"localhost:7860")]]


def test_one_client_cannot_take_all_places(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(guard, "MOST_AT_WORK", 29)
    room = guard.Room()
    with ExitStack() as taken:
        for _ in range(24):
            taken.enter_context(room.place("greedy"))
        for client in ["other"] * 4 + ["third"]:
            taken.enter_context(room.place(client))
        for client, status in (("greedy", 429), ("other", 429), ("fourth", 503)):
            with pytest.raises(guard.Refused) as refused, room.place(client):
                pass
            assert refused.value.status == status
    with room.place("greedy"), room.place("fourth"):
        assert room._at_work.total() == 2
    assert not room._at_work


def test_uploads_per_minute_are_limited(monkeypatch: pytest.MonkeyPatch):
    now = iter([0, 1, 2, 3, 61])
    monkeypatch.setattr(guard.time, "monotonic", lambda: float(next(now)))
    room, most = guard.Room(), guard.BYTES_A_MINUTE
    room.count("a", most + 1)  # the first of any size
    with pytest.raises(guard.Refused, match="in the last minute"):
        room.count("a", 1)
    room.count("b", most)
    with pytest.raises(guard.Refused):
        room.count("b", 1)
    room.count("a", 1)


def test_refusals_are_told_late_to_whoever_asks_again_and_again(monkeypatch: pytest.MonkeyPatch):
    room, waited = guard.Room(), list[float]()

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr(guard.anyio, "sleep", sleep)
    monkeypatch.setattr(guard, "Room", lambda: room)
    for _ in range(guard.REFUSALS_A_MINUTE + 1):
        assert ask("POST", "/nothing")[0] == 405
    assert waited == [0.0] * guard.REFUSALS_A_MINUTE + [guard.REFUSED_SECONDS]
    assert room.wait_of("another") == 0.0
    monkeypatch.setattr(guard.time, "monotonic", lambda: 60.0 * (room._minute + 1))
    assert ask("POST", "/nothing")[0] == 405
    assert waited[-1] == 0.0


def test_a_client_that_stops_reading_is_gone(monkeypatch: pytest.MonkeyPatch):
    room = guard.Room()
    with room.place("a"):
        assert not room.is_gone("a")  # its request is new
        monkeypatch.setattr(guard, "GONE_SECONDS", 0)
        assert room.is_gone("a")
        with room.reading("a"):
            assert room.is_reading("a")
            assert not room.is_gone("a")
        monkeypatch.setattr(guard, "GONE_SECONDS", 20)
        assert not room.is_gone("a")
    assert not room._last


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="only Linux has this")
def test_a_connection_whose_answer_is_not_read_ends(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(process, "UNREAD_SECONDS", 0.2)
    with process.listen("127.0.0.1", None) as listener, socket.socket() as silent:
        silent.connect(listener.getsockname())
        connection, _ = listener.accept()
        connection.settimeout(60)  # without the limit, it waits for ever
        with connection, pytest.raises(TimeoutError, match="Connection timed out"):
            connection.sendall(bytes(64 << 20))


def test_old_files_are_deleted_to_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    now = time.time()
    for folder, age in (("a", 4000), ("b", 100), ("c", 90), ("d", 10)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.wav").write_bytes(bytes(100))
        os.utime(tmp_path / folder / "x.wav", (now - age, now - age))

    def left() -> str:
        return "".join(sorted(path.name for path in tmp_path.iterdir()))

    guard.make_room(tmp_path)
    assert left() == "bcd"  # older than an hour
    monkeypatch.setattr(guard, "FILES_BYTES", 400)
    guard.make_room(tmp_path, 100)
    assert left() == "bcd"
    guard.make_room(tmp_path, 101)
    assert left() == "cd"
    monkeypatch.setattr(guard, "MOST_FILES", 1)
    with pytest.raises(guard.Refused, match="too many files") as refused:
        guard.make_room(tmp_path, 1)
    assert (refused.value.status, left()) == (507, "d")  # it is too new
    guard.make_room(tmp_path / "gone", 1)


@pytest.fixture
def client(server):
    with httpx.Client(base_url=server.address, timeout=60) as made:
        yield made


def called(client: httpx.Client, name: str, data: list) -> str:
    """Return the whole answer to a call."""
    job = client.post(f"{API}/call/{name}", json={"data": data}).json()["event_id"]
    return client.get(f"{API}/call/{name}/{job}").text


META = {"meta": {"_type": "gradio.FileData"}}


def test_answers_to_invalid_requests_repeat_nothing(client: httpx.Client, files: Path):
    (own,) = files.glob("musicgen-app-*")
    for path in ("/etc/passwd", "http://127.0.0.1:1/a.mid", str(own / "gradio"), "a\0b", 1):
        data = [[{"path": path, **META}], MODEL]
        answer = client.post(f"{API}/call/read", json={"data": data})
        assert (answer.status_code, "not sent to this server" in answer.text) == (400, True)
    sent = client.post(f"{API}/upload", files={"files": ("a.mid", example("trio-jazz"))}).json()[0]
    odd = "<b>nobody\x1b[31m"
    plain = [None, MODEL, 0, 1, 1, 1, 0.9, 0, 0, 0, False, "", 1]
    for name, data in (
        *[("continue", [*plain[:place], odd, *plain[place + 1 :]]) for place in range(2, 10)],
        *[("continue", [*plain[:3], wrong, *plain[4:]]) for wrong in (None, [1], {"a": 1}, -1)],
        ("read", [{"path": sent, **META}, odd]),
        ("read", ["song.mid", MODEL]),
    ):
        said = called(client, name, data)
        assert '"error": "' in said
        assert "nobody" not in said
    asked = {"bars": 1, "variations": 1, "sampling": {}}
    lied = {"file": ("a.mid", b"MThd")}
    answers = [
        *[
            client.post(f"/desk/{name}", data={"ask": wrong})
            for name in ("open", "write", "stop")
            for wrong in ("[", "1")
        ],
        client.post("/desk/open", data={"ask": json.dumps({"example": odd})}),
        client.post("/desk/open", files=lied),
        client.post("/desk/sound", files={**lied, "more": ("b.mid", b"MThd")}),
        client.post("/desk/score", content=b"--X\r\nnothing", headers={"content-type": FORM}),
        *[
            client.post("/desk/write", data={"ask": json.dumps({**asked, name: odd})})
            for name in ("kind", "bars")
        ],
        client.post(f"{API}/call/nothing", json={"data": []}),
        client.post(f"{API}/queue/join", json={"data": [], "fn_index": 9999, "session_hash": "a"}),
        client.post(
            f"{API}/queue/join", json={"data": 1, "session_hash": [], "fn_index": "x" * 500}
        ),
        client.post(f"{API}/cancel", json={"data": [1] * 1000}),
        client.get(f"{API}/file=%1b[31mred"),
        client.get(f"{API}/file=/etc/passwd"),
        client.get("/musicgen/..%2f..%2fpyproject.toml"),
        client.post(f"{API}/call/v2/nothing", json={}),
        client.post(f"{API}/call/v2/read", json={"other": 1}),
    ]
    for answer in answers:
        assert 400 <= answer.status_code < 500, answer.request.url
        assert len(answer.text) < 200
        assert answer.json()["detail"]
        assert "\\u001b" not in answer.text
    said = client.get("/config", headers={"x-gradio-server": "http://evil.example"})
    assert (said.status_code, "evil.example" in said.text) == (200, False)


@pytest.mark.long
def test_a_full_disk_is_reported_in_one_sentence(tmp_path: Path):
    around = {"TMPDIR": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    with (
        started("--model", MODEL, **around) as server,
        httpx.Client(base_url=server.address, timeout=60) as client,
    ):
        # Files are limited to 1,000 bytes, also those of processes that the server starts from now on.
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (1000, 1000))
        answer = client.post(f"{API}/upload", files={"files": ("a.mid", bytes(100_000))})
        assert (answer.status_code, answer.json()) == (507, {"detail": guard.FULL_DISK})
        tune = {"files": ("a.abc", b"X:1\nK:C\nCDEF|\n")}
        file = {"path": client.post(f"{API}/upload", files=tune).json()[0], **META}
        assert guard.FULL_DISK in called(client, "sound", [file])
        assert '"notes": 4' in called(client, "read", [file, MODEL])
        assert "Traceback" not in server.said()
    assert not [*tmp_path.rglob("*.wav")]
