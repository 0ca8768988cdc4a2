"""Files opened within limits: how much music one may hold, and the error that says what is wrong with one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


class MidiError(ValueError):
    """A file of music that cannot be read: one sentence, with the file's name."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What is refused beyond: by size before parsing, the rest before an array is built."""

    bytes: int = 4 << 20
    notes: int = 500_000
    tracks: int = 256  # counted by channel and program, of a written score by its instruments
    seconds: float = 2 * 3600
    beats: int = 25_000  # at any tempo: what is made from a score grows with its bars
    bars: int = 300_000  # of a written score, in all its parts together
    elements: int = 3_000_000  # of XML
    signs: int = (
        300_000  # markers of MIDI; tempos and chords of a score, as often as they are played
    )

    def check(self, name: str, quantity: str, found: float) -> None:
        """Raise where a file has more of a quantity than is allowed."""
        allowed = getattr(self, quantity)
        if found > allowed:
            unit, factor = ("minutes", 60) if quantity == "seconds" else (quantity, 1)
            raise MidiError(
                f"{name} has {found / factor:,.0f} {unit} where at most {allowed / factor:,.0f} "
                f"can be read: give a part of it"
            )


GENEROUS = Limits()  # for a user's own files
# For files of strangers.
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


def opened(source: bytes | str | Path, limits: Limits, name: str | None) -> tuple[str, bytes]:
    """Return what sentences call a file, by default by its path, and its bytes."""
    is_path = not isinstance(source, bytes)
    name = name or (Path(source).name or str(source) if is_path else "this file")
    name = "".join(letter if letter.isprintable() else "?" for letter in name[:LONGEST_NAME])
    data = _bytes_of(Path(source), limits, name) if is_path else source
    if len(data) > limits.bytes:
        raise MidiError(f"{name} is larger than the {limits.bytes:,} bytes that can be read")
    return name, data


def _bytes_of(path: Path, limits: Limits, name: str) -> bytes:
    """Return a file's bytes, one more than allowed at most."""
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}: check its name and folder")
    if not path.is_file():
        raise MidiError(f"{name} is a folder or a device: give a MIDI file")
    try:
        with path.open("rb") as file:
            return file.read(limits.bytes + 1)
    except OSError as error:
        raise MidiError(f"{name} cannot be read: {error.strerror}") from error
