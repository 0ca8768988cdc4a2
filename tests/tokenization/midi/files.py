"""Build MIDI files byte by byte, including invalid ones, and show what was read from them."""

from tokenization.score import Score

END = b"\x00\xff\x2f\x00"


def variable_length(value: int) -> bytes:
    """Encode a variable-length quantity."""
    groups = [value & 127]
    while value := value >> 7:
        groups.append(value & 127 | 128)
    return bytes(reversed(groups))


def event(delta: int, *data: int) -> bytes:
    """Return an event with its delta time."""
    return variable_length(delta) + bytes(data)


def on(delta: int, pitch: int = 60, velocity: int = 80, channel: int = 0) -> bytes:
    return event(delta, 0x90 | channel, pitch, velocity)


def off(delta: int, pitch: int = 60, channel: int = 0) -> bytes:
    return event(delta, 0x80 | channel, pitch, 0)


def program(delta: int, number: int, channel: int = 0) -> bytes:
    return event(delta, 0xC0 | channel, number)


def pedal(delta: int, value: int, channel: int = 0) -> bytes:
    return event(delta, 0xB0 | channel, 64, value)


def meta(delta: int, kind: int, data: bytes) -> bytes:
    return event(delta, 0xFF, kind) + variable_length(len(data)) + data


def name(text: bytes) -> bytes:
    """Return a track name at tick 0."""
    return meta(0, 0x03, text)


def tempo(delta: int, microseconds: int) -> bytes:
    return meta(delta, 0x51, microseconds.to_bytes(3, "big"))


def meter(delta: int, numerator: int, power: int) -> bytes:
    """Return a time signature whose denominator is a power of two."""
    return meta(delta, 0x58, bytes((numerator, power, 24, 8)))


def chunk(letters: bytes, body: bytes, length: int | None = None) -> bytes:
    """Return a chunk, with a wrong length if one is given."""
    return letters + (len(body) if length is None else length).to_bytes(4, "big") + body


def track(*events: bytes, end: bytes = END, length: int | None = None) -> bytes:
    return chunk(b"MTrk", b"".join(events) + end, length)


def header(kind: int = 1, tracks: int = 1, division: int = 480) -> bytes:
    fields = (kind, tracks, division)
    return chunk(b"MThd", b"".join(field.to_bytes(2, "big") for field in fields))


def midi(*tracks: bytes, kind: int = 1, division: int = 480) -> bytes:
    return header(kind, len(tracks), division) + b"".join(tracks)


def note_file(*events: bytes, **header_fields: int) -> bytes:
    """Return a file with one track: the events, then a note of one beat."""
    return midi(track(*events, on(0), off(480)), **header_fields)


NOTE = track(on(0), off(480))  # a track with one note of one beat


def rows(score: Score, track: int | None = None) -> list[tuple[int, ...]]:
    """Return (onset, duration, pitch) for the notes of one track or of all."""
    notes = score.notes if track is None else score.notes[score.notes.track == track]
    return list(zip(*(column.tolist() for column in notes.columns[:3]), strict=True))


def remarks(score: Score) -> str:
    return " ".join(score.remarks)


def sixteen_channels() -> bytes:
    """Return a type-0 file with notes on all channels, programs, a pedal, a marker and running status."""
    events = [name(b"all in one"), tempo(0, 400_000), meter(0, 3, 2), meta(0, 6, b"A_m7")]
    events += [program(0, 3 * channel, channel) for channel in range(16)]
    events += [pedal(0, 127)]
    events += [on(6, 36 + 2 * channel, 60 + channel, channel) for channel in range(16)]
    events += [event(0, 0x9F, 70, 90), event(10, 71, 91), event(10, 70, 0), event(10, 71, 0)]
    events += [off(6, 36 + 2 * channel, channel) for channel in range(16)]
    return midi(track(*events, pedal(0, 0)), kind=0, division=96)


def karaoke() -> bytes:
    """Return a file with a system exclusive message, lyrics in Shift-JIS, and many tempo changes."""
    lyrics = [meta(48, 0x05, syllable.encode("cp932")) for syllable in "さくらさくら"]
    tempos = [tempo(24, 500_000 + 1_000 * step) for step in range(40)]
    melody = [part for pitch in (69, 69, 71) * 2 for part in (on(0, pitch), off(96, pitch))]
    return midi(
        track(name("桜".encode("cp932")), event(0, 0xF0, 5, 0x7E, 0x7F, 9, 1, 0xF7), *tempos),
        track(name(b"Words"), *lyrics),
        track(name("旋律メロディ".encode("cp932")), program(0, 73, 3), *melody),
        division=96,
    )


def drums_by_name() -> bytes:
    """Return a file with drums on the wrong channel and notes of length 0."""
    hits = [part for _ in range(6) for part in (on(24, 36), off(0, 36), on(24, 42), off(0, 42))]
    bass = [part for pitch in (36, 43) * 2 for part in (on(0, pitch, 90, 2), off(96, pitch, 2))]
    return midi(
        track(name(b"Drums"), *hits), track(name(b"Bass"), program(0, 33, 2), *bass), division=96
    )
