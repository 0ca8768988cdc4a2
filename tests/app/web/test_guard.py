"""Requests of strangers: refused in a sentence before anything is done, and nothing of them is said again."""

import asyncio
import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest

import app.web.server.front_door
from app.web.launch import FULL_DISK
from app.web.offered_models import example
from app.web.server.front_door import JSON_BYTES, MOST_VALUES, UPLOAD_BODY_BYTES, FrontDoor
from app.web.server.jobs import Jobs
from app.web.server.names import Names, Refused
from app.web.server.sessions import Sessions, Visitors
from tests.app.web.browser import MODEL, started

API = "/gradio_api"
SILENCE = None  # among the parts of a body


@pytest.fixture
def visitors():
    sessions = Sessions()
    yield Visitors(sessions)
    sessions.close()


def ask(
    visitors: Visitors, method: str, path: str, *parts: bytes | None, let_in=None, **headers: str
) -> tuple[int, str]:
    """Return status and body of the answer to a request; who is let in is answered with the body's size."""
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
    queue = SimpleNamespace(event_ids_to_events={}, pending_event_ids_session={})
    jobs = Jobs(visitors, SimpleNamespace(fns={}, _queue=queue))
    uploads = visitors.sessions.folder / "gradio"
    door = FrontDoor(echo, names=Names("127.0.0.1"), visitors=visitors, jobs=jobs, uploads=uploads)
    # In a thread that has no loop yet: a browser of other tests keeps one here.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, door(scope, receive, send)).result()  # type: ignore[arg-type]
    assert b"default-src 'self'" in dict(sent[0]["headers"])[b"content-security-policy"]
    return sent[0]["status"], sent[1]["body"].decode()


def padded(size: int) -> bytes:
    return b'{"a":"' + b"x" * (size - 8) + b'"}'


def listed(commas: int) -> bytes:
    return b'{"data":[' + b"1," * commas + b"1]}"


def test_bodies_are_bounded(visitors: Visitors, monkeypatch: pytest.MonkeyPatch):
    path = f"{API}/run/predict"
    assert ask(visitors, "POST", path, b'{"data"', b":[]}") == (200, "11")
    assert ask(visitors, "POST", path, padded(JSON_BYTES)) == (200, str(JSON_BYTES))
    assert ask(visitors, "POST", path, padded(JSON_BYTES + 1))[0] == 413
    for length in (str(JSON_BYTES + 1), "-1", "many"):  # refused unread
        assert ask(visitors, "POST", path, SILENCE, content_length=length)[0] == 413
    for sent, most in (("cancel", JSON_BYTES), ("upload", UPLOAD_BODY_BYTES)):
        parts = [bytes(50_000)] * (most // 50_000 + 1)
        assert ask(visitors, "POST", f"{API}/{sent}", *parts)[0] == 413
    monkeypatch.setattr(app.web.server.front_door, "BODY_SECONDS", 0.1)
    assert ask(visitors, "POST", f"{API}/cancel", b"{", SILENCE)[0] == 408


BODIES = [
    (listed(MOST_VALUES), 200),
    (listed(MOST_VALUES + 1), 413),
    *[(body, 400) for body in (b"[" * 60_000, b"[1]", b"NaN", b'{"a": "\\ud800"}', b"\xff")],
]


@pytest.mark.parametrize(("body", "wanted"), BODIES)
def test_json_is_a_small_object(visitors: Visitors, body: bytes, wanted: int):
    began = time.process_time()
    status, said = ask(visitors, "POST", f"{API}/run/predict", body)
    assert status == wanted
    assert time.process_time() - began < 1  # a machine that is busy with others may take longer
    if wanted != 200:
        assert len(said) < 150
        assert json.loads(said)["detail"].endswith(".")


@pytest.mark.parametrize(
    "host",
    ["evil.example:7860", "127.0.0.1.evil.example", "", "10.0.0.7", "]", "evil.example@127.0.0.1",
     "127.0.0.1/evil", "127.0.0.1?evil", "127.0.0.1:99999999"],
)  # fmt: skip
def test_another_name_than_the_servers_is_not_answered(visitors: Visitors, host: str):
    assert ask(visitors, "GET", "/", host=host)[0] == 421
    for said in (host, f"{host}, localhost"):
        assert ask(visitors, "GET", "/", x_forwarded_host=said)[0] == 421


def test_the_servers_own_names_are_answered():
    for host, name in (
        ("127.0.0.1", "localhost:1"),
        ("127.0.0.1", "[::1]:7860"),
        ("0.0.0.0", "10.0.0.7:7860"),
        ("0.0.0.0", socket.gethostname()),
        ("pc.lan", "pc.lan"),
        ("::", "[fe80::1]"),
    ):
        Names(host).check(name)
    names = Names("127.0.0.1", ["music.example"])
    names.check("Music.Example:443")
    names.add("https://abc.gradio.live")
    names.check("abc.gradio.live")
    with pytest.raises(Refused):
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
        (403, "GET", "/assets/x.js", {**CROSS, "sec_fetch_mode": "no-cors"}),
    ],
)  # fmt: skip
def test_pages_from_elsewhere_are_not_answered(
    visitors: Visitors, wanted: int, method: str, path: str, headers: dict[str, str]
):
    assert ask(visitors, method, path, b"{}", **headers)[0] == wanted


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
def test_what_gradio_would_fetch_or_print_is_not_reached(
    visitors: Visitors, method: str, path: str
):
    status, said = ask(visitors, method, path, b"{}")
    there = "There is nothing at this address."
    wanted = (404, there) if method == "GET" else (405, "Nothing can be sent to this address.")
    assert (status, json.loads(said)["detail"]) == wanted


PART = b"--X\r\nContent-Disposition: form-data; name="
NAMED = PART + b'"files"; filename="a.mid"\r\n\r\nMThd\r\n'
FORM = "multipart/form-data; boundary=X"


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (PART + b'"files"\r\n\r\nMThd\r\n--X--\r\n', FORM),
        (NAMED.replace(b"files", b"other") + b"--X--\r\n", FORM),
        (PART + b"files; filename*='\r\n\r\nMThd\r\n--X--\r\n", FORM),
        (NAMED * 101 + b"--X--\r\n", FORM),
        (NAMED[:-2], FORM),
        (NAMED + b"--X--\r\n", f"{FORM}; charset=punycode"),
        (NAMED + b"--X--\r\n", f"{FORM}{'X' * 5000}"),
        (NAMED + b"--X--\r\n", "text/plain"),
        (b"", FORM),
    ],
)
def test_a_form_of_anything_but_files_is_refused(
    visitors: Visitors, body: bytes, kind: str, capfd: pytest.CaptureFixture[str]
):
    status, said = ask(visitors, "POST", f"{API}/upload", body, content_type=kind)
    assert status == 400
    assert json.loads(said)["detail"].endswith(".")
    assert not capfd.readouterr().err
    whole = NAMED * 100 + b"--X--\r\n"
    assert ask(visitors, "POST", f"{API}/upload", whole, content_type=FORM) == (
        200,
        str(len(whole)),
    )


def test_what_is_handed_on_to_gradio(visitors: Visitors):
    seen = []

    def look(scope) -> None:
        page = visitors.sessions._sessions.get("page")
        seen.append((page.pages if page else None, [name for name, _ in scope["headers"]]))

    ask(visitors, "GET", "/config", let_in=look, x_gradio_server="http://evil.example")
    ask(visitors, "GET", f"{API}/file=x", let_in=look, range="bytes=1-2-3")
    assert seen == [(None, [b"host"])] * 2  # what gradio would trip over or believe is left out
    ask(visitors, "GET", f"{API}/heartbeat/page", let_in=look)  # an open page
    ask(visitors, "POST", f"{API}/call/read", b'{"session_hash": "page"}', let_in=look)
    ask(visitors, "POST", f"{API}/call/read", b'{"data": []}', let_in=look)
    assert [pages for pages, _ in seen[2:]] == [1, 0, 0]
    assert len(visitors.sessions) == 1  # calls of programs make no visitors


@pytest.fixture
def client(server):
    with httpx.Client(base_url=server.address, timeout=60) as made:
        yield made


def called(client: httpx.Client, name: str, data: list) -> str:
    """Return all that comes of a call."""
    job = client.post(f"{API}/call/{name}", json={"data": data}).json()["event_id"]
    return client.get(f"{API}/call/{name}/{job}").text


HALF = "musicgen-app-*/gradio/tmp*"  # what has been begun to be sent
META = {"meta": {"_type": "gradio.FileData"}}


def test_wrong_requests_are_answered_and_repeat_nothing(client: httpx.Client, files: Path):
    (own,) = files.glob("musicgen-app-*")
    for path in ("/etc/passwd", "http://127.0.0.1:1/a.mid", str(own / "gradio")):
        assert "not sent to this server" in called(
            client, "desk_open", [{"path": path, **META}, {}]
        )
    sent = client.post(f"{API}/upload", files={"files": ("a.mid", example("trio-jazz"))}).json()[0]
    odd = "<b>nobody\x1b[31m"
    asked = {"bars": 1, "variations": 1, "sampling": {}}
    plain = [None, MODEL, 0, 1, 1, 1, 0.9, 0, 0, 0]
    for name, data in (
        *[("continue", [*plain[:place], odd, *plain[place + 1 :]]) for place in range(2, 10)],
        *[("continue", [*plain[:3], wrong, *plain[4:]]) for wrong in (None, [1], {"a": 1}, -1)],
        ("read", [{"path": sent, **META}, odd]),
        ("read", [{"path": 1}, MODEL]),
        ("desk_open", [None, {"example": odd}]),
        ("desk_write", [None, {**asked, "kind": odd}, ""]),
        ("desk_write", [None, {**asked, "bars": odd}, ""]),
    ):
        said = called(client, name, data)
        assert '"error": "' in said
        assert "nobody" not in said
    join, call, odd_call = f"{API}/queue/join", f"{API}/call", {"fn_index": "x" * 500}
    answers = [
        client.post(f"{call}/nothing", json={"data": []}),
        client.post(f"{API}/run/continue", json={"data": [None, MODEL, 0, 4, 1, 1, 0.9, 0, 0, 0]}),
        client.post(join, json={"data": [], "fn_index": 9999, "session_hash": "a"}),
        client.post(join, json={"data": 1, "session_hash": [], **odd_call}),
        client.post(f"{API}/cancel", json={"data": [1] * 1000}),
        client.get(f"{API}/queue/data", params={"session_hash": "nobody"}),
        client.get(f"{call}/continue/nobody"),
        client.get(f"{API}/file=%1b[31mred"),
        client.get(f"{API}/file=/etc/passwd"),
        client.get("/musicgen/..%2f..%2fpyproject.toml"),
        client.post(f"{call}/v2/nothing", json={}),
        client.post(f"{call}/v2/read", json={"other": 1}),
    ]
    for answer in answers:
        assert 400 <= answer.status_code < 500, answer.request.url
        assert len(answer.text) < 200
        assert answer.json()["detail"]
        assert "\\u001b" not in answer.text
    said = client.get("/config", headers={"x-gradio-server": "http://evil.example"})
    assert (said.status_code, "evil.example" in said.text) == (200, False)


def test_half_a_file_leaves_nothing(server, client: httpx.Client, files: Path):
    before = {*files.glob(HALF)}
    host, port = server.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=120) as one:
        head = f"POST {API}/upload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\nContent-Type: {FORM}\r\n\r\n"
        one.sendall(head.encode() + NAMED[:-2])
        answer = client.post(f"{API}/upload", files={"files": ("a.abc", b"X:1\nK:C\nC|\n")})
        assert answer.status_code == 200  # sent after it, and done with
        assert {*files.glob(HALF)} <= before


@pytest.mark.long
def test_a_full_disk_is_told_in_a_sentence(tmp_path: Path):
    module = "tests.app.web.full_disk_app"
    with (
        started("--model", MODEL, module=module, TMPDIR=str(tmp_path)) as server,
        httpx.Client(base_url=server.address, timeout=60) as client,
    ):
        answer = client.post(f"{API}/upload", files={"files": ("a.mid", bytes(100_000))})
        assert (answer.status_code, answer.json()) == (507, {"detail": FULL_DISK})
        tune = {"files": ("a.abc", b"X:1\nK:C\nCDEF|\n")}
        file = {"path": client.post(f"{API}/upload", files=tune).json()[0], **META}
        assert FULL_DISK in called(client, "sound", [file])
        assert '"notes": 4' in called(client, "read", [file, MODEL])
        assert "Traceback" not in server.said()
    assert not [*tmp_path.rglob("*.wav")]
