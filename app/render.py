"""The child process of audio.py: MIDI on standard input, WAV on standard output.

python -m app.render SOUNDFONT MEMORY_BYTES < piece.mid > piece.wav
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

NOT_WRITTEN = 3  # how this process ends where the disk did not take the sound; it says the number of the error
HEADER = 44  # bytes of the WAV header that midirenderer writes
PEAK = 0.89  # of full scale: −1 dB
LOUDEST_GAIN = 12.0  # brings one loud note to the peak, but blows near silence up into no noise


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
