"""A track's bytes rewritten, so that a strict reader gets all that a damaged one still says.

What comes out has every status spelled out, data bytes below 128, no system exclusive messages,
only the meta events that a score keeps, their text in UTF-8, an end for every note, and an end
of track. Reading stops where the bytes stop making sense.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tokenization.midi.chunks import END_OF_TRACK

LAST_TICK = (1 << 28) - 2
DEFAULT_TEXT_ENCODING = "latin-1"
TRACK_NAME, MARKER, END, TEMPO, METER = 0xFF03, 0xFF06, 0xFF2F, 0xFF51, 0xFF58
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
            if status < 0xF0:
                if not data.isascii():
                    data = data.translate(CLIPPED)
                    clipped_events += 1
                events.append((tick, BYTES[status] + data))
            elif status != END:
                events.append((tick, meta_event(status, data)))
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
    """Yield tick, status and data of each event to keep; the status of a meta event has its type.

    Raises DamagedTrack where the bytes stop making sense.
    """
    for tick, status, data, _ in all_events(body):
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


def meta_event(status: int, data: bytes) -> bytes:
    """Write a meta event, its text in UTF-8."""
    if status in (TRACK_NAME, MARKER):
        data = decode_text(data).encode("utf-8")
    return status.to_bytes(2, "big") + variable_length(len(data)) + data


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
