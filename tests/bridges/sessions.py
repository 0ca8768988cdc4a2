"""Sessions of Ardour 7, made without its window."""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.bridges.projects import Project, Row
from tokenization.midi.writing import write_midi
from tokenization.score import Notes, Score, Track

TPB, TICKS = 480, 1920  # of the files, and of Ardour, in a quarter
CREATE = """\
create_session("{folder}", "song", 48000)
local map = Temporal.TempoMap.write_copy()
{changes}
Temporal.TempoMap.update(map)
local midi, audio = ARDOUR.ChanCount(ARDOUR.DataType("midi"), 1), ARDOUR.ChanCount(ARDOUR.DataType("audio"), 1)
for _, name in ipairs {{{midi}}} do
  Session:new_midi_track(midi, midi, true, ARDOUR.PluginInfo(), nil, nil, 1, name,
    ARDOUR.PresentationInfo.max_order, ARDOUR.TrackMode.Normal, true)
end
for _, name in ipairs {{{audio}}} do
  Session:new_audio_track(1, 2, nil, 1, name, ARDOUR.PresentationInfo.max_order, ARDOUR.TrackMode.Normal, true)
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


def did(home: Path, code: str) -> None:
    """Run code in Ardour's Lua."""
    (home / "code.lua").write_text(code)
    around = {**os.environ, "HOME": str(home)}
    subprocess.run([ardour(), home / "code.lua"], env=around, check=True, capture_output=True)


def _file(rows: Sequence[Row], *, is_drum: bool) -> bytes:
    at, lengths, pitches, velocities = np.array(rows, dtype=float).reshape(-1, 4).T
    ticks = [np.round(some * TPB).astype(int) for some in (at, lengths)]
    notes = Notes(*ticks, pitches.astype(int), velocities.astype(int), np.zeros(len(at), int))
    return write_midi(Score(notes=notes, tracks=(Track("x", 0, is_drum),), ticks_per_beat=TPB))


def create(home: Path, project: Project) -> Path:
    """Make a session with a region for each track; Ardour has no function that makes regions without a window."""
    folder = home / "song"
    shutil.rmtree(folder, ignore_errors=True)
    at = "Temporal.timepos_t.from_ticks({})"
    changes = [
        f"map:set_tempo(Temporal.Tempo({bpm}, {bpm}, 4), {at.format(round(project.line(bar) * TICKS))})"
        for bar, bpm in project.tempos.items()
    ] + [
        f"map:set_meter(Temporal.Meter({top}, {low}), {at.format(round(project.line(bar) * TICKS))})"
        for bar, (top, low) in project.metres.items()
    ]
    midi, audio = (
        ", ".join(f'"{name}"' for name in some) for some in (project.tracks, project.audio)
    )
    code = CREATE.format(folder=folder, changes="\n".join(changes), midi=midi, audio=audio)
    did(home, code + SAVE)
    files = folder / "interchange" / "song" / "midifiles"
    files.mkdir(parents=True, exist_ok=True)
    text, sources, regions = (folder / "song.ardour").read_text(), "", ""
    for number, (name, rows) in enumerate(project.tracks.items(), 9000):
        (files / f"{name}.mid").write_bytes(_file(rows, is_drum=name in project.on_drums))
        sources += f'<Source name="{name}.mid" type="midi" flags="Writable" id="{number}"/>'
        facts = {"name": name, "ticks": round(project.quarters * TICKS), "source": number}
        regions += REGION.format(**facts, whole=1, id=number + 100)
        own = REGION.format(**facts, whole=0, id=number + 200)
        text = re.sub(
            rf'(<Playlist [^>]*name="{re.escape(name)}"[^>]*)/>', rf"\1>{own}</Playlist>", text
        )
    text = text.replace("<Sources/>", f"<Sources>{sources}</Sources>")
    (folder / "song.ardour").write_text(text.replace("<Regions/>", f"<Regions>{regions}</Regions>"))
    did(home, f'load_session("{folder}", "song") {SAVE}')  # as Ardour writes it
    return folder
