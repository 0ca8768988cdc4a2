"""Limits on the size of music files, and the error for files that cannot be read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


class MidiError(ValueError):
    """A music file cannot be read; the message is one sentence that names the file."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The largest file that is accepted; checked before any array is built, the bytes before parsing."""

    bytes: int = 4 << 20
    notes: int = 500_000
    tracks: int = 256  # per channel and program in MIDI, per instrument in notation
    seconds: float = 2 * 3600
    beats: int = 25_000  # at any tempo, because the cost of processing grows with the bars
    bars: int = 300_000  # of notation, summed over its parts
    elements: int = 3_000_000  # of XML
    signs: int = 300_000  # markers in MIDI; tempos and chords in notation, with repeats unfolded

    def check(self, name: str, quantity: str, found: float) -> None:
        """Raise MidiError if a file has more of a quantity than is allowed."""
        allowed = getattr(self, quantity)
        if found > allowed:
            unit, factor = ("minutes", 60) if quantity == "seconds" else (quantity, 1)
            raise MidiError(
                f"{name} has {found / factor:,.0f} {unit}, but at most {allowed / factor:,.0f} "
                f"can be read: give a part of it"
            )


GENEROUS = Limits()  # for a user's own files
# For files uploaded by strangers.
UPLOAD = Limits(
    bytes=1 << 20,
    notes=50_000,
    tracks=64,
    seconds=20 * 60,
    beats=20_000,
    bars=100_000,
    elements=450_000,
    signs=50_000,
)
LONGEST_NAME = 80


def read_source(source: bytes | str | Path, limits: Limits, name: str | None) -> tuple[str, bytes]:
    """Return the name to use in messages, by default that of the path, and the file's bytes."""
    is_path = not isinstance(source, bytes)
    name = name or (Path(source).name or str(source) if is_path else "this file")
    name = "".join(letter if letter.isprintable() else "?" for letter in name[:LONGEST_NAME])
    data = _bytes_of(Path(source), limits, name) if is_path else source
    if len(data) > limits.bytes:
        raise MidiError(f"{name} is larger than the {limits.bytes:,} bytes that can be read")
    return name, data


def _bytes_of(path: Path, limits: Limits, name: str) -> bytes:
    """Read a file, at most one byte past the limit."""
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}: check its name and folder")
    if not path.is_file():
        raise MidiError(f"{name} is a folder or a device: give a MIDI file")
    try:
        with path.open("rb") as file:
            return file.read(limits.bytes + 1)
    except OSError as error:
        raise MidiError(f"{name} cannot be read: {error.strerror}") from error
