"""The Ardour script in a headless session of Ardour 7; selection, import and dialogs are stand-ins."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from app.commands.bridge import script
from tests.app.web.browser import MODEL, started
from tokenization.midi.rows import rows_of
from tokenization.midi.writing import write_midi
from tokenization.score import Notes, Score, Track

HERE = Path(__file__).parent
pytestmark = pytest.mark.long
TRACKS = {"Bass": 36, "Lead": 72, "Strings": 60}
BEATS = 32
CREATE = """\
create_session("{folder}", "song", 48000)
for _, name in ipairs {{{names}}} do
  local one = ARDOUR.ChanCount(ARDOUR.DataType("midi"), 1)
  Session:new_midi_track(one, one, true, ARDOUR.PluginInfo(), nil, nil, 1, name,
    ARDOUR.PresentationInfo.max_order, ARDOUR.TrackMode.Normal, true)
end
"""
SAVE = 'Session:save_state("") close_session()'
REGION = (
    '<Region name="{name}" muted="0" opaque="1" locked="0" automatic="0" whole-file="{whole}" hidden="0" '
    'position-locked="0" start="b0" length="b{ticks}@b0" position="b0" stretch="1" shift="1" layering-index="0" '
    'type="midi" id="{id}" source-0="{source}" master-source-0="{source}" channels="1"/>'
)


def ardour() -> str:
    """Return the path of Ardour's Lua without a window."""
    found = shutil.which("ardour7-lua")
    if found is None:
        pytest.skip("there is no Ardour 7")
    return found


def melody(pitch: int) -> bytes:
    at = np.arange(BEATS) * 480
    pitches = pitch + np.array([0, 4, 7, 4])[at // 480 % 4]
    notes = Notes(at, np.full_like(at, 480), pitches, np.full_like(at, 80), at * 0)
    return write_midi(Score(notes=notes, tracks=(Track("x", 0),), ticks_per_beat=480))


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory):
    """A session with three tracks of eight bars; Ardour has no function that makes regions without a window."""
    home = tmp_path_factory.mktemp("ardour")
    folder, program = home / "song", ardour()
    names = ", ".join(f'"{name}"' for name in TRACKS)
    (home / "create.lua").write_text(CREATE.format(folder=folder, names=names) + SAVE)
    around = {**os.environ, "HOME": str(home)}
    subprocess.run([program, home / "create.lua"], env=around, check=True, capture_output=True)
    midi = folder / "interchange" / "song" / "midifiles"
    midi.mkdir(parents=True, exist_ok=True)
    text, sources, regions = (folder / "song.ardour").read_text(), "", ""
    for number, (name, pitch) in enumerate(TRACKS.items(), 9000):
        (midi / f"{name}.mid").write_bytes(melody(pitch))
        sources += f'<Source name="{name}.mid" type="midi" flags="Writable" id="{number}"/>'
        facts = {"name": name, "ticks": BEATS * 1920, "source": number}
        regions += REGION.format(**facts, whole=1, id=number + 100)
        own = REGION.format(**facts, whole=0, id=number + 200)
        text = re.sub(rf'(<Playlist [^>]*name="{name}"[^>]*)/>', rf"\1>{own}</Playlist>", text)
    text = text.replace("<Sources/>", f"<Sources>{sources}</Sources>")
    (folder / "song.ardour").write_text(text.replace("<Regions/>", f"<Regions>{regions}</Regions>"))
    (home / "save.lua").write_text(
        f'load_session("{folder}", "song") {SAVE}'
    )  # as Ardour writes it
    subprocess.run([program, home / "save.lua"], env=around, check=True, capture_output=True)
    (home / "script.lua").write_text(script("musicgen_ardour.lua"))
    with started("--model", MODEL, HOME=str(home)):
        yield home


def ran(home: Path, action: str, span: str, part: str = "", tracks: str = "") -> dict[str, str]:
    """Run the script; return what was said, and where the answer was imported."""
    given = {
        "SCRIPT": home / "script.lua", "SESSION": home / "song", "KEPT": home / "new.mid",
        "ACTION": action, "PART": part, "RANGE": span, "TRACKS": tracks,
    }  # fmt: skip
    around = {**os.environ, "HOME": str(home)} | {f"MUSICGEN_{n}": str(v) for n, v in given.items()}
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
    rows = rows_of((session / "new.mid").read_bytes())
    onsets = [row[1] / rows["ticksPerBeat"] / 4 for row in rows["notes"]]
    assert onsets
    assert all(bars[0] <= bar < bars[1] for bar in onsets)
    assert ({path: path.read_bytes() for path in midi.rglob("*.mid")}, playlists(session)) == before


@pytest.mark.parametrize(
    ("action", "part", "span", "said"),
    [
        ("rewrite", "", "8-16", "Select the tracks to write, too."),
        ("accompany", "", "8-16", "Name the part to write"),
        ("accompany", "kazoo", "8-16", "There is no track or instrument '+kazoo'"),
        ("accompany", "bass", "8-8", "Select MIDI regions, or a range."),
        ("continue", "", "64-72", "begin 10 after the last with notes"),
        ("accompany", "bass", "1200-1208", "There are no notes around the selection"),
    ],
)
def test_what_is_impossible_is_said(session, action, part, span, said):
    found = ran(session, action, span, part)
    assert list(found) == ["said"]
    assert said in found["said"]
    assert not list((session / "song").glob("musicgen*"))
