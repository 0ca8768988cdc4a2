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
from app.web.server.front_door import FrontDoor
from app.web.server.jobs import MOST_JOBS, Jobs
from app.web.server.names import Names, Refused
from app.web.server.sessions import Sessions, Visitors
from tests.app.web.browser import started

API = "/gradio_api"
FULL = b'{"data":[' + b"1," * 700_000 + b"1]}"


async def echo(scope, receive, send):
    """Answer with the size of the body."""
    message = await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(len(message["body"])).encode()})


@pytest.fixture
def visitors():
    sessions = Sessions()
    yield Visitors(sessions)
    sessions.close()


def ask(
    visitors: Visitors, path: str, parts: list[bytes], method: str = "POST", **headers: str
) -> tuple[int, str]:
    """Return status and body of the answer to a request; None among the parts stands for a silence."""
    sent, left = [], list(parts)
    given = {
        "host": "localhost:7860",
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }

    async def receive():
        if not left:
            await asyncio.sleep(60)
        return {
            "type": "http.request",
            "body": left.pop(0),
            "more_body": bool(left) or parts[-1] == b"{",
        }

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": method, "path": path, "query_string": b"", "client": ("127.0.0.1", 1),
             "headers": [(name.encode(), value.encode()) for name, value in given.items()]}  # fmt: skip
    uploads = visitors.sessions.folder / "gradio"
    queue = SimpleNamespace(event_ids_to_events={}, pending_event_ids_session={})
    jobs = Jobs(visitors, SimpleNamespace(fns={}, _queue=queue))
    door = FrontDoor(echo, names=Names("127.0.0.1"), visitors=visitors, jobs=jobs, uploads=uploads)
    # In a thread that has no loop yet: a browser of other tests keeps one here.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, door(scope, receive, send)).result()  # type: ignore[arg-type]
    assert b"default-src 'self'" in dict(sent[0]["headers"])[b"content-security-policy"]
    return sent[0]["status"], sent[1]["body"].decode()


def test_a_small_request_passes(visitors: Visitors):
    assert ask(visitors, f"{API}/run/predict", [b'{"data"', b":[]}"]) == (200, "11")


@pytest.mark.parametrize("length", ["999999999", "-1", "many"])
def test_a_large_or_odd_length_is_refused_unread(visitors: Visitors, length: str):
    assert ask(visitors, f"{API}/cancel", [], content_length=length)[0] == 413


@pytest.mark.parametrize(
    "path", ["cancel", "reset", "call/continue", "queue/join", "upload", "run/predict"]
)
def test_a_body_that_is_larger_than_it_says_is_cut_off(visitors: Visitors, path: str):
    assert ask(visitors, f"{API}/{path}", [FULL[:50_000]] * 40)[0] == 413


@pytest.mark.parametrize(
    "body",
    [
        FULL,
        FULL.replace(b"1", b"{}"),
        b'{"data":[' + b"1," * 20_000 + b"1]}",
        b"[" * 60_000,
        b"[1]",
        b"NaN",
        b'{"a": NaN}',
        b'{"a": "\\ud800"}',
        b"\xff",
    ],
)
def test_what_is_no_small_object_of_json_is_refused(visitors: Visitors, body: bytes):
    began = time.process_time()
    status, said = ask(visitors, f"{API}/run/predict", [body])
    assert status in (400, 413)
    assert time.process_time() - began < 1  # a machine that is busy with others may take longer
    assert len(said) < 150
    assert json.loads(said)["detail"].endswith(".")


def test_a_request_that_never_ends_is_ended(visitors: Visitors, monkeypatch):
    monkeypatch.setattr(app.web.server.front_door, "BODY_SECONDS", 0.1)
    assert ask(visitors, f"{API}/cancel", [b"{"])[0] == 408


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:7860", "127.0.0.1.evil.example", "", "10.0.0.7", "[::2]", "]",
     "evil.example@127.0.0.1", "127.0.0.1/evil", "127.0.0.1?evil", "127.0.0.1:99999999", "127.0.0.1:x"],
)  # fmt: skip
def test_another_name_than_the_servers_is_not_answered(visitors: Visitors, host: str):
    assert ask(visitors, "/", [b""], "GET", host=host)[0] == 421
    assert ask(visitors, "/", [b""], "GET", x_forwarded_host=host)[0] == 421
    assert ask(visitors, "/", [b""], "GET", x_forwarded_host=f"{host}, localhost")[0] == 421


@pytest.mark.parametrize(
    ("host", "name"),
    [("127.0.0.1", "localhost:1"), ("127.0.0.1", "[::1]:7860"), ("0.0.0.0", "10.0.0.7:7860"), 
     ("0.0.0.0", socket.gethostname()),
     ("pc.lan", "pc.lan"), ("::", "[fe80::1]")],
)  # fmt: skip
def test_the_servers_own_names_are_answered(host: str, name: str):
    Names(host).check(name)


def test_a_name_can_be_made_known():
    names = Names("127.0.0.1", ["music.example"])
    names.check("Music.Example:443")
    names.add("https://abc.gradio.live")
    names.check("abc.gradio.live")
    with pytest.raises(Refused):
        names.check("abd.gradio.live")


@pytest.mark.parametrize(
    "headers",
    [{"origin": "http://evil.example"}, {"origin": "null"}, {"origin": "http://localhost:3000"}, {"origin": ""},
     {"origin": "http://["},
     {"sec_fetch_site": "cross-site"}],
)  # fmt: skip
def test_a_page_from_elsewhere_is_not_answered(visitors: Visitors, headers: dict):
    assert ask(visitors, f"{API}/upload", [b""], **headers)[0] == 403
    assert (
        ask(
            visitors,
            f"{API}/reset",
            [b"{}"],
            origin="http://localhost:7860",
            sec_fetch_site="same-origin",
        )[0]
        == 200
    )
    assert (
        ask(visitors, "/", [b""], "GET", sec_fetch_site="cross-site", sec_fetch_mode="navigate")[0]
        == 200
    )
    assert (
        ask(
            visitors,
            "/music/x.wav",
            [b""],
            "GET",
            sec_fetch_site="cross-site",
            sec_fetch_mode="no-cors",
        )[0]
        == 403
    )


@pytest.mark.parametrize(
    "path",
    ["component_server", "process_recording", "vibe-edit", "stream/x", "upload_more/../x", ""],
)
def test_nothing_can_be_sent_elsewhere(visitors: Visitors, path: str):
    assert ask(visitors, f"{API}/{path}", [b"{}"])[0] in (404, 405)


@pytest.mark.parametrize(
    "path",
    [
        *("/monitoring", "/monitoring/summary", f"{API}/custom_component/x/client/y/z.js", f"{API}/dev/reload"),
        *(f"{API}/file=http://127.0.0.1:1/", f"{API}/file=HTTPS://a.example/x", f"{API}/upload_progress"),
        *(f"{API}/component_server", f"{API}/deep_link", f"{API}/proxy=x", f"{API}/stream/x", "/nothing"),
    ],
)  # fmt: skip
def test_what_gradio_would_fetch_or_print_is_not_reached(visitors: Visitors, path: str):
    assert ask(visitors, path, [b""], "GET") == (
        404,
        '{"detail": "There is nothing at this address."}',
    )


PART = b"--X\r\nContent-Disposition: form-data; name="
NAMED = PART + b'"files"; filename="a.mid"\r\n\r\nMThd\r\n'
FORM = "multipart/form-data; boundary=X"


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (PART + b'"files"\r\n\r\nMThd\r\n--X--\r\n', FORM),
        (PART + b'"other"\r\n\r\nMThd\r\n--X--\r\n', FORM),
        (PART + b"files; filename*='\r\n\r\nMThd\r\n--X--\r\n", FORM),
        (NAMED * 101 + b"--X--\r\n", FORM),
        (NAMED[:-2], FORM),
        (NAMED + b"--X--\r\n", f"{FORM}; charset=punycode"),
        (NAMED + b"--X--\r\n", f"{FORM}{'X' * 5000}"),
        (NAMED + b"--X--\r\n", "text/plain"),
        (b"\x00\xff" * 99, FORM),
        (b"", FORM),
    ],
)
def test_a_form_of_anything_but_files_is_refused(
    visitors: Visitors, body: bytes, kind: str, capfd: pytest.CaptureFixture[str]
):
    status, said = ask(visitors, f"{API}/upload", [body], content_type=kind)
    assert status == 400
    assert json.loads(said)["detail"].endswith(".")
    assert not capfd.readouterr().err


def test_a_form_of_files_is_handed_on_as_it_came(visitors: Visitors):
    whole = NAMED + b"--X--\r\n"
    assert ask(visitors, f"{API}/upload", [whole], content_type=FORM) == (200, str(len(whole)))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the server keeps its files."""
    return tmp_path_factory.mktemp("server")


@pytest.fixture(scope="module")
def server(files: Path):
    with started("--model", "untrained:tiny:groove", TMPDIR=str(files)) as running:
        yield running


@pytest.fixture
def client(server):
    with httpx.Client(base_url=server.address, timeout=60) as made:
        yield made


def handle(client: httpx.Client) -> dict:
    """Send an example, and return how calls name it."""
    sent = client.post(f"{API}/upload", files={"files": ("a.mid", example("trio-jazz"))}).json()
    return {"path": sent[0], "meta": {"_type": "gradio.FileData"}}


def called(client: httpx.Client, name: str, data: list) -> str:
    """Return all that comes of a call."""
    job = client.post(f"{API}/call/{name}", json={"data": data}).json()["event_id"]
    return client.get(f"{API}/call/{name}/{job}").text


MODEL = "untrained:tiny:groove"
HALF = "musicgen-app-*/gradio/tmp*"  # what has been begun to be sent


@pytest.mark.parametrize("value", ["four", None, [1], {"a": 1}, "NaN", -1])
@pytest.mark.parametrize("place", [2, 3, 4, 5, 6, 7, 8, 9])
def test_a_wrong_value_is_answered_with_a_sentence(client: httpx.Client, value: object, place: int):
    data: list = [None, MODEL, 0, 1, 1, 1, 0.9, 0, 0, 0]
    data[place] = value
    event, answer = called(client, "continue", data).strip().rsplit("\n", 1)
    assert "event: error" in event
    assert json.loads(answer.removeprefix("data: "))["error"].endswith(".")


def test_wrong_requests_are_answered_with_sentences_and_leave_no_trace_in_the_log(
    client: httpx.Client, server
):
    meta = {"meta": {"_type": "gradio.FileData"}}
    stolen = {"path": "/etc/passwd", **meta}
    fetched = {"path": "http://127.0.0.1:1/a.mid", **meta}
    folder = {"path": next(iter(Path("/tmp").glob("musicgen-app-*/gradio")), "/").__str__(), **meta}
    for file in (stolen, fetched, folder):
        assert "not sent to this server" in called(client, "desk_open", [file, {}])
    for data in ([stolen, MODEL], ["x", MODEL], [None], [None, "nobody"], [{"path": 1}, MODEL]):
        assert '"error": "' in called(client, "read", data)
    odd = "<b>nobody\x1b[31m"
    asked = {
        "bars": 1,
        "variations": 1,
        "temperature": 1,
        "topP": 1,
        "topK": 0,
        "minP": 0,
        "seed": 1,
    }
    for name, data in (
        ("read", [handle(client), odd]),
        ("desk_open", [None, {"model": odd}]),
        ("desk_open", [None, {"example": odd}]),
        ("desk_write", [None, {**asked, "kind": odd}, ""]),
        ("desk_write", [None, {**asked, "model": odd}, ""]),
        ("desk_write", [None, {**asked, "bars": odd}, ""]),
    ):
        said = called(client, name, data)
        assert '"error": "' in said
        assert "nobody" not in said
    sent = client.post(f"{API}/upload", files={"files": ("a.mid", b"MThd")}).json()
    for parts in ("bytes=1-2-3", "bytes=0-1"):
        assert client.get(f"{API}/file={sent[0]}", headers={"Range": parts}).content == b"MThd"
    answers = [
        client.post(f"{API}/call/nothing", json={"data": []}),
        client.post(f"{API}/run/continue", json={"data": [None, MODEL, 0, 4, 1, 1, 0.9, 0, 0, 0]}),
        client.post(f"{API}/queue/join", json={"data": [], "fn_index": 9999, "session_hash": "a"}),
        client.post(
            f"{API}/queue/join", json={"data": 1, "fn_index": "x" * 500, "session_hash": []}
        ),
        client.post(f"{API}/cancel", json={"data": [1] * 1000}),
        client.post(
            f"{API}/cancel", content=b'{"session_hash":"\\ud800","fn_index":1,"event_id":"x"}'
        ),
        client.get(f"{API}/queue/data", params={"session_hash": "nobody"}),
        client.get(f"{API}/call/continue/nobody"),
        client.get(f"{API}/proxy=http://127.0.0.1:1/"),
        client.get(f"{API}/file=%1b[31mred"),
        client.post(f"{API}/call/v2/nothing", json={}),
        client.post(f"{API}/call/v2/read", json={"other": 1}),
    ]
    for answer in answers:
        assert 400 <= answer.status_code < 500, answer.request.url
        assert len(answer.text) < 200
        assert answer.json()["detail"]
        assert "\\u001b" not in answer.text
    assert "Traceback" not in server.said()


def test_half_a_request_is_hung_up_on(server):
    host, port = server.address.removeprefix("http://").split(":")
    begun = [socket.create_connection((host, int(port))) for _ in range(50)]
    begun[0].sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    for one in begun[1:40]:
        one.sendall(b"GET / HTTP/1.1\r\nHost: loc")
    late = time.monotonic() + 120
    for one in begun[1:]:
        one.settimeout(max(0.1, late - time.monotonic()))
        assert one.recv(1) == b"", "the server still waits"
    for one in begun:
        one.close()


def test_the_answers_to_a_job_have_one_reader(client: httpx.Client):
    asked = {"data": [None, MODEL, 0, 16, 1, 1, 0.95, 0, 0.02, 1, False, ""]}
    job = client.post(f"{API}/call/continue", json=asked).json()["event_id"]
    with client.stream("GET", f"{API}/call/continue/{job}") as first:
        second = client.get(f"{API}/call/continue/{job}")
        assert (second.status_code, len(second.text) < 150) == (409, True)
        assert "complete" in first.read().decode()


def test_jobs_that_nobody_waits_for_end(client: httpx.Client):
    long = {"data": [None, MODEL, 0, 128, 8, 1, 0.95, 0, 0.02, 1, False, ""]}
    statuses = [client.post(f"{API}/call/continue", json=long).status_code for _ in range(50)]
    assert {*statuses} == {200, 429}
    assert statuses.count(200) <= MOST_JOBS
    late = time.monotonic() + 90
    while (answer := client.post(f"{API}/call/models", json={"data": []})).status_code == 429:
        assert time.monotonic() < late, "jobs without a client are still at work"
        time.sleep(1)
    assert "complete" in client.get(f"{API}/call/models/{answer.json()['event_id']}").text


def test_many_calls_of_programs_push_nobody_out(client: httpx.Client, server):
    asked = {
        "data": [None, MODEL, 0, 1, 1, 1, 0.95, 0, 0.02, 1, False, ""],
        "session_hash": "honest",
    }
    with client.stream("GET", f"{API}/heartbeat/honest"):
        job = client.post(f"{API}/call/continue", json=asked).json()["event_id"]
        said = client.get(f"{API}/call/continue/{job}").text
        files, *_ = json.loads(said.split("data: ")[-1])
        for number in range(250):
            opened = {"data": [None, {"example": "trio-jazz"}], "session_hash": f"s{number}"}
            answer = client.post(f"{API}/run/desk_open", json=opened)
            assert answer.status_code in (200, 429)
        assert client.get(f"{API}/file={files[0]['path']}").content[:4] == b"MThd"


@pytest.mark.parametrize("said", ["http://evil.example", "["])
def test_no_header_makes_the_page_name_another_server(client: httpx.Client, said: str):
    answer = client.get("/config", headers={"x-gradio-server": said})
    assert answer.status_code == 200
    assert "evil.example" not in answer.text


def test_who_speaks_no_http_writes_nothing_to_the_terminal(server):
    host, port = server.address.removeprefix("http://").split(":")
    for said in (
        b"\xff\r\n\r\n",
        b"GET / HTTP/1.1\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
    ):
        with socket.create_connection((host, int(port)), timeout=60) as one:
            one.sendall(said)
            assert b" 400 " in one.recv(1000)
    assert "WARNING" not in server.said()


def test_what_is_sent_in_half_reaches_no_disk(server, client: httpx.Client, files: Path):
    before = {*files.glob(HALF)}
    host, port = server.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as one:
        one.sendall(b"POST /gradio_api/upload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n"
                    b"Content-Type: multipart/form-data; boundary=x\r\n\r\n--x\r\nContent-Disposition: form-data; "
                    b'name="files"; filename="a.mid"\r\n\r\nMThd')  # fmt: skip
        answer = client.post(f"{API}/upload", files={"files": ("a.abc", b"X:1\nK:C\nC|\n")})
        assert answer.status_code in (200, 429)  # sent after it, and done with
        assert {*files.glob(HALF)} <= before


def test_a_full_disk_is_told_in_a_sentence(tmp_path: Path):
    tune = b"X:1\nK:C\nCDEF|\n"
    with (
        started(
            "--model", MODEL, module="tests.app.web.full_disk_app", TMPDIR=str(tmp_path)
        ) as server,
        httpx.Client(base_url=server.address, timeout=60) as client,
    ):
        answer = client.post(f"{API}/upload", files={"files": ("a.mid", bytes(100_000))})
        assert (answer.status_code, answer.json()) == (507, {"detail": FULL_DISK})
        sent = client.post(f"{API}/upload", files={"files": ("a.abc", tune)}).json()
        file = {"path": sent[0], "meta": {"_type": "gradio.FileData"}}
        assert FULL_DISK in called(client, "sound", [file])
        assert '"notes": 4' in called(client, "read", [file, MODEL])
        assert "Traceback" not in server.said()
    assert not [*tmp_path.rglob("*.wav")]
