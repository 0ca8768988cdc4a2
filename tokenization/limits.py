"""Limits on the size of music files, the error for files that cannot be read, and what a file may omit.

The MIDI standard lets a file omit its tempo and its time signature; they are added with remarks.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from tokenization.analysis.beats import DEFAULT_BEATS_PER_MINUTE, tempo_map
from tokenization.score import Columns, Meters, Score, Tempos, excerpt
from tokenization.wording import Remark

ZIP = b"PK\x03\x04"  # the first bytes of a zip archive


class MusicFileError(ValueError):
    """A music file cannot be read; the message is one sentence that names the file."""


class NoNotes(MusicFileError):
    """A music file has no notes."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The largest file that is accepted; checked before any array is built, the bytes before parsing."""

    bytes: int = 4 << 20
    xml_bytes: int = 64 << 20  # of a score as text, as much as an archive of one can hold
    notes: int = 500_000
    tracks: int = 256  # per channel and program in MIDI, per instrument in notation
    seconds: float = 2 * 3600
    beats: int = 25_000  # at any tempo, because the cost of processing grows with the bars
    bars: int = 300_000  # of notation, summed over its parts
    elements: int = 3_000_000  # of XML
    signs: int = 300_000  # markers in MIDI; tempos and chords in notation, with repeats unfolded

    def check(self, name: str, quantity: str, found: float) -> None:
        """Raise MusicFileError if a file has more of a quantity than is allowed."""
        allowed = getattr(self, quantity)
        if found > allowed:
            unit, factor = ("minutes", 60) if quantity == "seconds" else (quantity, 1)
            raise MusicFileError(
                f"{name} has {found / factor:,.0f} {unit}, but at most {allowed / factor:,.0f} "
                f"can be read: use an excerpt"
            )


GENEROUS = Limits()  # for a user's own files
# For files uploaded by strangers.
UPLOAD = Limits(
    bytes=1 << 20,
    xml_bytes=1 << 20,
    notes=50_000,
    tracks=64,
    seconds=20 * 60,
    beats=20_000,
    bars=100_000,
    elements=450_000,
    signs=50_000,
)
LONGEST_NAME = 80
_MARKS = b"\xef\xbb\xbf\xff\xfe \t\r\n"  # before the text of a file


def read_source(source: bytes | str | Path, limits: Limits, name: str | None) -> tuple[str, bytes]:
    """Return the name to use in messages, by default that of the path, and the file's bytes."""
    is_path = not isinstance(source, bytes)
    name = name or (Path(source).name or str(source) if is_path else "this file")
    name = "".join(letter if letter.isprintable() else "?" for letter in name[:LONGEST_NAME])
    data = _bytes_of(Path(source), limits, name) if is_path else source
    most = limits.xml_bytes if data[:64].lstrip(_MARKS).startswith(b"<") else limits.bytes
    if len(data) > most:
        raise MusicFileError(f"{name} is larger than the {most:,} bytes that can be read")
    return name, data


def _bytes_of(path: Path, limits: Limits, name: str) -> bytes:
    """Read a file, at most one byte past the limit."""
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}: check its name and folder")
    if not path.is_file():
        raise MusicFileError(f"{name} is a folder or a device: give a music file")
    try:
        with path.open("rb") as file:
            return file.read(max(limits.bytes, limits.xml_bytes) + 1)
    except OSError as error:
        raise MusicFileError(f"{name} cannot be read: {error.strerror}") from error


Changes = TypeVar("Changes", bound=Columns)

LONGEST_BEAT_MICROSECONDS = 0xFFFFFF  # the largest value of a MIDI tempo event
SLOWEST_BEATS_PER_MINUTE, FASTEST_BEATS_PER_MINUTE = 60e6 / LONGEST_BEAT_MICROSECONDS, 2000
DENOMINATORS = (1, 2, 4, 8, 16, 32, 64)


def complete_within(score: Score, limits: Limits, name: str) -> Score:
    """Check a score against the limits, and complete it; errors call the file `name`.

    Every note then lasts at least a tick, since drum machines end hits where they start, and there is a tempo and a
    meter at tick 0.
    """
    limits.check(name, "notes", len(score.notes))
    limits.check(name, "tracks", len(score.tracks))
    limits.check(name, "beats", score.end_ticks / score.ticks_per_beat)
    notes = score.notes.replace(duration_ticks=np.maximum(score.notes.duration_ticks, 1)).sorted()
    # Events after the last beat that is allowed are dropped, and pedals released there.
    score = excerpt(score.replace(notes=notes), 0, int(limits.beats * score.ticks_per_beat))
    score = _with_meters(_with_tempos(score))
    seconds = tempo_map(score).to_seconds(np.array(score.end_ticks / score.ticks_per_beat))
    limits.check(name, "seconds", float(seconds))
    return score


def _with_tempos(score: Score) -> Score:
    bpm = score.tempos.beats_per_minute
    possible = (bpm >= SLOWEST_BEATS_PER_MINUTE) & (bpm <= FASTEST_BEATS_PER_MINUTE)
    tempos = _usable(score.tempos, possible)
    if not len(tempos) or tempos.onset_ticks[0] > 0:
        start = "Before the first tempo" if len(tempos) else "No tempo is given:"
        default = DEFAULT_BEATS_PER_MINUTE
        score = score.remark(f"{start} {default:.0f} beats per minute were assumed.")
        tempos = Tempos.concatenate((Tempos(np.zeros(1), np.array([default])), tempos))
    return score.replace(tempos=tempos)


def _with_meters(score: Score) -> Score:
    known = (score.meters.numerator > 0) & np.isin(score.meters.denominator, DENOMINATORS)
    meters = _usable(score.meters, known)
    if len(meters) and meters.onset_ticks[0] == 0:
        return score.replace(meters=meters)
    bar_ticks = 4 * score.ticks_per_beat * meters.numerator / meters.denominator
    if len(meters) and meters.onset_ticks[0] < bar_ticks[0]:
        score = score.remark("The time signature comes late; it was moved to the start.")
        first = np.append(0, meters.onset_ticks[1:])
        return score.replace(meters=meters.replace(onset_ticks=first))
    message = "No time signature is given: 4/4 was assumed."
    if len(meters):
        message = "The first time signature comes late: 4/4 was assumed before it."
    return score.remark(Remark(message)).replace(
        meters=Meters.concatenate((Meters(np.zeros(1), np.array([4]), np.array([4])), meters))
    )


def _usable(changes: Changes, possible: np.ndarray) -> Changes:
    """Drop impossible changes, and all but the last change on each tick, which takes effect."""
    changes = changes[possible]
    return changes[np.diff(changes.columns[0], append=np.inf) > 0]
