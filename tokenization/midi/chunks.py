"""What a MIDI file is made of: a header and track chunks, found even where the lengths they state are wrong.

Standard MIDI Files 1.0: a chunk is four letters, a length of four bytes (big-endian), a body.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    if len(data) < position + 8 or not data[position : position + 4].isalpha():
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


# A track's bytes rewritten, so that a strict reader gets all that a damaged one still says.

LAST_TICK = (1 << 28) - 2
DEFAULT_TEXT_ENCODING = "latin-1"
TRACK_NAME, MARKER, END, TEMPO, METER = 0xFF03, 0xFF06, 0xFF2F, 0xFF51, 0xFF58
DRUM_CHANNEL = 9
PITCHED_CHANNELS = [channel for channel in range(16) if channel != DRUM_CHANNEL]
SHORTEST_META = {TRACK_NAME: 0, MARKER: 0, END: 0, TEMPO: 3, METER: 2}  # those kept: their bytes
LONGEST_HANGING_BEATS = 4
ALL_OFF = (120, 123)  # controllers that silence a channel
SYSTEM_DATA_BYTES = {0xF1: 1, 0xF2: 2, 0xF3: 1}
BYTES = tuple(bytes((value,)) for value in range(256))
CLIPPED = bytes(min(value, 127) for value in range(256))

Event = tuple[int, bytes]  # tick, and status with data


@dataclass(frozen=True, kw_only=True)
class RepairedTrack:
    """A clean track body, and what it took."""

    body: bytes
    is_cut: bool  # reading stopped before the end
    clipped_events: int  # had data bytes above 127
    hanging_notes: int  # were never ended


class DamagedTrack(Exception):
    """The bytes make no sense from here on, or break off."""


def repair_track(body: bytes, ticks_per_beat: int) -> RepairedTrack:
    """Read a track as far as it makes sense, and write it cleanly."""
    events: list[Event] = []
    tick = clipped_events = 0
    is_cut = False
    try:
        for tick, status, data in track_events(body):
            if status < 0xF0 and not data.isascii():
                data = data.translate(CLIPPED)
                clipped_events += 1
            if status != END:
                events.append((tick, event_bytes(status, data)))
    except DamagedTrack:
        is_cut = True
    hanging = _hanging(events)
    if hanging:
        events = _with_ends(events, hanging, ticks_per_beat, tick)
    return RepairedTrack(
        body=serialised(events),
        is_cut=is_cut,
        clipped_events=clipped_events,
        hanging_notes=sum(hanging.values()),
    )


def track_events(body: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield tick, status and data of each event to keep, texts in UTF-8; the status of a meta event has its type.

    Raises DamagedTrack where the bytes stop making sense.
    """
    for tick, status, data, _ in all_events(body):
        if status in (TRACK_NAME, MARKER):
            data = decode_text(data).encode("utf-8")
        if status < 0xF0 or SHORTEST_META.get(status, LAST_TICK) <= len(data):
            yield tick, status, data


def all_events(body: bytes) -> Iterator[tuple[int, int, bytes, int]]:
    """Yield tick, status and data of each event, and where its bytes begin; see `track_events`."""
    position = tick = running = 0
    while position < len(body):
        first = position
        delta = body[position]
        if delta < 128:
            position += 1
        else:
            delta, position = _variable_length(body, position)
        tick += delta
        status = body[position] if position < len(body) else 0
        if status >= 0x80:
            position += 1
        else:
            status = running
        if not status or tick > LAST_TICK:
            raise DamagedTrack
        if status < 0xF0:
            running = status
            stop = position + (1 if 0xC0 <= status < 0xE0 else 2)
        elif status in (0xF0, 0xF7):
            length, position = _variable_length(body, position)
            stop = position + length
        elif status == 0xFF:
            length, start = _variable_length(body, position + 1)
            status, position, stop = 0xFF00 | body[position], start, start + length
        else:
            stop = position + SYSTEM_DATA_BYTES.get(status, 0)
        if stop > len(body):
            raise DamagedTrack
        yield tick, status, body[position:stop], first
        if status == END:
            return
        position = stop


def _variable_length(body: bytes, position: int) -> tuple[int, int]:
    """Return the number of at most four bytes at a position, and the position after it."""
    value = 0
    for place in range(position, min(position + 4, len(body))):
        byte = body[place]
        value = value << 7 | byte & 127
        if byte < 128:
            return value, place + 1
    raise DamagedTrack


def variable_length(value: int) -> bytes:
    """Write a number of up to 28 bits, seven in a byte, the highest first."""
    if value < 128:
        return bytes((value,))
    digits = [value & 127]
    while value := value >> 7:
        digits.append(value & 127 | 128)
    return bytes(reversed(digits))


def event_bytes(status: int, data: bytes | Sequence[int]) -> bytes:
    """Write an event; the status of a meta event has its type."""
    data = bytes(data)
    if status > 0xFF:
        return status.to_bytes(2, "big") + variable_length(len(data)) + data
    return BYTES[status] + (variable_length(len(data)) if status >= 0xF0 else b"") + data


def decode_text(data: bytes) -> str:
    """Read the text of an event, which names no encoding: UTF-8, Shift-JIS, else Latin-1.

    Latin-1 text is often valid Shift-JIS too: that is believed where kana or kanji prevail.
    """
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        pass
    try:
        text = data.decode("cp932")
    except UnicodeDecodeError:
        return data.decode(DEFAULT_TEXT_ENCODING)
    wide = sum("\u3040" <= letter <= "\u30ff" or "\u4e00" <= letter <= "\u9fff" for letter in text)
    other = sum(letter.isalpha() for letter in text) - wide
    return text if wide > other else data.decode(DEFAULT_TEXT_ENCODING)


def _note(event: bytes) -> tuple[int, bool] | None:
    """Return key (channel and pitch) of a note event and whether it starts one; None for others."""
    status = event[0]
    if not 0x80 <= status < 0xA0:
        return None
    return (status & 15) << 7 | event[1], status >= 0x90 and event[2] > 0


def _hanging(events: list[Event]) -> dict[int, int]:
    """Return how many notes of each key are never ended."""
    sounding: dict[int, int] = {}
    for _, event in events:
        if note := _note(event):
            key, is_start = note
            if is_start:
                sounding[key] = sounding.get(key, 0) + 1
            elif sounding.get(key):
                sounding[key] -= 1
    return {key: count for key, count in sounding.items() if count}


def _with_ends(
    events: list[Event], hanging: dict[int, int], ticks_per_beat: int, end_ticks: int
) -> list[Event]:
    """End every note of the hanging keys: where the pitch starts again, or after four beats.

    The missing end can be that of any of its notes: first-in first-out would prolong each one
    after it to the end of the next.
    """
    ended: list[Event] = []
    starts: dict[int, int] = {}

    def end(key: int, tick: int) -> None:
        if key in starts:
            stop = min(tick, starts.pop(key) + LONGEST_HANGING_BEATS * ticks_per_beat)
            ended.append((stop, bytes((0x80 | key >> 7, key & 127, 0))))

    for tick, event in events:
        note = _note(event)
        if note is None or note[0] not in hanging:
            if event[0] & 0xF0 == 0xB0 and event[1] in ALL_OFF:
                for key in [key for key in starts if key >> 7 == event[0] & 15]:
                    end(key, tick)
            ended.append((tick, event))
            continue
        key, is_start = note
        if is_start:
            end(key, tick)
            starts[key] = tick
            ended.append((tick, event))
        elif key in starts:
            del starts[key]
            ended.append((tick, event))
    for key, start in sorted(starts.items()):
        end(key, max(end_ticks, start + ticks_per_beat))
    return sorted(ended, key=lambda timed: timed[0])  # stable: ends stay before restarts


def serialised(events: list[Event]) -> bytes:
    """Write a track's events, in order, and its end."""
    pieces: list[bytes] = []
    last = 0
    for tick, event in events:
        delta = tick - last
        pieces.append(BYTES[delta] if delta < 128 else variable_length(delta))
        pieces.append(event)
        last = tick
    return b"".join((*pieces, b"\x00", END_OF_TRACK))
