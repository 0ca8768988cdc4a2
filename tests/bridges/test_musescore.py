"""The plugin in MuseScore 3 itself, by its keys; the saved scores are compared."""

import json
import re
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread

import pytest

from tests.app.web.browser import Server, started
from tests.bridges.musescore import PATIENCE, SEED, Hands, changed, convert, measures, running
from tests.tokenization.notation.scores import bars, note, score

pytestmark = [pytest.mark.long, pytest.mark.alone]
TRANSPOSE = "<transpose><diatonic>{}</diatonic><chromatic>{}</chromatic></transpose>"
TRIPLET = "<time-modification><actual-notes>3</actual-notes><normal-notes>2</normal-notes></time-modification>"


def pitches(bar: str) -> list[tuple[int, int, int]]:
    """Return for each note of a bar its sounding pitch, and its name as it sounds and is written, in fifths."""
    found = re.findall(r"<pitch>(\d+)</pitch><tpc>(\d+)</tpc>(?:<tpc2>(\d+)</tpc2>)?", bar)
    return [
        (int(pitch), int(sounding), int(written or sounding)) for pitch, sounding, written in found
    ]


def answer(server: Server, path: Path, **options: object) -> bytes:
    """Return the whole score that the server writes for the request of a plugin."""
    state = json.loads((Path.home() / ".musicgen/server.json").read_text())
    query = urllib.parse.urlencode(options)
    headers = {
        "Authorization": f"Bearer {state['token']}",
        "Content-Type": "application/vnd.recordare.musicxml+xml",
    }
    request = urllib.request.Request(f"{server.address}/write?{query}", path.read_bytes(), headers)
    with urllib.request.urlopen(request, timeout=PATIENCE) as found:
        return found.read()


class Between(ThreadingHTTPServer):
    """A server that passes requests on to another when it may, or says that it is busy."""

    def __init__(self, to: str) -> None:
        super().__init__(("127.0.0.1", 0), Passing)
        self.to, self.is_busy, self.may, self.answered = to, False, Event(), Event()


class Passing(BaseHTTPRequestHandler):
    """A request to `Between`."""

    def do_POST(self) -> None:
        body, found = self.rfile.read(int(self.headers["Content-Length"])), self.server
        found.may.wait(PATIENCE)
        names = ("Content-Type", "Accept", "Authorization")
        headers = {name: self.headers[name] for name in names if name in self.headers}
        request = urllib.request.Request(f"{found.to}{self.path}", body, headers)
        if found.is_busy:
            status, text = (
                503,
                b'{"detail":"Too many requests are running; try again in a moment."}',
            )
        else:
            with urllib.request.urlopen(request, timeout=PATIENCE) as passed:
                status, text = passed.status, passed.read()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
        found.answered.set()


def song(*, is_transposing: bool) -> bytes:
    """Return a score of two parts in F major, of which the second is empty."""
    steps = "GBDB" if is_transposing else "FACA"
    quarters = [note(step, 4, 3) for step in steps]
    triplets = [note(step, 4, 2, inside=TRIPLET) for step in steps[:3] * 4]
    played = ["".join(triplets if n == 5 else quarters) for n in range(8)]
    silent = ["<note><rest measure='yes'/><duration>12</duration></note>"] * 8
    parts, names = [bars(*one, divisions=3) for one in (played, silent)], ("Piano", "Flute")
    keys: Sequence[tuple[int, str]] = [(-1, ""), (-1, "")]
    if is_transposing:
        names = ("B♭ Trumpet", "Alto Saxophone")
        keys = [(1, TRANSPOSE.format(-1, -2)), (2, TRANSPOSE.format(-5, -9))]
    for number, (fifths, transpose) in enumerate(keys):
        signed = f"</divisions><key><fifths>{fifths}</fifths></key>"
        parts[number] = (
            parts[number]
            .replace("</divisions>", signed)
            .replace("</attributes>", f"{transpose}</attributes>")
        )
    listed = [
        f'<score-part id="P{n}"><part-name>{name}</part-name></score-part>'
        for n, name in enumerate(names, 1)
    ]
    return score(*parts, listed="".join(listed))


@pytest.fixture
def hands(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Hands]:
    """MuseScore with a score; each request has the same seed."""
    monkeypatch.setenv("HOME", str(tmp_path))
    source = song(is_transposing=getattr(request, "param", False))
    with (
        started(HOME=str(tmp_path)) as server,  # with the trained model: others may be silent
        running(tmp_path, source, server) as found,
    ):
        yield found


@pytest.mark.parametrize(
    ("action", "first", "wanted", "undo"),
    [
        (1, 3, {0: [3, 4]}, 1),
        (1, 6, {0: [6, 7]}, 2),  # the bar begins with a triplet
        (2, 3, {1: [3, 4]}, 1),
        (3, 7, {0: [9, 10], 1: [9, 10]}, 1),
        (4, 7, {0: [9, 10], 1: [9, 10]}, 1),
    ],
    ids=["fill", "fill a triplet", "a part below", "continue", "end"],
)
def test_only_the_place_that_was_asked_for_changes(hands: Hands, action, first, wanted, undo):
    before = hands.saved()
    hands.select(first, 2)
    hands.ask(action)
    after = hands.saved_when(lambda found: found != before)
    found = changed(before, after)
    assert {*found} <= {*wanted}
    assert all({*some} <= {*wanted[staff]} for staff, some in found.items())
    hands.keys(*["ctrl+z"] * undo)
    assert hands.saved() == before


def test_nothing_is_written_without_a_selection(hands: Hands):
    before = hands.saved()
    hands.keys("Escape", "Escape")
    hands.ask(1)
    time.sleep(4)
    assert hands.saved() == before


@pytest.mark.parametrize("hands", [True], indirect=True)
@pytest.mark.parametrize(
    ("action", "staff", "fifths", "options"),
    [
        (1, 0, 2, {"do": "rewrite", "parts": "0"}),
        (2, 1, 3, {"do": "accompany", "parts": "1"}),
    ],
    ids=["fill", "a part below"],
)
def test_a_transposing_instrument_sounds_as_the_server_wrote_it(
    hands: Hands, tmp_path: Path, action, staff, fifths, options
):
    sent, whole, opened = (tmp_path / f"{name}.musicxml" for name in ("sent", "whole", "opened"))
    before = hands.saved()
    convert(hands.path, sent)
    hands.select(3, 2)
    hands.ask(action)
    after = hands.saved_when(lambda found: found != before)
    whole.write_bytes(answer(hands.server, sent, bars="3-4", seed=SEED, **options))
    convert(whole, opened.with_suffix(".mscx"))
    wanted = measures(opened.with_suffix(".mscx"))
    sounding = [[pitch for pitch, *_ in pitches(bar)] for bar in wanted[staff][2:4]]
    assert any(sounding)
    found = [pitches(bar) for bar in after[staff][2:4]]
    assert [[pitch for pitch, *_ in bar] for bar in found] == sounding
    assert all(
        (7 * (name - 14)) % 12 == pitch % 12 and written - name in (fifths, fifths - 12)
        for bar in found
        for pitch, name, written in bar
    )


@pytest.mark.parametrize("hands", [True], indirect=True)
def test_chord_symbols_are_named_as_a_transposing_instrument_reads_them(hands: Hands):
    before = hands.saved()
    hands.select(3, 2)
    hands.ask(5)
    after = hands.saved_when(lambda found: found != before)
    roots = [re.findall(r"<Harmony><root>(\d+)</root>", bar) for bar in after[0]]
    assert {*changed(before, after)} == {0}
    assert roots[2][0] == "15"  # G, as F sounds


@pytest.mark.parametrize("is_busy", [False, True], ids=["the score changes meanwhile", "busy"])
def test_a_request_that_fails_writes_nothing_and_the_next_one_does(hands: Hands, is_busy):
    with Between(hands.server.address) as between:
        Thread(target=between.serve_forever, daemon=True).start()
        known = Path.home() / ".musicgen/server.json"
        own = json.loads(known.read_text())
        address = f"http://127.0.0.1:{between.server_port}"
        known.write_text(json.dumps({**own, "address": address}))
        between.is_busy = is_busy
        hands.select(3, 2)
        hands.ask(1)
        if not is_busy:
            hands.select(8, 1)
            hands.keys("Delete")
        before = hands.saved()
        between.may.set()
        assert between.answered.wait(PATIENCE)
        time.sleep(2)
        assert hands.saved() == before
        between.is_busy = False
        hands.select(3, 2)
        hands.turn_to("^musicgen$")
        hands.keys("1")
        after = hands.saved_when(lambda found: found != before)
        assert {*changed(before, after)} == {0}
        between.shutdown()
