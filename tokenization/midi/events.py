"""A MIDI file as events that can be changed: its track chunks, here lanes, and its tracks with their notes.

A lane that is not changed keeps its bytes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf

import numpy as np

from tokenization.analysis.chords import are_symbols
from tokenization.changes import Change, Reading
from tokenization.edit import NotKept
from tokenization.midi import reading as midi
from tokenization.midi.keeping import AMID, BEFORE, UNREADABLE, events_of, joined

OFF_VELOCITY = 64  # of ends that are added
MADE_HERE = b"musicgen {"  # the beginning of the text with the provenance


@dataclass(slots=True, eq=False)
class Event:
    """An event of a lane."""

    tick: int
    status: int
    data: bytes
    rank: int = AMID  # within its tick

    @property
    def channel(self) -> int:
        """Its channel; −1 without one."""
        return self.status & 15 if self.status < 0xF0 else -1


@dataclass(slots=True, eq=False)
class Lane:
    """A track chunk."""

    body: bytes
    events: list[Event]
    end: int  # the tick of its end
    after: bytes = b""  # what follows it in the file
    is_changed: bool = False

    def put(self, tick: int, rank: int, status: int, data: bytes | Sequence[int]) -> Event:
        """Add an event."""
        self.events.append(Event(tick, status, bytes(data), rank))
        self.is_changed = True
        return self.events[-1]

    def take(self, gone: Iterable[Event]) -> None:
        """Remove events."""
        removed = {id(event) for event in gone}
        if removed:
            self.events = [event for event in self.events if id(event) not in removed]
            self.is_changed = True

    def encoded(self) -> bytes:
        """Return the body."""
        if not self.is_changed:
            return self.body
        pieces, tick = [], 0
        for event in sorted(self.events, key=lambda event: (event.tick, event.rank)):
            pieces.append(midi.encode_vlq(event.tick - tick))
            pieces.append(midi.event_bytes(event.status, event.data))
            tick = event.tick
        pieces.append(midi.encode_vlq(max(0, self.end - tick)))
        return b"".join((*pieces, midi.event_bytes(midi.END, b"")))


@dataclass(slots=True, eq=False)
class Note:
    """A note with its events."""

    source: int  # the track of the file's score
    lane: Lane
    on: Event
    off: Event

    @property
    def start(self) -> int:
        """The tick at which it starts."""
        return self.on.tick

    @property
    def end(self) -> int:
        """The tick at which it ends."""
        return self.off.tick

    @property
    def pitch(self) -> int:
        """Its pitch."""
        return self.on.data[0]

    @property
    def velocity(self) -> int:
        """Its velocity."""
        return self.on.data[1]

    @property
    def key(self) -> tuple[int, int, int]:
        """Its lane, channel and pitch: notes of one key end in the order in which they start."""
        return id(self.lane), self.on.channel, self.pitch


@dataclass
class Source:
    """A track of the file's score: its lane, channel and program."""

    lane: Lane
    channel: int
    program: int
    notes: list[Note] = field(default_factory=list)


def _ends_a_note(event: Event) -> bool:
    kind = event.status & 0xF0
    return event.status < 0xF0 and (kind == 0x80 or (kind == 0x90 and not event.data[1]))


class OpenMidi:
    """A MIDI file that is changed."""

    def __init__(self, data: bytes, reading: Reading | None = None) -> None:
        """Split the file into events; raises NotKept if it cannot be kept."""
        found = midi.split_chunks(data, "the file")
        if found.is_damaged:
            raise NotKept(UNREADABLE)
        self.ticks_per_beat = found.ticks_per_beat
        self.head = found.between[0]
        chunks = [events_of(body) for body in found.bodies]
        self.lanes = [
            Lane(body, [Event(*one[:3]) for one in events if one[1] != midi.END], events[-1][0] if events else 0, after)
            for body, events, after in zip(found.bodies, chunks, found.between[1:], strict=True)
        ]  # fmt: skip
        self._read_notes(chunks)
        self.reading = reading or Reading(
            ticks_per_beat=found.ticks_per_beat,
            sources=tuple((source,) for source in range(len(self.sources))),
            file_ticks=(0.0, float(found.ticks_per_beat)),
        )
        if any(n not in range(len(self.sources)) for some in self.reading.sources for n in some):
            raise NotKept("it has other tracks than the piece that was changed")

    def _read_notes(self, chunks: Sequence[Sequence[midi.Event]]) -> None:
        """Find the notes and the tracks of the file's score; in a changed lane, each has an end and each end a note."""
        self.programs = programs = midi.set_up_programs(chunks)  # by channel, before others are set
        of_key: dict[midi.Key, list[midi.Note]] = defaultdict(list)
        for number, events in enumerate(chunks):
            for note in midi.notes_of(number, events, programs):
                of_key[note.key].append(note)
        self.sources: list[Source] = []
        missing: dict[int, Event] = {}  # ends, by their starts
        keys = sorted({*of_key, *midi.silent_tracks(chunks, programs)})
        for index, key in enumerate(keys):
            lane = self.lanes[key.chunk]
            self.sources.append(Source(lane, key.channel, key.program))
            for note in of_key[key]:
                on = lane.events[note.on]
                if note.off is not None:
                    off = lane.events[note.off]
                else:
                    end = min(
                        note.end, note.tick + midi.LONGEST_HANGING_BEATS * self.ticks_per_beat
                    )
                    data = bytes((note.pitch, OFF_VELOCITY))
                    # A note that is struck again at once ends between the two.
                    rank = BEFORE if end > note.tick else AMID
                    off = missing[id(on)] = Event(end, 0x80 | key.channel, data, rank)
                self.sources[-1].notes.append(Note(index, lane, on, off))
        ends = {id(note.off) for source in self.sources for note in source.notes}
        for lane in self.lanes:
            lane.events = [
                found
                for event in lane.events
                for found in (event, missing.get(id(event)))
                if found is not None and (id(found) in ends or not _ends_a_note(found))
            ]

    def check(self, change: Change) -> None:
        """Raise ValueError if a change begins after the end of the piece."""
        end = max(max([lane.end, *(event.tick for event in lane.events)]) for lane in self.lanes)
        if change.start and self.reading.in_file(change.start) > end:
            beats = change.start / self.reading.ticks_per_beat
            raise ValueError(f"a change begins at beat {beats:g}, after the end of the piece")

    def encoded(self, texts: Iterable[str] | None = None) -> bytes:
        """Return the file, with these texts in place of that with its provenance."""
        if not any(source.notes for source in self.sources):
            raise ValueError("no notes would be left; keep at least one")
        if texts is not None:
            first = self.lanes[0]
            first.take(
                event
                for event in first.events
                if event.status == midi.TEXT and event.data.startswith(MADE_HERE)
            )
        bodies = [lane.encoded() for lane in self.lanes]
        bodies[0] = midi.text_events(texts or ()) + bodies[0]
        return joined(self.head, bodies, [lane.after for lane in self.lanes])

    # Times and notes.

    def first_tick(self, tick: float) -> int:
        """Return the file's tick from which notes count as notes from a tick on: half a step before it."""
        return int(np.ceil(self.reading.in_file(tick - self.reading.half_step) - 1e-6))

    def within(self, change: Change, sources: Iterable[int]) -> list[Note]:
        """Return the notes of some tracks in the span of a change."""
        first = self.first_tick(change.start) if change.start else 0
        last = inf if change.stop is None else self.first_tick(change.stop)
        return [
            note for n in sources for note in self.sources[n].notes if first <= note.start < last
        ]

    def sources_of(self, tracks: Sequence[int] | None) -> list[int]:
        """Return the tracks of the file's score that some tracks of the piece play; None for all in the file."""
        if tracks is None:
            return [*range(len(self.sources))]
        self.reading.check(tracks)
        return sorted({source for track in tracks for source in self.reading.sources[track]})

    def remove(self, notes: Iterable[Note]) -> None:
        """Remove notes."""
        notes = [*notes]
        gone = {id(note) for note in notes}
        self.take(event for note in notes for event in (note.on, note.off))
        for source in self.sources:
            source.notes = [note for note in source.notes if id(note) not in gone]

    # Signs.

    def signs(self, status: int) -> list[tuple[Lane, Event]]:
        """Return the events of a kind in order of time."""
        found = [
            (lane, event) for lane in self.lanes for event in lane.events if event.status == status
        ]
        return sorted(found, key=lambda one: one[1].tick)

    def symbols(self) -> list[tuple[Lane, Event]]:
        """Return the chord symbols in order of time, guessed ones too."""
        found = sorted(
            [*self.signs(midi.MARKER), *self.signs(midi.CUE)], key=lambda one: one[1].tick
        )
        markers = [midi.marker_of(one.tick, one.status, one.data) for _, one in found]
        return [
            one for one, is_symbol in zip(found, are_symbols(markers), strict=True) if is_symbol
        ]

    def take(self, gone: Iterable[Event]) -> None:
        """Remove events."""
        removed = {id(event) for event in gone}
        for lane in self.lanes:
            lane.take(event for event in lane.events if id(event) in removed)

    # Channels and lanes.

    def shares(self, lane: Lane, channel: int, sources: Iterable[int]) -> bool:
        """Return whether other tracks than these use a channel in other lanes."""
        own = {*sources}
        return any(
            one.channel == channel and one.lane is not lane
            for number, one in enumerate(self.sources)
            if number not in own and one.notes
        )

    def give_own_channel(self, source: Source) -> None:
        """Move the events of a track that shares its channel with others to a free one."""
        used = {event.channel for lane in self.lanes for event in lane.events}
        free = [channel for channel in midi.PITCHED_CHANNELS if channel not in used]
        if not free or source.channel == midi.DRUM_CHANNEL:
            raise NotKept("it has no free channel for a track that shares its own with others")
        old, new = source.channel, free[0]
        first = min((note.start for note in source.notes), default=0)
        for lane in self.lanes:
            for event in [event for event in lane.events if event.channel == old]:
                if lane is source.lane:
                    event.status = event.status & 0xF0 | new
                elif event.status & 0xF0 in (0xB0, 0xC0, 0xE0) and event.tick <= first:  # for all
                    source.lane.put(event.tick, BEFORE, event.status & 0xF0 | new, event.data)
        for one in self.sources:
            if one.lane is source.lane and one.channel == old:
                one.channel = new
        source.lane.is_changed = True

    def own_lane(self, source: Source) -> Lane:
        """Return the lane of a track, after dividing a lane of several channels into one for each."""
        lane = source.lane
        channels = sorted({one.channel for one in self.sources if one.lane is lane})
        if len(channels) < 2:
            return lane
        at = self.lanes.index(lane) + 1
        for number, channel in enumerate(channels):
            own = Lane(
                b"", [e for e in lane.events if e.channel == channel], lane.end, is_changed=True
            )
            self.lanes.insert(at + number, own)
            lane.take(own.events)
            for one in self.sources:
                if one.lane is lane and one.channel == channel:
                    one.lane = own
                    for note in one.notes:
                        note.lane = own
        self.lanes[at + len(channels) - 1].after, lane.after = lane.after, b""
        return source.lane
