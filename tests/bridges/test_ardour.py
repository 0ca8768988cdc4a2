"""The Ardour script in a headless session of Ardour 7; selection, import and dialogs are stand-ins."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from app.commands.bridge import script
from tests.app.web.browser import MODEL, started
from tests.bridges.projects import Project
from tests.bridges.sessions import ardour, create
from tokenization.midi.rows import rows_of

HERE = Path(__file__).parent
pytestmark = pytest.mark.long
TRACKS = {"Bass": 36, "Lead": 72, "Strings": 60}
BEATS = 32


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory):
    """A session with three tracks of eight bars."""
    home = tmp_path_factory.mktemp("ardour")
    tracks = {
        name: [(at, 1, pitch + (0, 4, 7, 4)[at % 4], 80) for at in range(BEATS)]
        for name, pitch in TRACKS.items()
    }
    create(home, Project(tracks))
    (home / "script.lua").write_text(script("musicgen_ardour.lua"))
    with started("--model", MODEL, HOME=str(home)):
        yield home


def ran(
    home: Path, action: str, span: str, part: str = "", tracks: str = "", **more: str
) -> dict[str, str]:
    """Run the script; return what was said, and where the answer was imported."""
    given = {
        "SCRIPT": home / "script.lua", "SESSION": home / "song", "KEPT": home / "new",
        "ACTION": action, "PART": part, "RANGE": span, "TRACKS": tracks, **more,
    }  # fmt: skip
    around = {**os.environ, "HOME": str(home)} | {f"MUSICGEN_{n}": str(v) for n, v in given.items()}
    shutil.rmtree(home / "new", ignore_errors=True)
    (home / "new").mkdir()
    done = subprocess.run(
        [ardour(), HERE / "ardour.lua"], env=around, capture_output=True, text=True, timeout=120
    )
    lines = [line.split("|") for line in done.stdout.splitlines() if "|" in line]
    return dict(lines) or {"failed": done.stdout + done.stderr}


def playlists(home: Path) -> str:
    text = (home / "song" / "song.ardour").read_text()
    return "".join(re.findall(r"<Playlist .*?</Playlist>|<TempoMap.*?</TempoMap>", text, re.S))


@pytest.mark.parametrize(
    ("action", "part", "tracks", "bars"),
    [
        ("accompany", "drums", "", (2, 4)),
        ("harmonise", "", "", (2, 4)),
        ("rewrite", "", "Bass,Lead", (2, 4)),
        ("continue", "", "", (8, 10)),
        ("end", "", "", (8, 10)),
    ],
)
def test_music_is_written_to_be_imported_and_the_session_stays(session, action, part, tracks, bars):
    span = "24-32" if bars[0] == 8 else "8-16"
    midi = session / "song" / "interchange"
    before = {path: path.read_bytes() for path in midi.rglob("*.mid")}, playlists(session)
    found = ran(session, action, span, part, tracks)
    assert found == {"at": "0"}
    parts = {path.stem: rows_of(path.read_bytes()) for path in (session / "new").iterdir()}
    onsets = [
        [row[1] / rows["ticksPerBeat"] / 4 for row in rows["notes"]] for rows in parts.values()
    ]
    assert onsets
    assert all(onsets), "a track without notes is imported"
    assert all(bars[0] <= bar < bars[1] for part in onsets for bar in part)
    assert all(name.startswith(rows["tracks"][0]["name"]) for name, rows in parts.items())
    assert ({path: path.read_bytes() for path in midi.rglob("*.mid")}, playlists(session)) == before


@pytest.mark.parametrize(
    ("action", "part", "span", "said"),
    [
        ("rewrite", "", "8-16", "Select the tracks to write, too."),
        ("accompany", "", "8-16", "Name the part to write"),
        ("accompany", "kazoo", "8-16", "There is no track or instrument 'kazoo'"),
        ("accompany", "bass", "8-8", "Select MIDI regions, or a range."),
        ("continue", "", "64-72", "begin 10 after the last with notes"),
        ("accompany", "bass", "1200-1208", "There are no notes around the selection"),
        ("audio", "bass", "8-16", "Audio cannot be read; select MIDI regions, or a range."),
    ],
)
def test_what_is_impossible_is_said(session, action, part, span, said):
    more = {"AUDIO": "1"} if action == "audio" else {}
    found = ran(session, "accompany" if more else action, span, part, **more)
    assert list(found) == ["said"]
    assert said in found["said"]
    assert not list((session / "song").glob("musicgen*"))
