"""Write new music into the MIDI file that it continues, changes or accompanies, and keep all else in the file.

New notes lie at the file's own ticks, in the tracks and on the channels of the parts that they go on with: several
tracks of one instrument that a model hears as one share them by pitch. A part that the file does not have gets a track
and a channel of its own; a file of type 0 stays one. Notes as far as half a step of the grid before the first new bar
are its notes, as the model hears them.

Where a piece goes on, the first tick of the new music is the seam. Every event before it stays as it is, to the byte.
Notes that sound there end, pedals go up, a bent pitch and a faded volume come back; tempo, instruments and all other
controllers stay in force. Time signatures follow the new bars.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from tokenization.analysis.chords import named, text_of
from tokenization.edit import Edit, NotKept, line_at, new_bars
from tokenization.midi.chunks import (
    DRUM_CHANNEL,
    END,
    LAST_TICK,
    MARKER,
    METER,
    TRACK_NAME,
    DamagedTrack,
    Event,
    Key,
    Note,
    all_events,
    encode_vlq,
    event_bytes,
    notes_of,
    split_chunks,
    text_events,
    track_chunk,
)
from tokenization.midi.reading import SUSTAIN, read_midi, set_up_programs
from tokenization.score import Notes, Score, Track

# The file as track chunks of events that can be removed and added; what is not touched keeps its bytes.

SEQUENCE_NUMBER = 0xFF00
BEFORE, AMID, AFTER = range(3)  # the kept events of a tick: notes end, signs change, notes begin
UNREAD = "the file is damaged, or holds events that are not of a MIDI file"
Added = tuple[int, int, bytes]  # tick, place among the events of the tick, bytes without the time


@dataclass
class Chunk:
    """A track chunk: its bytes and events, which of them go, and what comes to them."""

    body: bytes
    events: list[Event]
    removed: set[int | None] = field(default_factory=set)
    added: list[Added] = field(default_factory=list)

    def add(self, tick: int, place: int, status: int, data: bytes | Sequence[int]) -> None:
        """Add an event at a place among those of its tick."""
        self.added.append((tick, place, event_bytes(status, data)))

    def written(self, seam: int | None) -> bytes:
        """Return its bytes with the changes, and of its own events those before the seam."""
        if seam is None and not (self.removed or self.added):
            return self.body
        events = self.events if seam is None else [e for e in self.events if e[0] < seam]
        kept = [e for e in events if e[1] != END]
        # What precedes all that is new or gone stays as it is, running status and all.
        ticks = [event[0] for event in kept]
        new = min((event[0] for event in self.added), default=LAST_TICK + 1)
        same = min([bisect_left(ticks, new), *self.removed - {None}])  # type: ignore[type-var]
        after = self.events[same][3] if same < len(self.events) else len(self.body)
        pieces, tick = [self.body[:after]], ticks[same - 1] if same else 0
        stay = [
            (e[0], AMID, event_bytes(e[1], e[2]))
            for number, e in enumerate(kept)
            if number >= same and number not in self.removed
        ]
        changes = sorted(stay + self.added, key=lambda event: event[:2])
        for at, _, event in changes:
            pieces.append(encode_vlq(at - tick) + event)
            tick = at
        end = max(tick, self.events[-1][0]) if seam is None and self.events else tick
        return b"".join((*pieces, encode_vlq(end - tick), event_bytes(END, b"")))


def _chunk_of(body: bytes) -> Chunk:
    """Return a track taken apart; one that is damaged raises NotKept."""
    try:
        events = list(all_events(body))
    except DamagedTrack:
        raise NotKept(UNREAD) from None
    for _, status, data, _ in events:
        if (0xF0 < status < 0xFF and status != 0xF7) or (status < 0xF0 and not data.isascii()):
            raise NotKept(UNREAD)
    return Chunk(body, events)


# The new music in these tracks.

HELD_PEDALS = (SUSTAIN, 66, 69)  # sostenuto and hold too
LOUDNESS = (7, 11)  # channel volume and expression
FADED = 4  # a quarter of the loudest, or less, is a fade-out
CENTRE = (0, 64)  # of the pitch bend


class KeptMidi:
    """A MIDI file to which music was written; `edited` returns the new file once."""

    def __init__(self, edit: Edit) -> None:
        """Take the file apart, or say why it cannot be kept."""
        self.edit, self.heard = edit, edit.heard
        if not len(self.heard.file_times):
            raise NotKept("its pieces in sequence were read as one")
        found = split_chunks(edit.original, "the file")
        if found.wrong_lengths:
            raise NotKept(UNREAD)
        self._between = [*found.between]
        self.chunks = [_chunk_of(body) for body in found.bodies]
        self.is_type_0 = found.kind == 0 and len(self.chunks) == 1
        self._read_notes()

    def _read_notes(self) -> None:
        """Find the notes, and for each track of the file's score the chunk, channel and program that it is."""
        # What each channel's controllers and bends do, in time, and the programs of each chunk's channels.
        self._moves: dict[int, list[tuple[int, int, int, bytes]]] = defaultdict(list)
        self._programs: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
        self._first_with: dict[int, int] = {}  # the first chunk with an event of a status
        for number, chunk in enumerate(self.chunks):
            for tick, status, data, _ in chunk.events:
                self._first_with.setdefault(status, number)
                if 0xC0 <= status < 0xD0:
                    self._programs[number, status & 15].append((tick, data[0]))
                elif status & 0xF0 in (0xB0, 0xE0) and status < 0xF0:
                    self._moves[status & 15].append((tick, number, status, data))
        for moves in self._moves.values():
            moves.sort(key=lambda move: move[:2])  # stable: those of a chunk stay in order
        programs = set_up_programs([chunk.body for chunk in self.chunks])
        self.notes = [
            note
            for number, chunk in enumerate(self.chunks)
            for note in notes_of(number, chunk.events, programs)
        ]
        self.of_key: dict[Key, list[Note]] = defaultdict(list)
        for note in self.notes:
            self.of_key[note.key].append(note)
        self.keys = sorted(self.of_key)
        self.read = read_midi(self.edit.original)
        counts = np.bincount(self.read.notes.track, minlength=len(self.read.tracks)).tolist()
        if counts != [len(self.of_key[key]) for key in self.keys]:
            raise NotKept(UNREAD)

    def edited(self, score: Score, texts: Sequence[str] = ()) -> bytes:
        """Return the file with the new notes of a score.

        Where the piece goes on, they follow all of the file up to the seam. Elsewhere they take the place of the notes
        of the parts that were heard in these bars, or of those of the rewritten parts.
        """
        edit = self.edit
        if edit.goes_on:
            self._end_at_seam()
            beats, known = self.heard.file_times.columns
            slopes = np.diff(known) / np.diff(beats)
            if np.allclose(slopes, slopes[0], rtol=1e-6):  # the beats are the file's
                self._write_bars(score)
        elif edit.stop is None:
            self._remove(0, LAST_TICK + 1)
        else:
            self._remove(self._early(edit.start), self._early(edit.stop))
        self._write_notes(edit.new_in(score))
        return self._written(self._seam if edit.goes_on else None, texts)

    # Times.

    @property
    def _seam(self) -> int:
        return max(0, int(self.edit.tick_of(self.edit.start)))

    def _early(self, ticks: int) -> int:
        """Return the file's tick from which on notes count as those after a bar line."""
        half = ticks / self.heard.ticks_per_beat - 1 / (2 * self.edit.onset_steps)
        return int(np.ceil(line_at(half, *self.heard.file_times.columns) - 1e-6))

    # What goes.

    def _remove(self, start: int, stop: int) -> None:
        """Remove the notes of the rewritten parts that begin within ticks."""
        for source in self.edit.replaced:
            for note in self.of_key[self.keys[source]]:
                if start <= note.tick < stop:
                    self.chunks[note.key.chunk].removed |= {note.on, note.off}

    def _end_at_seam(self) -> None:
        """End what sounds at the seam; drop the notes just before it that count as after it."""
        seam, early = self._seam, min(self._seam, self._early(self.edit.start))
        for note in self.notes:
            chunk = self.chunks[note.key.chunk]
            if note.tick >= seam:
                continue
            if note.tick >= early:
                chunk.removed |= {note.on, note.off}
            elif note.off is None or note.end >= seam:
                chunk.add(seam, BEFORE, 0x80 | note.key.channel, (note.pitch, 64))
        for channel in range(16):
            self._reset(channel, seam)

    def _reset(self, channel: int, seam: int) -> None:
        """Let the pedals of a channel up at the seam; put back what is bent or faded."""
        now: dict[int, tuple[int, int]] = {}  # controllers: value, chunk
        loudest: dict[int, int] = {}
        bend, bent = CENTRE, 0
        for tick, number, status, data in self._moves[channel]:
            if tick >= seam:
                break
            if status & 0xF0 == 0xE0:
                bend, bent = (data[0], data[1]), number
            elif data[0] == 121:  # reset all controllers
                now, bend = {c: v for c, v in now.items() if c == LOUDNESS[0]}, CENTRE
            else:
                now[data[0]] = data[1], number
                loudest[data[0]] = max(loudest.get(data[0], 0), data[1])
        changes = [(c, 0, now[c][1]) for c in HELD_PEDALS if c in now and now[c][0] >= 64]
        changes += [
            (c, loudest[c], now[c][1])
            for c in LOUDNESS
            if c in now and now[c][0] <= loudest[c] // FADED < loudest[c]
        ]
        for controller, value, number in changes:
            self.chunks[number].add(seam, BEFORE, 0xB0 | channel, (controller, value))
        if bend != CENTRE:
            self.chunks[bent].add(seam, BEFORE, 0xE0 | channel, CENTRE)

    # What comes.

    def _write_bars(self, score: Score) -> None:
        """Write time signatures where the new bars are of another metre, or begin elsewhere, than the file's go on."""
        meters, seam = self.read.meters, self._seam
        row = max(0, int(np.searchsorted(meters.onset_ticks, seam, side="left")) - 1)
        since, top, low = (int(column[row]) for column in meters.columns)
        bar = 4 * self.read.ticks_per_beat * top / low
        into = ((seam - since + 1) % bar - 1) / bar  # rounding is no other bar line
        for new in new_bars(score, self.edit.start, (top, low), max(into, 0)):
            if new.is_said:
                data = bytes((new.time[0], new.time[1].bit_length() - 1, 24, 8))
                self._sign(new.start, METER, data)
        if named(self.read) or self.edit.over_chords:
            for marker in score.markers:
                if marker.onset_ticks >= self.edit.start:
                    self._sign(marker.onset_ticks, MARKER, text_of(marker).encode())

    def _sign(self, ticks: int, status: int, data: bytes) -> None:
        chunk = self.chunks[self._first_with.get(status, 0)]
        chunk.add(int(self.edit.tick_of(ticks)), AMID, status, data)

    def _write_notes(self, score: Score) -> None:
        before = self._seam if self.edit.goes_on else LAST_TICK
        pitches, gone = {}, {}  # of each track: whose program is in force there, or is not
        for source, key in enumerate(self.keys):
            kept = pitches if self._is_in_force(key, before) else gone
            kept[source] = np.array([note.pitch for note in self.of_key[key] if note.tick < before])
        played = dict(enumerate(self.read.tracks))
        for track, source, notes in self.edit.placed(score, played, pitches, gone):
            home = self._new_home(track) if source is None else self.keys[source][:2]
            self._write_to(*home, notes)

    def _is_in_force(self, key: Key, before: int) -> bool:
        """Say whether a chunk's channel has a program at the end of what is kept."""
        number, channel, program = key
        last = [found for tick, found in self._programs[number, channel] if tick < before]
        return not last or last[-1] == program

    def _new_home(self, track: Track) -> tuple[int, int]:
        """Return a new track, or in a file of type 0 a channel, for a part that the file does not have."""
        channel = self._free_channel(track)
        known = self._channels(with_notes=True)
        number, at = 0, self._seam if self.edit.goes_on else 0
        if not self.is_type_0:
            number, at = len(self.chunks), 0
            self._between.insert(number, b"")
            self.chunks.append(Chunk(b"", []))
            self.chunks[number].add(0, BEFORE, TRACK_NAME, track.name.encode())
        if channel != DRUM_CHANNEL or channel not in known:
            self.chunks[number].add(at, AMID, 0xC0 | channel, (track.program,))
        return number, channel

    def _channels(self, *, with_notes: bool) -> set[int]:
        least = 0xA0 if with_notes else 0xF0
        own = {e[1] & 15 for chunk in self.chunks for e in chunk.events if 0x80 <= e[1] < least}
        new = {e[0] & 15 for chunk in self.chunks for _, _, e in chunk.added if e[0] < 0xF0}
        return own | new

    def _free_channel(self, track: Track) -> int:
        if track.is_drum:
            return DRUM_CHANNEL
        for used in (self._channels(with_notes=False), self._channels(with_notes=True)):
            free = [channel for channel in range(16) if channel not in {*used, DRUM_CHANNEL}]
            if free:
                return free[0]
        programs: dict[int, set[int]] = defaultdict(set)
        for note in self.notes:
            programs[note.key.channel].add(note.key.program)
        alike = [c for c, used in programs.items() if used == {track.program} and c != DRUM_CHANNEL]
        if not alike:
            raise NotKept("all its channels are taken, so that there is none for a new part")
        return alike[0]

    def _write_to(self, number: int, channel: int, notes: Notes) -> None:
        """Add notes, which end where a kept one of their key begins, and end those that sound where they begin."""
        kept: dict[int, list[Note]] = defaultdict(list)
        begins: dict[int, list[int]] = defaultdict(list)
        for note in () if self.edit.goes_on else self.notes:
            gone = note.on in self.chunks[note.key.chunk].removed
            if note.key.channel == channel and not gone:
                begins[note.pitch].append(note.tick)
                if note.key.chunk == number and note.off is not None:
                    kept[note.pitch].append(note)
        for ticks in begins.values():
            ticks.sort()
        onsets, ends = self.edit.tick_of(notes.onset_ticks), self.edit.tick_of(notes.end_ticks)
        if len(ends) and ends.max() > LAST_TICK:
            raise NotKept("the new music would end later than a MIDI file can say")
        chunk = self.chunks[number]
        rows = np.stack([onsets, ends, notes.pitch, notes.velocity], axis=1)
        for on, end, pitch, velocity in rows.tolist():
            following = begins[pitch][bisect_right(begins[pitch], on) :][:1]
            end = min([max(end, on + 1), *following])
            # Notes of a key begin and end in one order.
            first = bisect_right(kept[pitch], on, key=lambda note: note.end)
            last = bisect_left(kept[pitch], on, key=lambda note: note.tick)
            for note in kept[pitch][first:last]:
                if note.off not in chunk.removed:
                    chunk.removed.add(note.off)
                    _, status, data, _ = chunk.events[note.off]  # type: ignore[index]
                    chunk.add(on, BEFORE, status, data)
            chunk.add(on, AFTER, 0x90 | channel, (pitch, velocity))
            chunk.add(end, BEFORE, 0x80 | channel, (pitch, 64))

    def _written(self, seam: int | None, texts: Iterable[str]) -> bytes:
        """Return the file with all changes and texts at its start; with a seam, of its own events those before it."""
        bodies = [chunk.written(seam) for chunk in self.chunks]
        # A sequence number stands before all else.
        first = [*islice(all_events(bodies[0]), 2)]
        place = first[1][3] if first[0][:2] == (0, SEQUENCE_NUMBER) else 0
        bodies[0] = bodies[0][:place] + text_events(texts) + bodies[0][place:]
        head, *between = self._between
        pieces = [head[:10], len(bodies).to_bytes(2, "big"), head[12:]]
        for body, after in zip(bodies, between, strict=True):
            pieces += [track_chunk(body), after]
        return b"".join(pieces)
