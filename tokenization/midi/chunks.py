"""What a MIDI file is made of: a header and track chunks, found even where the lengths they state are wrong.

Standard MIDI Files 1.0: a chunk is four letters, a length of four bytes (big-endian), a body.
"""

from __future__ import annotations

from dataclasses import dataclass

from tokenization.midi.limits import MidiError
from tokenization.wording import counted

ZIP = b"PK\x03\x04"  # how such an archive begins

HEADER = b"MThd"
TRACK = b"MTrk"
END_OF_TRACK = b"\xff\x2f\x00"
MOST_CHUNKS = 4096
LEADING_BYTES = 4096  # how far into a file its header may start, after a wrapper or garbage

# The first bytes of what people rename to .mid, what it is, and what would work.
FOREIGN = (
    (ZIP, "a zip archive (or a compressed score)", "unpack it, or export MIDI from it"),
    (b"\x1f\x8b", "a gzip archive", "unpack it first"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", "unpack it first"),
    (b"Rar!", "a rar archive", "unpack it first"),
    (b"ID3", "an MP3 recording", "only notes can be read, not sound"),
    (b"\xff\xfb", "an MP3 recording", "only notes can be read, not sound"),
    (b"OggS", "an Ogg recording", "only notes can be read, not sound"),
    (b"fLaC", "a FLAC recording", "only notes can be read, not sound"),
    (b"RIFF", "a WAV or other RIFF file", "only notes can be read, not sound"),
    (b"FORM", "an AIFF recording", "only notes can be read, not sound"),
    (b"%PDF", "a PDF document", "export MIDI from the program that made it"),
    (b"\x89PNG", "a picture", "only MIDI files can be read"),
    (b"\xff\xd8\xff", "a picture", "only MIDI files can be read"),
    (b"<?xml", "an XML document", "if it is a score, let its name end in .musicxml"),
    (b"<!doctype", "a web page", "the download has failed: fetch the MIDI file itself"),
    (b"<html", "a web page", "the download has failed: fetch the MIDI file itself"),
)


@dataclass(frozen=True, kw_only=True)
class MidiChunks:
    """The header's fields and the bodies of the tracks, as they are in the file."""

    kind: int  # 0: one track, 1: tracks that sound together, 2: pieces in sequence
    division: int  # ticks a beat, or SMPTE frames and ticks a frame
    bodies: tuple[bytes, ...]
    remarks: tuple[str, ...]


def split_chunks(data: bytes, name: str) -> MidiChunks:
    """Return the parts of a MIDI file, or say why it is none."""
    data, remarks = _unwrapped(data, name)
    if len(data) < 14:
        raise MidiError(
            f"{name} breaks off inside its header, after {len(data)} of 14 bytes: export it again"
        )
    header_bytes, kind, track_count, division = (
        int.from_bytes(data[start:stop], "big")
        for start, stop in ((4, 8), (8, 10), (10, 12), (12, 14))
    )
    bodies, wrong_lengths = _tracks(data, 8 + header_bytes)
    if not bodies:
        raise MidiError(f"{name} has a MIDI header but no tracks after it: export it again")
    if len(bodies) > MOST_CHUNKS:
        raise MidiError(f"{name} has more than {MOST_CHUNKS:,} tracks: unite or leave out some")
    if wrong_lengths:
        remarks.append(
            f"{counted(wrong_lengths, 'chunk')} had a wrong length and was searched for."
        )
    if track_count != len(bodies):
        remarks.append(
            f"The header announces {counted(track_count, 'track')}; the file has {len(bodies)}."
        )
    if kind > 2:
        remarks.append(f"The unknown file type {kind} was read as type 1.")
        kind = 1
    return MidiChunks(kind=kind, division=division, bodies=tuple(bodies), remarks=tuple(remarks))


def _unwrapped(data: bytes, name: str) -> tuple[bytes, list[str]]:
    """Return the bytes from the header on, without a wrapper or garbage before it."""
    if data.startswith(HEADER):
        return data, []
    if not data:
        raise MidiError(f"{name} is empty (0 bytes): choose a MIDI file with notes")
    is_rmid = data.startswith(b"RIFF") and data[8:12] == b"RMID"
    if not is_rmid:
        refuse_foreign(data, name, "a MIDI file")
    found = data.find(HEADER, 0, LEADING_BYTES)
    if found < 0:
        raise MidiError(
            f"{name} is not a MIDI file: it has {len(data)} bytes and no MIDI header among them"
        )
    what = "A RIFF wrapper" if is_rmid else "Something that is not MIDI"
    return data[found:], [f"{what} of {found} bytes before the header was skipped."]


def refuse_foreign(data: bytes, name: str, wanted: str) -> None:
    """Raise where a file is of a well-known other kind than is wanted."""
    start = data.lstrip(b"\xef\xbb\xbf \t\r\n")[:16].lower()
    for magic, what, advice in FOREIGN:
        if start.startswith(magic.lower()):
            raise MidiError(f"{name} is {what}, not {wanted}: {advice}")


def _tracks(data: bytes, position: int) -> tuple[list[bytes], int]:
    """Return the track bodies and how many chunks had a wrong length."""
    bodies: list[bytes] = []
    wrong_lengths = 0
    if not _starts_chunk(data, position):
        position, wrong_lengths = _next_track(data, 8), 1
    while position + 8 <= len(data) and len(bodies) <= MOST_CHUNKS:
        stop = position + 8 + int.from_bytes(data[position + 4 : position + 8], "big")
        is_track = data.startswith(TRACK, position)
        if not _ends_chunk(data, stop):
            stop = _next_track(data, position + 8 if is_track else position + 1)
            wrong_lengths += is_track
        if is_track:
            bodies.append(data[position + 8 : stop])
        position = stop
    return bodies, wrong_lengths


def _starts_chunk(data: bytes, position: int) -> bool:
    return data[position : position + 4].isalpha() and len(data) >= position + 8


def _ends_chunk(data: bytes, stop: int) -> bool:
    """Say whether a chunk may end here: before a track, at the end, or after an end of track."""
    return stop <= len(data) and (
        stop == len(data)
        or data.startswith(TRACK, stop)
        or data.startswith(END_OF_TRACK, stop - len(END_OF_TRACK))
    )


def _next_track(data: bytes, position: int) -> int:
    found = data.find(TRACK, position)
    return found if found >= 0 else len(data)
