"""All events of a MIDI file, by another reader than ours, to find what a change has changed."""

import io
from collections import Counter
from typing import Any, NamedTuple

import mido

IGNORED = ("end_of_track", "text")  # text: the provenance


class Event(NamedTuple):
    """An event, or a note with its end."""

    chunk: int
    track: str  # its name
    tick: int
    kind: str
    channel: int  # −1 without one
    what: Any


def all_events(data: bytes) -> Counter[Event]:
    """Return the events of a file with their counts; notes have their key, velocity and end."""
    found: Counter[Event] = Counter()
    for number, track in enumerate(mido.MidiFile(file=io.BytesIO(data)).tracks):
        tick, sounding = 0, dict[tuple[int, int], list[tuple[int, int]]]()
        for message in track:
            tick += message.time
            channel = getattr(message, "channel", -1)
            if message.type in ("note_on", "note_off"):
                begun = sounding.setdefault((channel, message.note), [])
                if message.type == "note_on" and message.velocity:
                    begun.append((tick, message.velocity))
                elif begun:
                    start, velocity = begun.pop(0)
                    what = message.note, velocity, tick
                    found[Event(number, track.name, start, "note", channel, what)] += 1
            elif message.type not in IGNORED:
                plain = str(sorted((message.dict() | {"time": 0}).items(), key=str))
                found[Event(number, track.name, tick, message.type, channel, plain)] += 1
    return found
