"""Music as objects of pretty_midi and muspy, by way of a MIDI file: notes, tempos, metres and names go with it."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from muspy import Music
    from pretty_midi import PrettyMIDI


def to_pretty_midi(midi: bytes) -> PrettyMIDI:
    """Return a MIDI file as an object of pretty_midi."""
    from pretty_midi import PrettyMIDI

    return PrettyMIDI(BytesIO(midi))


def to_muspy(midi: bytes) -> Music:
    """Return a MIDI file as an object of muspy."""
    try:
        from muspy import from_pretty_midi
    except ModuleNotFoundError as error:
        raise ValueError("muspy is not installed: run pip install muspy") from error
    pretty = to_pretty_midi(midi)
    music = from_pretty_midi(pretty, resolution=pretty.resolution)
    music.resolution = pretty.resolution  # muspy 0.5 counts in it, and does not say so
    return music


def midi_of(music: Any) -> bytes:
    """Return an object of pretty_midi or muspy as a MIDI file."""
    library, buffer = type(music).__module__.partition(".")[0], BytesIO()
    if library == "pretty_midi" and hasattr(music, "instruments"):
        music.write(buffer)
    elif library == "muspy" and hasattr(music, "tracks"):
        from muspy import to_mido

        to_mido(music).save(file=buffer)
    else:
        raise ValueError(
            f"music is the path or the bytes of a file, a Score, a Piece, or an object of pretty_midi or muspy, "
            f"not of {type(music).__name__}"
        )
    return buffer.getvalue()
