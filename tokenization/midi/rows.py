"""A MIDI file as rows of numbers, for programs that do not read MIDI."""

from __future__ import annotations

from typing import Any

from tokenization.midi import reading


def rows_of(data: bytes) -> dict[str, Any]:
    """Return the track chunks with their names and programs, and the notes in the file's ticks.

    A note is its track chunk, onset, duration, pitch and velocity.
    """
    found = reading.split_chunks(data, "the file")
    chunks = [list(reading.all_events(body)) for body in found.bodies]
    programs = reading.set_up_programs(chunks)
    notes = [reading.notes_of(number, events, programs) for number, events in enumerate(chunks)]
    return {
        "ticksPerBeat": found.ticks_per_beat,
        "tracks": [
            {"name": _name(events), **_sound(events, programs)} for events in chunks
        ],
        "notes": sorted(
            [note.key.chunk, note.tick, max(1, note.end - note.tick), note.pitch, events[note.on][2][1]]
            for events, own in zip(chunks, notes, strict=True)
            for note in own
        ),
    }  # fmt: skip


def _name(events: list[reading.Event]) -> str:
    """Return the name of a track chunk."""
    named = (data for _, status, data, _ in events if status == reading.TRACK_NAME)
    return reading.decode_text(next(named, b""))


def _sound(events: list[reading.Event], programs: dict[int, int]) -> dict[str, Any]:
    """Return the program of a track chunk, and whether it plays drums."""
    own = [event for event in events if event[1] < 0xF0]
    channel = own[0][1] & 15 if own else 0
    said = (data[0] for _, status, data, _ in own if status & 0xF0 == 0xC0)
    return {
        "program": next(said, programs.get(channel, 0)),
        "drum": channel == reading.DRUM_CHANNEL,
    }
