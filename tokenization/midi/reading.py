"""Read any MIDI file, given as a path or bytes, to a score with remarks on what was repaired or assumed.

A file is split into chunks, even if their stated lengths are wrong, and chunks into events and notes. A chunk is a
four-letter type, a four-byte big-endian length and a body (Standard MIDI Files 1.0).
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tokenization.analysis.chords import marker_in, parse
from tokenization.limits import GENEROUS, Limits, MusicFileError, complete_within, read_source
from tokenization.midi.texts import Said, texts_of
from tokenization.score import (
    FileTimes,
    KeyChanges,
    Marker,
    Meters,
    Notes,
    Pedals,
    Score,
    Tempos,
    Texts,
    Track,
)
from tokenization.wording import Remark

HEADER, HEADER_BYTES = b"MThd", 14
TRACK = b"MTrk"
END_OF_TRACK = b"\xff\x2f\x00"
MOST_CHUNKS = 4096
LEADING_BYTES = 4096  # how far into a file the header may start, after a wrapper


@dataclass(frozen=True, kw_only=True)
class MidiChunks:
    """The header's fields and the bodies of the tracks, unchanged."""

    kind: int  # 0: one track, 1: simultaneous tracks
    ticks_per_beat: int
    bodies: tuple[bytes, ...]
    between: tuple[bytes, ...]  # the bytes before, between and after the tracks
    is_damaged: bool  # a track has a wrong length


def split_chunks(data: bytes, name: str) -> MidiChunks:
    """Split a MIDI file into its header fields and tracks; raises MusicFileError if it is not one."""
    header = data.find(HEADER, 0, LEADING_BYTES)
    if header < 0:
        raise MusicFileError(
            f"{name} is not a MIDI file: it has {len(data)} bytes but no MIDI header"
        )
    data = data[header:]
    header_bytes, kind, division = (
        int.from_bytes(data[start:stop], "big") for start, stop in ((4, 8), (8, 10), (12, 14))
    )
    bodies, between, is_damaged = _tracks(data, 8 + header_bytes)
    if bodies and len(between[0]) < HEADER_BYTES:
        raise MusicFileError(f"{name} has a damaged MIDI header: export it again")
    if not bodies:
        raise MusicFileError(f"{name} has a MIDI header but no tracks after it: export it again")
    if len(bodies) > MOST_CHUNKS:
        raise MusicFileError(f"{name} has more than {MOST_CHUNKS:,} tracks: merge or remove some")
    if not 0 < division < 0x8000:
        raise MusicFileError(f"{name} counts time in seconds, not in beats: export it with beats")
    if kind == 2 and len(bodies) > 1:
        raise MusicFileError(f"{name} is a sequence of pieces (MIDI type 2): export it as type 1")
    return MidiChunks(
        kind=kind,
        ticks_per_beat=division,
        bodies=tuple(bodies),
        between=tuple(between),
        is_damaged=is_damaged,
    )


def _tracks(data: bytes, position: int) -> tuple[list[bytes], list[bytes], bool]:
    """Return the track bodies, the bytes between the tracks, and whether a track has a wrong length."""
    bodies: list[bytes] = []
    between: list[bytes] = []
    last, is_damaged = 0, False
    position = _next_track(data, position if data.startswith(TRACK, position) else 8)
    while position < len(data) and len(bodies) <= MOST_CHUNKS:
        start = position + 8
        stop = start + int.from_bytes(data[position + 4 : start], "big")
        ends_track = data.startswith(END_OF_TRACK, stop - len(END_OF_TRACK))
        if stop > len(data) or not (
            stop == len(data) or ends_track or data.startswith(TRACK, stop)
        ):
            stop, is_damaged = _next_track(data, start), True
        between.append(data[last:position])
        bodies.append(data[start:stop])
        last, position = stop, _next_track(data, stop)
    return bodies, [*between, data[last:]], is_damaged


def _next_track(data: bytes, position: int) -> int:
    found = data.find(TRACK, position)
    return found if found >= 0 else len(data)


# The events of a track, and the notes that they form.

LAST_TICK = (1 << 28) - 2
TEXT, TRACK_NAME, LYRIC, MARKER, CUE, END = 0xFF01, 0xFF03, 0xFF05, 0xFF06, 0xFF07, 0xFF2F
TEMPO, METER, KEY_SIGNATURE = 0xFF51, 0xFF58, 0xFF59
MOST_SHARPS = 7
MOST_KEYS, MOST_TEXTS = 1000, 20_000  # of a file that are read
DRUM_CHANNEL = 9
PITCHED_CHANNELS = [channel for channel in range(16) if channel != DRUM_CHANNEL]
SYSTEM_DATA_BYTES = {0xF1: 1, 0xF2: 2, 0xF3: 1}

# Tick, status (0xFF00 + type for a meta event), data, and the position of its first byte in the body.
Event = tuple[int, int, bytes, int]


class Key(NamedTuple):
    """The origin in the file of a track of its score."""

    chunk: int
    channel: int
    program: int


class DamagedTrack(Exception):
    """The bytes of a track are invalid or truncated."""


@dataclass(slots=True)
class Note:
    """A note of a chunk, with the indices and ticks of its start and end events; `off` is None without an end event."""

    key: Key
    pitch: int
    on: int
    off: int | None
    tick: int
    end: int


def notes_of(chunk: int, events: Sequence[Event], programs: Mapping[int, int]) -> list[Note]:
    """Return the notes of a chunk; notes of one channel and pitch end first-in first-out.

    If one of them has no end, all end where they start again: a missing note-off can be that of any of them, and
    first-in first-out would prolong all notes after it to the end of the next.
    """
    notes = _paired(chunk, events, programs, ())
    if hanging := {(note.key.channel, note.pitch) for note in notes if note.off is None}:
        return _paired(chunk, events, programs, hanging)
    return notes


def _paired(
    chunk: int,
    events: Sequence[Event],
    programs: Mapping[int, int],
    cut: Collection[tuple[int, int]],
) -> list[Note]:
    program = dict(programs)
    notes: list[Note] = []
    sounding: dict[tuple[int, int], deque[Note]] = defaultdict(deque)
    for number, (tick, status, data, _) in enumerate(events):
        kind, channel = status & 0xF0, status & 15
        if status >= 0xF0 or kind not in (0x80, 0x90, 0xC0):
            continue
        if kind == 0xC0:
            program[channel] = data[0]
            continue
        earlier = sounding[channel, data[0]]
        if kind == 0x90 and data[1]:
            if earlier and (channel, data[0]) in cut:
                earlier.popleft().end = tick
            key = Key(chunk, channel, program.get(channel, 0))
            notes.append(Note(key, data[0], number, None, tick, LAST_TICK))
            earlier.append(notes[-1])
        elif earlier:
            note = earlier.popleft()
            note.off, note.end = number, tick
    return notes


def set_up_programs(chunks: Iterable[Sequence[Event]]) -> dict[int, int]:
    """Return initial programs by channel, from tracks without notes, whose programs apply to all tracks."""
    programs: dict[int, int] = {}
    for events in chunks:
        if not any(0x90 <= event[1] < 0xA0 for event in events):
            for _, status, data, _ in events:
                if 0xC0 <= status < 0xD0:
                    programs.setdefault(status & 15, data[0])
    return programs


def silent_tracks(chunks: Sequence[Sequence[Event]], programs: Mapping[int, int]) -> list[Key]:
    """Return the tracks without notes: chunks with a name and a program, on a channel that no other chunk plays."""
    channels = [{event[1] & 15 for event in events if 0x80 <= event[1] < 0xF0} for events in chunks]
    plays = [any(0x90 <= event[1] < 0xA0 for event in events) for events in chunks]
    played = {c for own, has_notes in zip(channels, plays, strict=True) if has_notes for c in own}
    found: list[Key] = []
    for number, (events, own) in enumerate(zip(chunks, channels, strict=True)):
        named = any(event[1] == TRACK_NAME and event[2].strip() for event in events)
        if plays[number] or not named or len(own) != 1:
            continue
        (channel,) = own - played or [-1]
        if channel in programs and channel not in {key.channel for key in found}:
            found.append(Key(number, channel, programs[channel]))
    return found


def all_events(body: bytes) -> Iterator[Event]:
    """Yield the events of a track; raises DamagedTrack at the first invalid byte."""
    position = tick = running = 0
    while position < len(body):
        first = position
        delta = body[position]
        if delta < 128:
            position += 1
        else:
            delta, position = _decode_vlq(body, position)
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
            length, position = _decode_vlq(body, position)
            stop = position + length
        elif status == 0xFF:
            length, start = _decode_vlq(body, position + 1)
            status, position, stop = 0xFF00 | body[position], start, start + length
        else:
            stop = position + SYSTEM_DATA_BYTES.get(status, 0)
        if stop > len(body):
            raise DamagedTrack
        yield tick, status, body[position:stop], first
        if status == END:
            return
        position = stop


def _decode_vlq(body: bytes, position: int) -> tuple[int, int]:
    """Decode a variable-length quantity of at most four bytes; return it and the position after it."""
    value = 0
    for place in range(position, min(position + 4, len(body))):
        byte = body[place]
        value = value << 7 | byte & 127
        if byte < 128:
            return value, place + 1
    raise DamagedTrack


def encode_vlq(value: int) -> bytes:
    """Encode a number of up to 28 bits as a variable-length quantity."""
    if value < 128:
        return bytes((value,))
    digits = [value & 127]
    while value := value >> 7:
        digits.append(value & 127 | 128)
    return bytes(reversed(digits))


def event_bytes(status: int, data: bytes | Sequence[int]) -> bytes:
    """Encode an event without its time; a status above 0xFF is 0xFF00 + the type of a meta event."""
    data = bytes(data)
    if status > 0xFF:
        return status.to_bytes(2, "big") + encode_vlq(len(data)) + data
    return bytes((status,)) + (encode_vlq(len(data)) if status >= 0xF0 else b"") + data


def text_events(texts: Iterable[str]) -> bytes:
    """Encode texts as text events at tick 0."""
    return b"".join(b"\0" + event_bytes(TEXT, text.encode(errors="replace")) for text in texts)


def track_chunk(body: bytes) -> bytes:
    """Wrap the body of a track in a chunk."""
    return TRACK + len(body).to_bytes(4, "big") + body


def decode_text(data: bytes) -> str:
    """Decode the text of an event, whose encoding is not stated: UTF-8, Shift-JIS or Latin-1.

    Latin-1 text is often valid Shift-JIS too, so the latter is chosen only if most letters are kana or kanji.
    """
    with suppress(UnicodeDecodeError):
        return data.decode("utf-8")
    with suppress(UnicodeDecodeError):
        text = data.decode("cp932")
        japanese = sum("\u3040" <= c <= "\u30ff" or "\u4e00" <= c <= "\u9fff" for c in text)
        if 2 * japanese > sum(c.isalpha() for c in text):
            return text
    return data.decode("latin-1")


# The score of a file.

SUSTAIN, DOWN = 64, 64  # the controller, and the smallest value at which the pedal is down
MICROSECONDS_PER_MINUTE = 60e6
BLANKS = "\0 \t\r\n"
NEVER = -1  # the tick at which an unreleased pedal is released: at the end of the track
LONGEST_HANGING_BEATS = 4  # of a note without an end
CLIPPED = bytes(min(value, 127) for value in range(256))
DAMAGED = Remark("The file is damaged; it was read as far as possible.")


def read_midi(
    source: bytes | str | Path, *, limits: Limits = GENEROUS, name: str | None = None
) -> Score:
    """Read a MIDI file, given as a path or bytes; raises MusicFileError, which calls the file `name`.

    The score has one track per chunk, channel and program, also for a track that is silent, notes in canonical order
    that last at least a tick, and a tempo and a meter from tick 0 on.
    """
    name, data = read_source(source, limits, name)
    found = split_chunks(data, name)
    events = [_events(body) for body in found.bodies]
    is_damaged = found.is_damaged or any(damaged for _, damaged in events)
    score = _score([chunk for chunk, _ in events], found.ticks_per_beat, limits, name)
    if not len(score.notes):
        advice = "export it again, it is damaged" if is_damaged else "choose a file with music"
        raise MusicFileError(f"{name} contains no notes that can be read: {advice}")
    score = complete_within(score, limits, name)
    return score.remark(*[DAMAGED] * is_damaged)


def _events(body: bytes) -> tuple[list[Event], bool]:
    """Return the events of a track up to the first invalid byte, and whether there is one."""
    events: list[Event] = []
    try:
        for tick, status, data, first in all_events(body):
            if status < 0xF0 and not data.isascii():
                data = data.translate(CLIPPED)
            events.append((tick, status, data, first))
    except DamagedTrack:
        return events, True
    return events, False


def marker_of(tick: int, status: int, data: bytes) -> Marker:
    """Return a marker, or a cue point as a guess."""
    return marker_in(tick, decode_text(data), is_guess=status == CUE)


def _score(
    chunks: Sequence[Sequence[Event]], ticks_per_beat: int, limits: Limits, name: str
) -> Score:
    """Return the score of the events of all tracks, before completion."""
    starts = (0x90 <= e[1] < 0xA0 and e[2][1] > 0 for events in chunks for e in events)
    limits.check(name, "notes", sum(starts))
    programs = set_up_programs(chunks)
    notes: list[tuple[Note, int]] = []  # with their velocities
    for number, events in enumerate(chunks):
        for note in notes_of(number, events, programs):
            if note.off is None:
                note.end = min(note.end, note.tick + LONGEST_HANGING_BEATS * ticks_per_beat)
            notes.append((note, events[note.on][2][1]))
    ends: dict[Key, int] = {}  # of each track, the end of its chunk or of its last note if later
    for note, _ in notes:
        end = ends.get(note.key, chunks[note.key.chunk][-1][0])
        ends[note.key] = max(end, note.end)
    for key in silent_tracks(chunks, programs):
        ends[key] = chunks[key.chunk][-1][0]
    ends = dict(sorted(ends.items()))
    meta = [event[:3] for events in chunks for event in events if event[1] > 0xFF]
    meta.sort(key=lambda event: event[0])
    texts = [marker_of(*event) for event in meta if event[1] in (MARKER, CUE)]
    markers = [one for one in texts if not one.is_guess or parse(one.text)]
    limits.check(name, "signs", len(markers))
    limits.check(name, "tracks", len(ends))
    track_of = {key: track for track, key in enumerate(ends)}
    rows = [(n.tick, n.end - n.tick, n.pitch, v, track_of[n.key]) for n, v in notes]
    tempos = [(t, int.from_bytes(d[:3], "big")) for t, s, d in meta if s == TEMPO and len(d) > 2]
    meters = [(t, d[0], 1 << min(d[1], 8)) for t, s, d in meta if s == METER and len(d) > 1]
    keys = _keys(meta)
    names = [b"".join([e[2] for e in events if e[1] == TRACK_NAME][-1:]) for events in chunks]
    with np.errstate(divide="ignore"):
        tempo_ticks, microseconds = _array(tempos, 2)
        beats_per_minute = MICROSECONDS_PER_MINUTE / microseconds
    return Score(
        ticks_per_beat=ticks_per_beat,
        notes=Notes(*_array(rows, 5)),
        tracks=tuple(
            Track(
                decode_text(names[key.chunk]).strip(BLANKS),
                key.program,
                key.channel == DRUM_CHANNEL,
                (index,),
            )
            for index, key in enumerate(ends)
        ),
        tempos=Tempos(tempo_ticks, beats_per_minute),
        meters=Meters(*_array(meters, 3)),
        pedals=_pedals(chunks, ends, limits, name),
        markers=tuple(markers),
        key_signature=(keys[0][1], bool(keys[0][2])) if keys else None,
        key_changes=KeyChanges(*_array(keys[1:], 3)),
        texts=_texts(chunks, rows, ends),
        file_times=FileTimes(np.array([0.0, 1.0]), np.array([0.0, ticks_per_beat])),
    )


def _keys(meta: Sequence[tuple[int, int, bytes]]) -> list[tuple[int, int, int]]:
    """Return the key signatures (tick, sharps, minor) where they change."""
    stated = [
        (tick, data) for tick, status, data in meta if status == KEY_SIGNATURE and len(data) > 1
    ]
    keys = [
        (tick, data[0] - (256 if data[0] > 127 else 0), int(data[1] == 1)) for tick, data in stated
    ]
    found: list[tuple[int, int, int]] = []
    for key in keys:
        if abs(key[1]) <= MOST_SHARPS and (not found or key[1:] != found[-1][1:]):
            found.append(key)
    return found[:MOST_KEYS]


_SAID = {TEXT: "text", TRACK_NAME: "name", LYRIC: "lyric"}


def _texts(
    chunks: Sequence[Sequence[Event]], rows: Sequence[tuple[int, ...]], ends: Mapping[Key, int]
) -> Texts:
    found = (
        Said(number, tick, _SAID[status], decode_text(data))
        for number, events in enumerate(chunks)
        for tick, status, data, _ in events
        if status in _SAID
    )
    said = [*islice(found, MOST_TEXTS)]
    tracks: defaultdict[int, list[int]] = defaultdict(list)
    for track, key in enumerate(ends):
        tracks[key.chunk].append(track)
    onsets: defaultdict[int, list[int]] = defaultdict(list)
    if any(one.kind != "name" for one in said):
        for onset, _, _, _, track in rows:
            onsets[track].append(onset)
    return texts_of(said, tracks, onsets)


def _array(rows: Sequence[tuple[int, ...]], columns: int) -> np.ndarray:
    return np.array(rows, dtype=np.int64).reshape(-1, columns).T


def _pedals(
    chunks: Sequence[Sequence[Event]], ends: Mapping[Key, int], limits: Limits, name: str
) -> Pedals:
    """Return the spans in which a pedal is down.

    It applies to all tracks of its channel, or only to those of its chunk if they are drums or if the file has more
    tracks than channels, so that unrelated tracks share one.
    """
    pitched = {key[:2] for key in ends if key.channel != DRUM_CHANNEL}
    is_shared = len(pitched) <= len(PITCHED_CHANNELS)

    def reach(chunk: int, channel: int) -> tuple[int, int]:
        return (-1 if is_shared and channel != DRUM_CHANNEL else chunk), channel

    moves: dict[tuple[int, int], list[tuple[int, bool]]] = defaultdict(list)
    for number, events in enumerate(chunks):
        for tick, status, data, _ in events:
            if 0xB0 <= status < 0xC0 and data[0] == SUSTAIN:
                moves[reach(number, status & 15)].append((tick, data[1] >= DOWN))
    spans: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)  # starts and stops
    for place, of_place in moves.items():
        down = None  # since this tick
        for tick, is_down in sorted(of_place, key=lambda move: move[0]):
            if is_down and down is None:
                down = tick
            elif not is_down and down is not None:
                spans[place].append((down, tick))
                down = None
        if down is not None:
            spans[place].append((down, NEVER))
    limits.check(name, "signs", sum(len(spans[reach(*key[:2])]) for key in ends))
    rows = [
        (start, (end if stop == NEVER else stop) - start, track)
        for track, (key, end) in enumerate(ends.items())
        for start, stop in spans[reach(*key[:2])]
    ]
    pedals = Pedals(*_array(rows, 3))
    return pedals[pedals.duration_ticks > 0]
