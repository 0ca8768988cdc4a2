"""A MIDI file as track chunks of events that can be removed and added; what is not touched keeps its bytes."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice

from tokenization.edit import NotKept
from tokenization.midi.chunks import (
    BYTES,
    END,
    HEADER,
    LEADING_BYTES,
    TRACK,
    DamagedTrack,
    all_events,
    split_chunks,
    variable_length,
)

TEXT, SEQUENCE_NUMBER = 0xFF01, 0xFF00
BEFORE, AMID, AFTER = range(3)  # the kept events of a tick: notes end, signs change, notes begin
UNREAD = "the file is damaged, or holds events that are not of a MIDI file"
Event = tuple[int, int, bytes, int]  # tick, status, of a meta event with its type, data, first byte
Added = tuple[int, int, bytes]  # tick, place among the events of the tick, bytes without the time


@dataclass(frozen=True, kw_only=True)
class Note:
    """A note of the file: which events of a chunk begin and end it."""

    chunk: int
    channel: int
    program: int
    pitch: int
    on: int
    off: int | None
    tick: int
    end: int


@dataclass
class Chunk:
    """A track chunk: its bytes and events, which of them go, and what comes to them."""

    body: bytes
    events: list[Event]
    removed: set[int] = field(default_factory=set)
    added: list[Added] = field(default_factory=list)

    def end(self) -> int:
        """Return the tick at which it ended."""
        return self.events[-1][0] if self.events else 0

    def written(self, seam: int | None) -> bytes:
        """Return its bytes with the changes, and of its own events those before the seam."""
        if seam is None and not (self.removed or self.added):
            return self.body
        events = self.events if seam is None else [e for e in self.events if e[0] < seam]
        kept = [e for e in events if e[1] != END]
        if not self.removed and (seam is not None or not self.added):
            # What precedes all that is new stays as it is, running status and all.
            after = self.events[len(kept)][3] if len(kept) < len(self.events) else len(self.body)
            pieces, tick = [self.body[:after]], kept[-1][0] if kept else 0
            changes = sorted(self.added, key=lambda event: event[:2])
        else:
            pieces, tick = [], 0
            stay = [
                (e[0], AMID, event_bytes(e[1], e[2]))
                for number, e in enumerate(kept)
                if number not in self.removed
            ]
            changes = sorted(stay + self.added, key=lambda event: event[:2])
        for at, _, event in changes:
            pieces.append(variable_length(at - tick) + event)
            tick = at
        end = max(tick, self.end()) if seam is None else tick
        return b"".join((*pieces, variable_length(end - tick), event_bytes(END, b"")))


def event_bytes(status: int, data: bytes | Sequence[int]) -> bytes:
    """Write an event with its status."""
    data = bytes(data)
    if status > 0xFF:
        return status.to_bytes(2, "big") + variable_length(len(data)) + data
    return BYTES[status] + (variable_length(len(data)) if status >= 0xF0 else b"") + data


class Tracks:
    """The chunks of a file; all but tracks stay where they are."""

    def __init__(self, data: bytes) -> None:
        """Take a file apart; one that is damaged raises NotKept."""
        start = data.find(HEADER, 0, LEADING_BYTES)
        bodies = split_chunks(data, "the file").bodies
        data = data[start:]
        self._pieces: list[bytes | int] = [data[: 8 + int.from_bytes(data[4:8], "big")]]
        self.chunks: list[Chunk] = []
        position = len(self._pieces[0])  # type: ignore[arg-type]
        while position + 8 <= len(data) and len(self.chunks) <= len(bodies):
            stop = position + 8 + int.from_bytes(data[position + 4 : position + 8], "big")
            if data.startswith(TRACK, position):
                self._pieces.append(len(self.chunks))
                self.chunks.append(chunk_of(data[position + 8 : stop]))
            else:
                self._pieces.append(data[position:stop])
            position = stop
        self._pieces.append(data[position:])
        if position > len(data) or [chunk.body for chunk in self.chunks] != [*bodies]:
            raise NotKept(UNREAD)
        self.is_type_0 = data[8:10] == b"\x00\x00" and len(self.chunks) == 1

    def add(self) -> int:
        """Add a track after the others; return its number."""
        place = 1 + max(n for n, piece in enumerate(self._pieces) if isinstance(piece, int))
        self._pieces.insert(place, len(self.chunks))
        self.chunks.append(Chunk(b"", []))
        return len(self.chunks) - 1

    def written(self, seam: int | None, texts: Iterable[str]) -> bytes:
        """Return the file with all changes and texts at its start; with a seam, of its own events those before it."""
        said = b"".join(
            b"\x00" + event_bytes(TEXT, text.encode(errors="replace")) for text in texts
        )
        bodies = [chunk.written(seam) for chunk in self.chunks]
        # A sequence number stands before all else.
        first = [*islice(all_events(bodies[0]), 2)]
        place = first[1][3] if first[0][:2] == (0, SEQUENCE_NUMBER) else 0
        bodies[0] = bodies[0][:place] + said + bodies[0][place:]
        pieces = []
        for piece in self._pieces:
            if isinstance(piece, int):
                piece = TRACK + len(bodies[piece]).to_bytes(4, "big") + bodies[piece]
            pieces.append(piece)
        head = pieces[0]
        count = len(bodies).to_bytes(2, "big")
        return b"".join((head[:10], count, head[12:], *pieces[1:]))


def chunk_of(body: bytes) -> Chunk:
    try:
        events = list(all_events(body))
    except DamagedTrack:
        raise NotKept(UNREAD) from None
    for _, status, data, _ in events:
        if (0xF0 < status < 0xFF and status != 0xF7) or (status < 0xF0 and not data.isascii()):
            raise NotKept(UNREAD)
    return Chunk(body, events)


def notes_of(chunk: int, events: Sequence[Event], programs: dict[int, int]) -> Iterable[Note]:
    """Return the notes of a chunk, those of a key ended first-in first-out."""
    now = dict(programs)
    begun: dict[tuple[int, int], deque[int]] = defaultdict(deque)
    ends: dict[int, int] = {}
    starts: dict[int, int] = {}  # of each first event, the program
    for number, (_, status, data, _) in enumerate(events):
        kind, channel = status & 0xF0, status & 15
        if status >= 0xF0 or kind not in (0x80, 0x90, 0xC0):
            continue
        if kind == 0xC0:
            now[channel] = data[0]
        elif kind == 0x90 and data[1]:
            starts[number] = now.get(channel, 0)
            begun[channel, data[0]].append(number)
        elif begun[channel, data[0]]:
            ends[begun[channel, data[0]].popleft()] = number
    for on, program in starts.items():
        tick, status, data, _ = events[on]
        off = ends.get(on)
        yield Note(
            chunk=chunk, channel=status & 15, program=program, pitch=data[0], on=on, off=off, tick=tick,
            end=events[-1][0] if off is None else events[off][0],
        )  # fmt: skip
