"""The REAPER script, run by lua5.4 with a stand-in of REAPER's functions."""

import os
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from app.commands.bridge import program, script
from tests.app.web.browser import MODEL, free_port, started

HERE = Path(__file__).parent
pytestmark = pytest.mark.long
BARS = [[4, 4, 120]] * 3 + [[3, 4, 100]] * 2 + [[4, 4, 90]]  # the last is repeated
LINES = [0, 4, 8, 12, 15, 18, 22, 26, 30, 34, 38]  # in quarter notes
NOTES = ("Bass", 36), ("Lead", 72), ("Strings", 60), ("Drums", 38)


def lua() -> str:
    """Return the path of Lua."""
    found = shutil.which("lua5.4")
    if found is None or shutil.which("curl") is None:
        pytest.skip("there is no lua5.4 or curl")
    return found


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory):
    """A home in which a server is announced."""
    folder = tmp_path_factory.mktemp("home")
    (folder / "script.lua").write_text(script("musicgen_reaper.lua"))
    with started("--model", MODEL, HOME=str(folder)):
        yield folder


def project(**changes: Any) -> dict[str, Any]:
    """Return a song of four tracks in ten bars with changes of metre and tempo, and a track of audio."""
    tracks = []
    for name, pitch in NOTES:
        notes = [
            [at, at + 0.5, pitch + at % 5, 80] for at in range(38) if name != "Lead" or at < 26
        ]
        tracks.append({"name": name, "items": [{"from": 0, "to": 38, "notes": notes}]})
    tracks.append({"name": "Guitar", "items": [{"from": 0, "to": 38, "audio": True}]})
    return {"bars": BARS, "tracks": tracks, **changes}


def as_lua(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{{', '.join(f'{name}={as_lua(one)}' for name, one in value.items())}}}"
    if isinstance(value, list):
        return f"{{{', '.join(map(as_lua, value))}}}"
    return f'"{value}"' if isinstance(value, str) else str(value).lower()


def ran(
    home: Path, given: dict[str, Any], choice: int, text: str = "", *, seed: int = 1
) -> dict[str, Any]:
    """Run an action; return what was said, and each track's items: their span and takes."""
    (home / "project.lua").write_text(f"return {as_lua(given)}")
    words = [lua(), HERE / "reaper.lua", home / "script.lua", home / "project.lua", str(choice)]
    around = {**os.environ, "HOME": str(home), "MUSICGEN_SEED": str(seed)}
    done = subprocess.run(
        [*words, *filter(None, [text])], env=around, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = {"said": [], "undo": [], "tip": [], "tracks": defaultdict(list)}
    name, items = "", []
    for line in done.stdout.splitlines():
        kind, *rest = line.split("|")
        if kind in found:
            found[kind] += rest
        elif kind == "track":
            name = rest[0]
            items = found["tracks"][name]
        elif kind == "item":
            items.append((tuple(map(float, rest)), []))
        elif kind == "take":
            items[-1][1].append((rest[0], []))
        else:
            items[-1][1][-1][1].append(tuple(map(float, rest)))
    return found


def unchanged(found: dict[str, Any], given: dict[str, Any]) -> list[str]:
    """Return the tracks whose first takes are those of the project."""
    same = []
    for track in given["tracks"]:
        items = found["tracks"][track["name"]]
        old = [
            ((one["from"], one["to"]), [(*map(float, note), 0.0) for note in one.get("notes", [])])
            for one in track["items"]
        ]
        if [(span, takes[0][1]) for span, takes in items[: len(old)]] == old:
            same.append(track["name"])
    return same


def test_a_selected_item_gets_another_take_and_all_else_stays(home: Path):
    given = project()
    head, gap, tail = (0, 12), (12, 22), (22, 38)
    given["tracks"][0]["items"] = [
        {"from": a, "to": b, "selected": (a, b) == gap, "notes": [[at, at + 0.5, 36, 80] for at in range(a, b)]}
        for a, b in (head, gap, tail)
    ]  # fmt: skip
    found = ran(home, given, 1)
    assert (found["said"], found["undo"]) == ([], ["musicgen: fill the selection"])
    assert unchanged(found, given) == [track["name"] for track in given["tracks"]]
    takes = found["tracks"]["Bass"][1][1]
    assert [state for state, _ in takes] == ["kept", "active"]
    assert all(12 <= note[0] < 22 and note[1] <= 22 for note in takes[1][1])
    assert takes[1][1]
    assert sum(len(takes) for items in found["tracks"].values() for _, takes in items) == 8
    again = ran(home, given, 1, seed=2)
    assert again["tracks"]["Bass"][1][1][1][1] != takes[1][1]


@pytest.mark.parametrize(
    ("bars", "spans"),
    [
        ((12, 22), [(0, 12), (12, 22), (22, 38)]),
        ((0, 8), [(0, 8), (8, 38)]),
        ((30, 38), [(0, 30), (30, 38)]),
    ],
)
def test_a_longer_item_is_split_at_the_selection_for_a_take(home: Path, bars, spans):
    given = project(range=[*bars])
    given["tracks"][0]["selected"] = True
    found = ran(home, given, 1)
    assert (found["said"], found["undo"]) == ([], ["musicgen: fill the selection"])
    assert unchanged(found, given) == [name for name, _ in NOTES[1:]] + ["Guitar"]
    items = found["tracks"]["Bass"]
    assert [span for span, _ in items] == spans
    old = [note[:4] for _, takes in items for note in takes[0][1]]
    assert old == [(*map(float, note),) for note in given["tracks"][0]["items"][0]["notes"]]
    assert [len(takes) for _, takes in items] == [1 + (span == bars) for span in spans]
    state, notes = dict(items)[bars][1]
    assert state == "active"
    assert notes
    assert all(bars[0] <= note[0] < bars[1] for note in notes)
    assert list(found["tracks"]) == [*dict(NOTES), "Guitar"]


def test_bars_of_a_track_without_an_item_get_one(home: Path):
    given = project(range=[26, 34])
    given["tracks"][1]["items"][0]["to"] = 26
    given["tracks"][1]["selected"] = True
    found = ran(home, given, 1)
    assert found["said"] == []
    assert unchanged(found, given) == [track["name"] for track in given["tracks"]]
    ((span, ((_, notes),)),) = found["tracks"]["Lead"][1:]
    assert span == (26, 34)
    assert all(26 <= note[0] < 34 and note[1] <= 34 for note in notes)
    given["tracks"][1]["items"].append({"from": 26, "to": 30, "notes": []})  # in the way
    found = ran(home, given, 1)
    assert unchanged(found, given) == [track["name"] for track in given["tracks"]]
    ((span, _),) = found["tracks"]["Lead (musicgen)"]
    assert span == (26, 34)


@pytest.mark.parametrize(
    ("choice", "text", "name", "span"),
    [
        (2, "", "Bass", (38, 46)),
        (3, "", "Bass", (38, 46)),
        (4, "strings", "Strings 2", (30, 38)),
        (5, "", "Piano", (30, 38)),
    ],
)
def test_music_is_written_after_and_below_the_selection(home, choice, text, name, span):
    given = project(range=[30, 38])
    found = ran(home, given, choice, text)
    assert (found["said"], len(found["undo"])) == ([], 1)
    assert unchanged(found, given) == [track["name"] for track in given["tracks"]]
    new = {
        name: items[1:] if name in dict(NOTES) else items for name, items in found["tracks"].items()
    }
    del new["Guitar"]
    assert {where for items in new.values() for where, _ in items} == {span}
    assert new.get(name), list(new)
    takes = [notes for items in new.values() for _, both in items for _, notes in both]
    assert all(span[0] <= note[0] < span[1] for notes in takes for note in notes)


def audio_alone() -> dict[str, Any]:
    given = project()
    given["tracks"][4]["items"][0]["selected"] = True
    return given


@pytest.mark.parametrize(
    ("given", "choice", "said"),
    [
        (project(), 1, "Select MIDI items, or bars by a time selection."),
        (audio_alone(), 1, "Audio cannot be read; select MIDI items."),
        (project(range=[8, 12]), 1, "Select the tracks to write, too."),
        (project(range=[200, 208], tracks=project()["tracks"][4:]), 4, "There are no notes around"),
        (project(range=[8, 12]), 2, "The bars after the selection have notes"),
        (project(range=[30, 34]), 3, "The bars after the selection have notes"),
        (project(range=[54, 58]), 2, "begin 5 after the last with notes"),
        (project(range=[8, 12], edited_meanwhile=True), 5, "The project has changed meanwhile"),
    ],
)  # fmt: skip
def test_what_is_impossible_is_said_and_nothing_changes(home, given, choice, said):
    found = ran(home, given, choice, "bass")
    assert len(found["said"]) == 1
    assert said in found["said"][0]
    assert found["undo"] == []
    assert unchanged(found, given) == [track["name"] for track in given["tracks"]]
    assert sum(map(len, found["tracks"].values())) == len(given["tracks"])


def test_a_server_is_started_if_there_is_none(tmp_path: Path):
    """The script starts the program that installed it; the test ends it."""
    known = tmp_path / ".musicgen/server.json"
    known.parent.mkdir()
    known.write_text(
        f'{{"address": "http://127.0.0.1:{free_port()}/", "token": ""}}'
    )  # of one that has ended
    own = tmp_path / "musicgen"
    own.write_text(
        f"#!/bin/sh\necho $$ > {tmp_path}/pid\n"
        f'exec {sys.executable} -m app.cli "$@" --model {MODEL} --port {free_port()}\n'
    )
    own.chmod(0o755)
    text = script("musicgen_reaper.lua")
    assert text.count(program()) == 1
    (tmp_path / "script.lua").write_text(text.replace(program(), str(own)))
    try:
        found = ran(tmp_path, project(range=[30, 38]), 5)
    finally:
        os.kill(int((tmp_path / "pid").read_text()), 15)
    assert found["said"] == []


class Restarted(BaseHTTPRequestHandler):
    """A server that breaks off a request in the middle, and answers the next ones."""

    def do_POST(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"bars":1,"of":4}\n')

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"User-agent: *\n")


def test_a_server_that_is_started_again_in_the_middle_has_stopped(tmp_path: Path):
    (tmp_path / "script.lua").write_text(script("musicgen_reaper.lua"))
    (tmp_path / ".musicgen").mkdir()
    given = project(range=[30, 38])
    with ThreadingHTTPServer(("127.0.0.1", 0), Restarted) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        address = f'{{"address": "http://127.0.0.1:{server.server_port}/", "token": ""}}'
        (tmp_path / ".musicgen/server.json").write_text(address)
        found = ran(tmp_path, given, 5)
        server.shutdown()
    assert found["said"] == ["The server has stopped; nothing was written."]
    assert unchanged(found, given) == [track["name"] for track in given["tracks"]]


def test_a_server_that_stops_in_the_middle_leaves_the_project_as_it_is(tmp_path: Path):
    (tmp_path / "script.lua").write_text(script("musicgen_reaper.lua"))
    given = project(range=[0, 384])  # 100 bars, which the server holds until they are stopped
    given["tracks"] = [
        {**one, "items": [{**one["items"][0], "to": 384}]} for one in given["tracks"]
    ]
    for track in given["tracks"][:4]:
        track["items"][0]["notes"] = [[at, at + 1, 40, 80] for at in range(384)]
    around = {"HOME": str(tmp_path), "module": "tests.app.web.held_app"}
    with started("--model", MODEL, **around) as server, ThreadPoolExecutor(1) as thread:
        asked = thread.submit(ran, tmp_path, given, 2)
        while not (tmp_path / "musicgen-answer.json").exists():
            time.sleep(0.1)
        server.process.kill()
        found = asked.result()
    assert found["said"] == ["The server has stopped; nothing was written."]
    assert found["undo"] == []
    assert unchanged(found, given) == [track["name"] for track in given["tracks"]]
    assert not list(tmp_path.glob("musicgen-*"))
