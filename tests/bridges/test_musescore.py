"""The plugin in MuseScore 3 itself, on a display of its own, by its keys; the saved scores are compared."""

import json
import os
import re
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from xml.etree import ElementTree

import pytest

from app.commands.bridge import BRIDGES, folder_of, script
from tests.app.web.browser import Server, started
from tests.tokenization.notation.scores import bars, note, score

pytestmark = pytest.mark.long
PATIENCE = 120  # seconds, on a busy machine
SEED, ANY_SEED = 7, "Math.floor(Math.random() * 1e9)"
TRANSPOSE = "<transpose><diatonic>{}</diatonic><chromatic>{}</chromatic></transpose>"
TRIPLET = "<time-modification><actual-notes>3</actual-notes><normal-notes>2</normal-notes></time-modification>"
SETTINGS = """\
[application]
startup\\firstStart=false
startup\\sessionStart=1
startup\\showSplashScreen=false
startup\\showStartCenter=false
startup\\showTours=false
telemetry\\allowed=false
[ui]
application\\startup\\showTours=false
"""
PLUGINS = """\
<?xml version="1.0" encoding="UTF-8"?>
<museScore version="3.01"><Plugin><path>{path}</path><load>1</load></Plugin></museScore>
"""


def measures(path: Path) -> list[list[str]]:
    """Return the bars of each staff of a saved score, without blanks."""
    (found,) = ElementTree.parse(path).getroot().findall("Score")
    return [
        [
            re.sub(rb"\s", b"", ElementTree.tostring(bar)).decode()
            for bar in staff.findall("Measure")
        ]
        for staff in found.findall("Staff")
    ]


def changed(before: list[list[str]], after: list[list[str]]) -> dict[int, list[int]]:
    """Return the bars, from 1, that differ or are new, by staff."""
    found = {
        number: [n for n in range(len(new)) if old[n : n + 1] != new[n : n + 1]]
        for number, (old, new) in enumerate(zip(before, after, strict=True))
    }
    return {number: [n + 1 for n in some] for number, some in found.items() if some}


def convert(source: Path, path: Path) -> None:
    """Write a score of MuseScore in another format."""
    around = {**os.environ, "QT_QPA_PLATFORM": "offscreen"}
    subprocess.run(["mscore3", "-o", path, source], env=around, check=True, capture_output=True)


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


class Hands:
    """A user at the keyboard."""

    def __init__(self, around: dict[str, str], path: Path, server: Server) -> None:
        self.around, self.path, self.server = around, path, server

    def did(self, *words: str) -> str:
        done = subprocess.run(["xdotool", *words], env=self.around, capture_output=True, text=True)
        return done.stdout.strip()

    def keys(self, *keys: str) -> None:
        for key in keys:
            self.did("key", key)
            time.sleep(0.3)

    def turn_to(self, name: str) -> None:
        """Wait for a window, and give it the keyboard."""
        late = time.monotonic() + PATIENCE
        while not (found := self.did("search", "--name", name).split()):
            assert time.monotonic() < late, f"there is no window {name}"
            time.sleep(0.3)
        self.did("windowfocus", "--sync", found[0])
        time.sleep(0.5)

    def select(self, first: int, count: int) -> None:
        """Select bars of the first staff."""
        self.turn_to("^MuseScore 3: ")
        self.keys("Escape", "ctrl+Home", "Right", *["ctrl+Right"] * (first - 1))
        self.keys(*["ctrl+shift+Right"] * count)

    def ask(self, action: int) -> None:
        """Open the plugin, and choose an action."""
        self.keys("alt+p", "Up", "Return")
        self.turn_to("^musicgen$")
        self.keys(str(action))

    def saved(self) -> list[list[str]]:
        self.turn_to("^MuseScore 3: ")
        self.keys("ctrl+s")
        time.sleep(1)
        return measures(self.path)

    def saved_when(self, is_right: Callable[[list[list[str]]], bool]) -> list[list[str]]:
        """Save now and then until the score is as wanted."""
        late = time.monotonic() + PATIENCE
        while not is_right(found := self.saved()):
            assert time.monotonic() < late, "the score has not changed"
        return found


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
    program = shutil.which("mscore3")
    if program is None or not (shutil.which("Xvfb") and shutil.which("xdotool")):
        pytest.skip("there is no MuseScore 3, Xvfb or xdotool")
    monkeypatch.setenv("HOME", str(tmp_path))
    plugin = folder_of(BRIDGES["musescore"]) / BRIDGES["musescore"].file
    own = tmp_path / ".local/share/MuseScore/MuseScore3/plugins.xml"
    settings = tmp_path / ".config/MuseScore/MuseScore3.ini"
    for path, text in (
        (plugin, script(plugin.name).replace(ANY_SEED, str(SEED))),
        (own, PLUGINS.format(path=plugin)),
        (settings, SETTINGS),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    source, path = tmp_path / "song.musicxml", tmp_path / "song.mscx"
    source.write_bytes(song(is_transposing=getattr(request, "param", False)))
    convert(source, path)
    read, write = os.pipe()
    screen = ["Xvfb", "-displayfd", str(write), "-screen", "0", "1400x900x24"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with (
        started(HOME=str(tmp_path)) as server,  # with the trained model: others may be silent
        subprocess.Popen(screen, pass_fds=[write], **quiet) as shown,
    ):
        around = {**os.environ, "DISPLAY": f":{os.read(read, 9).decode().strip()}"}
        with subprocess.Popen([program, path], env=around, **quiet) as running:
            try:
                found = Hands(around, path, server)
                found.turn_to("^MuseScore 3: ")
                time.sleep(3)
                yield found
            finally:
                running.kill()
                shown.kill()


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
