"""Accompaniments by MMA, the Musical MIDI Accompaniment of Bob van der Poel: its styles, one of them over a chart."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tokenization.midi.reading import read_midi
from tokenization.score import Score
from training.disk import full_disk_named

PROGRAM = "mma"
LIBRARIES = (Path("/usr/share/mma/lib"), Path("/usr/local/share/mma/lib"))
SECONDS = 600  # that a file may take on a busy machine: the usual is a fifth of one
ROOM_BYTES = 1 << 20  # more than a file takes
TEMPO = 120
_QUALITIES = {
    "M": "", "m": "m", "o": "dim", "+": "aug", "7": "7", "M7": "M7", "m7": "m7", "o7": "dim7", "/o7": "m7b5",
    "sus2": "sus2", "sus4": "sus4",
}  # fmt: skip
_GROOVE = re.compile(r"^\s*DefGroove\s+(\S+)(.*)$", re.IGNORECASE | re.MULTILINE)
_TIME = re.compile(r"^\s*Time\s+(\d+)\s*$", re.IGNORECASE | re.MULTILINE)
# Not of one style from beginning to end.
_PASSING = re.compile(r"intro|end(ing)?\d*$|fill|break|count|tag|turn|1st|trad", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Style:
    """A groove of a library file."""

    file: Path
    library: str  # the file below the library, without its ending: stdlib/bossanova
    groove: str

    @property
    def name(self) -> str:
        """As files are named by it: LIBRARYFILE_GROOVE, without dots; stdlib goes unsaid."""
        library = self.library.removeprefix("stdlib/").replace("/", "-")
        return re.sub(r"[^a-z0-9_#+-]", "", f"{library}_{self.groove}".lower())


def installed() -> tuple[Path, Path]:
    """Return the program and the folder of its styles, or say how to get them."""
    program = shutil.which(PROGRAM)
    library = next((folder for folder in LIBRARIES if folder.is_dir()), None)
    if program is None or library is None:
        raise FileNotFoundError(
            "grooves are made by MMA, which is not installed here: `apt-get install mma` on Debian and Ubuntu, or "
            "https://www.mellowood.ca/mma; a set that exists is read by `musicgen data groove`"
        )
    return Path(program), library


def styles(library: Path, most: int) -> list[Style]:
    """Return the styles in 4/4 of a library, sorted, at most so many of a file."""
    found = []
    for file in sorted(library.rglob("*.mma")):
        text = file.read_text(encoding="latin-1")
        times = {int(time) for time in _TIME.findall(text)}
        if times - {4}:
            continue
        named = dict.fromkeys(
            groove
            for groove, rest in _GROOVE.findall(text)
            if not _PASSING.search(groove) and "3/4" not in rest
        )
        own = file.relative_to(library).with_suffix("").as_posix()
        found += [Style(file=file, library=own, groove=groove) for groove in list(named)[:most]]
    return found


def accompaniment(
    program: Path, style: Style, bars: Sequence[Sequence[str]], seed: int
) -> Score | None:
    """Return a style over bars of chords, one a beat, the same for a seed; None where MMA makes nothing of it."""
    # By a name of its own, since MMA takes no path with a space or a letter that is not ASCII.
    used = "musicgen-style.mma"
    lines = [f"RndSeed {seed}", f"Tempo {TEMPO}", f"Use {used}", f"Groove {style.groove}"]
    lines += [f"{number} {_bar(bar)}" for number, bar in enumerate(bars, 1)]
    with (
        tempfile.TemporaryDirectory(prefix="musicgen-") as folder,
        full_disk_named(Path(folder), "point TMPDIR to another disk"),
    ):
        source, made = Path(folder) / "in.mma", Path(folder) / "out.mid"
        (Path(folder) / used).symlink_to(style.file.resolve())
        source.write_text("\n".join(lines) + "\n", encoding="ascii")
        try:
            ended = subprocess.run(
                [program, "-f", made, source],
                cwd=folder,
                env={"HOME": folder, "PATH": os.environ.get("PATH", ""), "PYTHONHASHSEED": "0"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:  # to leave it out would make the set one of this machine
            raise ValueError(
                f"{program} took more than {SECONDS} s for {style.groove} of {style.file}; leave that file out of "
                "its library, or try on a machine with less to do"
            ) from None
        if ended.returncode != 0:  # as where there is no room, which is no fault of the style
            made.write_bytes(bytes(ROOM_BYTES))
            return None
        return read_midi(made) if made.is_file() else None


def _bar(chords: Sequence[str]) -> str:
    """Return a bar as MMA writes it: a chord a beat, `/` where it stays."""
    words, last = [], ""
    for chord in chords:
        words.append("/" if chord == last else _spelled(chord))
        last = chord
    return " ".join(words)


def _spelled(chord: str) -> str:
    root, _, quality = chord.partition("_")
    return "z" if root == "N" else root + _QUALITIES[quality]
