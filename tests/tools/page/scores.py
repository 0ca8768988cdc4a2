"""Save own files of many kinds as scores and look at them: python -m tests.tools.page.scores [--pictures FOLDER].

Prints a table of files × what a player sees: the key in fifths, the clefs of the staves, the semitones from written to
sounding pitch, triplets, the shortest note, and whether music21 and MuseScore open the score without an error. A value
that is not as a player expects is followed by what is. The exit code is 1 if there is any.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

from tests.tools.options import options
from tests.tools.page.own_files import own_files
from tokenization.formats import musicxml, notated, read_file

MUSESCORE = shutil.which("musescore3") or shutil.which("mscore") or ""
_WRONG = re.compile(r"(?i)\b(error|cannot|corrupt|incomplete|invalid|failed)")
_CLEFS = {
    ("G", "2"): "G",
    ("F", "4"): "F",
    ("C", "3"): "C",
    ("C", "4"): "C4",
    ("percussion", None): "x",
}
_OCTAVES = {"-1": "₈", "1": "⁸", None: ""}


@dataclass(frozen=True)
class Seen:
    """What a player sees in a score."""

    key: str  # in fifths, as it sounds; empty without pitched parts
    clefs: str  # of the parts, whose staves are joined
    transposed: str  # the semitones of each part that is
    triplets: bool
    shortest: str


# What a player expects of each own file.
WANTED = {
    "pop band": Seen("0", "G GF G₈ F₈ x", "", False, "eighth"),
    "quartet": Seen("1", "G G C F", "", True, "eighth"),
    "waltz": Seen("0", "GF", "", False, "eighth"),
    "12/8 blues": Seen("1", "G₈ GF F₈ x", "", False, "eighth"),
    "swing": Seen("0", "G GF F₈ x", "-14", False, "eighth"),
    "everything": Seen("-3", "GF G F₈", "", False, "eighth"),
    "type 0": Seen("0", "G G₈ F₈", "", False, "eighth"),
    "piano solo": Seen("0", "GF", "", False, "eighth"),
    "drums only": Seen("", "x", "", False, "eighth"),
    "ten tracks": Seen("-1", "G G G G G G G G₈ F₈ x", "-2 -2 -2", False, "eighth"),
    "lead sheet": Seen("0", "G", "", False, "quarter"),
    "jig": Seen("1", "G", "", False, "eighth"),
}
_TYPES = ("64th", "32nd", "16th", "eighth", "quarter", "half", "whole")


def saved(name: str) -> bytes:
    """Return an own file as the score that is saved of it; MusicXML, which would stay as it is, of its notes."""
    file = own_files()[name]
    score = read_file(file.data, name=file.name)
    if file.name.endswith(".musicxml"):
        return musicxml(score, name)
    return notated(file.data, score, name, suffix=Path(file.name).suffix)


def seen(score: bytes) -> Seen:
    """Return what a player sees in a score."""
    root = ET.fromstring(score)
    first = [part.find("measure/attributes") for part in root.iterfind("part")]
    clefs, transposed, keys = [], [], []
    for attributes in first:
        if attributes is None:
            continue
        clefs.append("".join(
            _CLEFS[clef.findtext("sign") or "", clef.findtext("line")] + _OCTAVES[clef.findtext("clef-octave-change")]
            for clef in attributes.iterfind("clef")
        ))  # fmt: skip
        semitones = int(attributes.findtext("transpose/chromatic") or 0)
        semitones += 12 * int(attributes.findtext("transpose/octave-change") or 0)
        if semitones:
            transposed.append(str(semitones))
        if (fifths := attributes.findtext("key/fifths")) is not None:
            keys.append(((int(fifths) + 7 * semitones + 5) % 12) - 5)
    types = {note.findtext("type") or "whole" for note in root.iter("note")}
    return Seen(
        key=" ".join(map(str, sorted({*keys}))),
        clefs=" ".join(clefs).strip(),
        transposed=" ".join(transposed),
        triplets=root.find(".//tuplet") is not None,
        shortest=min(types, key=_TYPES.index),
    )


def opened_by_music21(score: bytes) -> str:
    """Return an empty text if music21 reads a score, or its error."""
    import music21

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            music21.converter.parseData(score.decode(), format="musicxml")
        except Exception as error:
            return f"{type(error).__name__}: {error}"[:80]
    return ""


def opened_by_musescore(score: bytes, picture: Path) -> str:
    """Draw a score with MuseScore; return an empty text, or what it says is wrong."""
    source = picture.with_suffix(".musicxml")
    source.write_bytes(score)
    setting = {**os.environ, "QT_QPA_PLATFORM": "offscreen"}
    command = [MUSESCORE, "-r", "90", "-o", str(picture), str(source)]
    done = subprocess.run(command, env=setting, capture_output=True, text=True, timeout=120)
    wrong = [line for line in (done.stdout + done.stderr).splitlines() if _WRONG.search(line)]
    return (wrong or [f"exit code {done.returncode}"] * (done.returncode != 0) or [""])[0][:80]


def main() -> int:
    pictures = options(__doc__, pictures="").pictures
    amiss = 0
    print("| file | key | clefs | transposed | triplets | shortest | music21 | MuseScore |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(pictures or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for name, wanted in WANTED.items():
            score = saved(name)
            found = vars(seen(score))
            cells = [
                f"{value}" if value == vars(wanted)[what] else f"{value} ({vars(wanted)[what]})"
                for what, value in found.items()
            ]
            picture = folder / f"{name.replace('/', '-').replace(' ', '_')}.png"
            wrong = [
                opened_by_music21(score),
                opened_by_musescore(score, picture) if MUSESCORE else "not installed",
            ]
            amiss += seen(score) != wanted or any(one not in ("", "not installed") for one in wrong)
            print(
                f"| {name} | {' | '.join([*cells, *(one or 'opens' for one in wrong)])} |",
                flush=True,
            )
    return int(amiss > 0)


if __name__ == "__main__":
    sys.exit(main())
