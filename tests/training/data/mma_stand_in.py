"""A stand-in for MMA, so that the tests do not need MMA itself."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from training.data import groove_set

STAND_IN = """#!{python} -SE
# Writes drums, bass and chords, as a function of seed, groove and bars, to a MIDI file of type 1.
import random, struct, sys

lines = open(sys.argv[3]).read().split("\\n")
settings = dict(line.split(" ", 1) for line in lines if line)
open(settings["Use"].split()[0]).close()  # like MMA, which reads a name up to a space
drawn = random.Random(settings["RndSeed"] + settings["Groove"])
beats = 4 * sum(line[:1].isdigit() for line in lines)
parts = [(b"Drum", 9, 0), (b"Bass", 0, 33), (b"Chord", 1, 0)][: 2 if settings["Groove"] == "Lonely" else 3]
tracks = [b"\\0\\xff\\x2f\\0"]
for name, channel, program in parts:
    data = b"\\0\\xff\\x03" + bytes([len(name)]) + name + bytes([0, 0xC0 + channel, program])
    for beat in range(beats):
        pitch = drawn.randrange(36, 60)
        data += bytes([0, 0x90 + channel, pitch, 90, 96, 0x80 + channel, pitch, 0])
    tracks.append(data + b"\\0\\xff\\x2f\\0")
with open(sys.argv[2], "wb") as file:
    file.write(b"MThd" + struct.pack(">IHHH", 6, 1, len(tracks), 96))
    for data in tracks:
        file.write(b"MTrk" + struct.pack(">I", len(data)) + data)
"""
LIBRARY = {
    "stdlib/bossa.mma": "Time 4\nDefGroove Bossa  A beat.\nDefGroove BossaSus  With strings.\n"
    "DefGroove BossaIntro  no\n",
    "stdlib/waltz.mma": "Time 3\nDefGroove Waltz  In threes.\n",
    "casio/pop.mma": "Time 4\nDefGroove Pop1  A beat.\nDefGroove Pop2 Time = 3/4.\nDefGroove PopEnd  no\n"
    "DefGroove Lonely  A duo.\n",
}


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, library: str = "lib") -> None:
    """Install the stand-in on the path, with a library of styles."""
    program = folder / "bin" / "mma"
    program.parent.mkdir()
    program.write_text(STAND_IN.format(python=sys.executable))
    program.chmod(0o755)
    for name, text in LIBRARY.items():
        (folder / library / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / library / name).write_text(text)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(groove_set, "LIBRARIES", (folder / library,))
