"""Write new music into the MIDI file that it continues, changes or accompanies, and keep everything else in the file.

New notes use the file's ticks, and the tracks and channels of the parts that they continue. A part that is not in
the file gets its own track and channel, but a file of type 0 keeps one track. Notes up to half a grid step before the
first new bar count as notes of that bar, as they do for the model.

In a continuation, the first tick of the new music is the seam. Every event before it is kept, and notes that sound
over it do so for their length, or until their key is struck again. At the seam pedals are released, and pitch bends and
faded volumes are reset; tempo, programs and all other controllers stay in force. Time signatures follow the new bars,
and the sustain pedal goes on as before (pedalling.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from tokenization.analysis.beats import interpolate
from tokenization.analysis.chords import are_symbols, named
from tokenization.analysis.metres import bar_count, bar_lines
from tokenization.analysis.symbols import chord_texts
from tokenization.edit import Edit, NotKept, new_bars
from tokenization.midi import pedalling, reading
from tokenization.score import Marker, Notes, Score, Track, sustained

# The order within a tick: note ends, kept events and changes, note starts.
BEFORE, AMID, AFTER = range(3)
UNREADABLE = "the file is damaged or contains invalid events"
Added = tuple[int, int, bytes]  # tick, order within the tick, bytes without the time


@dataclass
class Chunk:
    """A track chunk: its bytes and events, the indices of removed events, and added events."""

    body: bytes
    events: list[reading.Event]
    removed: set[int | None] = field(default_factory=set)
    added: list[Added] = field(default_factory=list)

    def add(self, tick: int, order: int, status: int, data: bytes | Sequence[int]) -> None:
        """Add an event, ordered within its tick by `order`."""
        self.added.append((tick, order, reading.event_bytes(status, data)))

    def encoded(self, seam: int | None) -> bytes:
        """Return the changed body; with a seam, without the original events from there on."""
        if seam is None and not (self.removed or self.added):
            return self.body
        kept = [
            (event[0], AMID, reading.event_bytes(event[1], event[2]))
            for number, event in enumerate(self.events)
            if event[1] != reading.END
            and number not in self.removed
            and (seam is None or event[0] < seam)
        ]
        pieces, tick = [], 0
        for at, _, event in sorted(kept + self.added, key=lambda event: event[:2]):
            pieces.append(reading.encode_vlq(at - tick) + event)
            tick = at
        end = max(tick, self.events[-1][0]) if seam is None and self.events else tick
        return b"".join(
            (*pieces, reading.encode_vlq(end - tick), reading.event_bytes(reading.END, b""))
        )


def events_of(body: bytes) -> list[reading.Event]:
    """Split the body of a track into events; raises NotKept if it is damaged."""
    try:
        events = list(reading.all_events(body))
    except reading.DamagedTrack:
        raise NotKept(UNREADABLE) from None
    for _, status, data, _ in events:
        if (0xF0 < status < 0xFF and status != 0xF7) or (status < 0xF0 and not data.isascii()):
            raise NotKept(UNREADABLE)
    return events


# New music in these chunks.

PEDALS = (reading.SUSTAIN, 66, 69)  # 66: sostenuto, 69: hold
LOUDNESS = (7, 11)  # channel volume and expression
FADED = 4  # a channel at or below a quarter of its maximum loudness has faded out
RESET = 121  # the controller that resets all others
MOST_LATE = (
    8  # part of a beat by which a new note can wait for the end of a kept one of the same key
)
BEND, CENTRE = 0xE0, b"\x00\x40"  # the pitch bend


class KeptMidi:
    """A MIDI file that new music is written into; call `edited` once."""

    def __init__(self, edit: Edit) -> None:
        """Split the file into events; raises NotKept if it cannot be kept."""
        self.edit, self.heard = edit, edit.heard
        found = reading.split_chunks(edit.original, "the file")
        if found.is_damaged:
            raise NotKept(UNREADABLE)
        self._between = [*found.between]
        self._ringing: list[reading.Note] = []  # notes that sound over the seam
        # The ticks at which new notes start, by chunk, channel and pitch.
        self._struck = defaultdict[tuple[int, int, int], list[int]](list)
        self.chunks = [Chunk(body, events_of(body)) for body in found.bodies]
        self.is_type_0 = found.kind == 0 and len(self.chunks) == 1
        self._read_notes()

    def _read_notes(self) -> None:
        """Find the notes, and the chunk, channel and program of each track of the file's score."""
        # By channel, controllers and pitch bends in order of time: tick, chunk, status, data.
        self._controls: dict[int, list[tuple[int, int, int, bytes]]] = defaultdict(list)
        for number, chunk in enumerate(self.chunks):
            for tick, status, data, _ in chunk.events:
                if status & 0xF0 in (0xB0, 0xE0) and status < 0xF0:
                    self._controls[status & 15].append((tick, number, status, data))
        for controls in self._controls.values():
            controls.sort(key=lambda control: control[:2])  # stable within a chunk
        programs = reading.set_up_programs(chunk.events for chunk in self.chunks)
        self.notes = [
            note
            for number, chunk in enumerate(self.chunks)
            for note in reading.notes_of(number, chunk.events, programs)
        ]
        self.of_key: dict[reading.Key, list[reading.Note]] = defaultdict(list)
        for note in self.notes:
            self.of_key[note.key].append(note)
        silent = reading.silent_tracks([chunk.events for chunk in self.chunks], programs)
        self.keys = sorted({*self.of_key, *silent})
        self.read = reading.read_midi(self.edit.original)
        counts = np.bincount(self.read.notes.track, minlength=len(self.read.tracks)).tolist()
        if counts != [len(self.of_key[key]) for key in self.keys]:
            raise NotKept(UNREADABLE)

    def edited(self, score: Score, texts: Sequence[str] = (), *, alone: bool = False) -> bytes:
        """Return the file with the new notes of a score, and with texts at its start; `alone`, without its own notes.

        A continuation follows the events before the seam. Otherwise the new notes replace those of the new tracks, or
        of all that the model read, in the new bars.
        """
        edit = self.edit
        if edit.is_continuation:
            self._end_at_seam()
            beats, known = self.heard.file_times.columns
            slopes = np.diff(known) / np.diff(beats)
            if np.allclose(slopes, slopes[0], rtol=1e-6):  # the score has the beats of the file
                self._write_bars(score)
        else:
            stop = reading.LAST_TICK + 1 if edit.stop is None else self._first_tick(edit.stop)
            start = self._first_tick(edit.start) if edit.start else 0
            self._remove(start, stop)
            if edit.over_chords:
                self._replace_chords(score, start, stop)
        if alone:
            self._ringing = []
        self._write_notes(edit.new_in(score))
        if alone:
            for note in self.notes:
                self.chunks[note.key.chunk].removed |= {note.on, note.off}
        return self._encoded(self._seam if edit.is_continuation else None, texts)

    # Times.

    @property
    def _seam(self) -> int:
        return max(0, int(self.edit.tick_of(self.edit.start)))

    def _first_tick(self, bar_line: int) -> int:
        """Return the file's tick from which notes count as notes after a bar line: half a grid step before it."""
        half = bar_line / self.heard.ticks_per_beat - 1 / (2 * self.edit.onset_steps)
        return int(np.ceil(interpolate(np.array(half), *self.heard.file_times.columns) - 1e-6))

    # Removals.

    def _remove(self, start: int, stop: int) -> None:
        """Remove the notes of the replaced tracks that start in start … stop − 1."""
        for source in self.edit.replaced:
            for note in self.of_key[self.keys[source]]:
                if start <= note.tick < stop:
                    self.chunks[note.key.chunk].removed |= {note.on, note.off}

    def _replace_chords(self, score: Score, start: int, stop: int) -> None:
        """Replace the chords in start … stop − 1 by those of the score; the old ones stay in force from `stop` on."""
        texts = [
            (chunk, number, reading.marker_of(*event[:3])) for chunk in self.chunks
            for number, event in enumerate(chunk.events) if event[1] in (reading.MARKER, reading.CUE)
        ]  # fmt: skip
        kinds = are_symbols([marker for *_, marker in texts])
        for (chunk, number, marker), is_symbol in zip(texts, kinds, strict=True):
            if is_symbol and start <= marker.onset_ticks < stop:
                chunk.removed.add(number)
        own = {marker.onset_ticks for marker in named(self.read)}
        last = None
        for marker, text in chord_texts(score, score.markers):
            at = int(self.edit.tick_of(marker.onset_ticks))
            returns = own and at not in own and marker.onset_ticks == self.edit.stop
            if (self.edit.holds(marker.onset_ticks) and text != last) or returns:
                self._add_chord(marker, text)
            last = text if self.edit.holds(marker.onset_ticks) else None

    def _end_at_seam(self) -> None:
        """Reset channels at the seam; remove notes before it that count as after it; find those that sound over it."""
        seam, first = self._seam, min(self._seam, self._first_tick(self.edit.start))
        for note in self.notes:
            chunk = self.chunks[note.key.chunk]
            if note.tick >= seam:
                continue
            if note.tick >= first:
                chunk.removed |= {note.on, note.off}
            elif note.end >= seam and note.off is None:
                chunk.add(seam, BEFORE, 0x80 | note.key.channel, (note.pitch, 64))
            elif note.end >= seam:
                self._ringing.append(note)
        for channel in range(16):
            self._reset(channel, seam)

    def _reset(self, channel: int, seam: int) -> None:
        """At the seam, release the pedals of a channel and restore its pitch and its volume if it has faded."""
        state: dict[int, tuple[bytes, int]] = {}  # by controller, or BEND: last event, chunk
        loudest: dict[int, int] = {}
        for tick, number, status, data in self._controls[channel]:
            if tick >= seam:
                break
            control = BEND if status & 0xF0 == BEND else data[0]
            if control == RESET:
                state = {c: last for c, last in state.items() if c == LOUDNESS[0]}
            else:
                state[control] = data, number
                loudest[control] = max(loudest.get(control, 0), data[1])
        for control, (data, number) in state.items():
            add, loud = self.chunks[number].add, loudest[control]
            if control == BEND and data != CENTRE:
                add(seam, BEFORE, BEND | channel, CENTRE)
            if control in PEDALS and data[1] >= 64:
                add(seam, BEFORE, 0xB0 | channel, (control, 0))
            if control in LOUDNESS and data[1] <= loud // FADED < loud:
                add(seam, BEFORE, 0xB0 | channel, (control, loud))

    # Additions.

    def _write_bars(self, score: Score) -> None:
        """Write time signatures where the new bars deviate from the file's metre or bar lines, and chords."""
        meters, seam = self.read.meters, self._seam
        row = max(0, int(np.searchsorted(meters.onset_ticks, seam, side="left")) - 1)
        since, top, low = (int(column[row]) for column in meters.columns)
        bars_since = (seam - since) * low / (4 * self.read.ticks_per_beat * top)
        on_bar_line = abs(bars_since - round(bars_since)) < 0.01
        for new in new_bars(score, self.edit.start, (top, low), on_bar_line=on_bar_line):
            if new.shows_time:
                data = bytes((new.time[0], new.time[1].bit_length() - 1, 24, 8))
                self._add_meta(new.start, reading.METER, data)
        if named(self.read) or self.edit.over_chords:
            for marker, text in chord_texts(score, score.markers):
                if marker.onset_ticks >= self.edit.start:
                    self._add_chord(marker, text)

    def _add_chord(self, marker: Marker, text: str) -> None:
        status = reading.CUE if marker.is_guess else reading.MARKER
        self._add_meta(marker.onset_ticks, status, text.encode())

    def _add_meta(self, ticks: int, status: int, data: bytes) -> None:
        self.chunks[0].add(int(self.edit.tick_of(ticks)), AMID, status, data)

    def _write_notes(self, score: Score) -> None:
        before = self._seam if self.edit.is_continuation else reading.LAST_TICK
        pitches = {
            source: np.array([note.pitch for note in self.of_key[key] if note.tick < before])
            for source, key in enumerate(self.keys)
        }
        sources = dict(enumerate(self.read.tracks))
        pedals = self._press_pedals(score) if self.edit.is_continuation else {}
        for track, source, notes in self.edit.assign(score, sources, pitches):
            if source is None:
                target = self._new_target(track)
            else:
                target = self.keys[source][:2]
                self._set_program(self.keys[source], before)
            ends = np.maximum(self.edit.tick_of(notes.end_ticks), 0)
            if source is not None and (spans := pedals.get(target[1])) is not None:
                own = (self.read.notes.track == source) & (self.read.notes.onset_ticks < before)
                given = [one.notes.duration_ticks[own] for one in (self.read, sustained(self.read))]
                onsets = self.edit.tick_of(notes.onset_ticks)
                ends = pedalling.released(onsets, ends, spans, given)
            self._write_to(*target, notes, ends)
        for note in self._ringing:
            chunk, channel = note.key[:2]
            end = min([note.end, *self._struck[chunk, channel, note.pitch]])
            self.chunks[chunk].add(end, BEFORE, 0x80 | channel, (note.pitch, 64))

    def _set_program(self, key: reading.Key, before: int) -> None:
        """Set the program of a track that is silent before a tick, if the file sets it only from there on."""
        if any(note.tick < before for note in self.of_key[key]):
            return
        said = [
            event
            for chunk in self.chunks
            for event in chunk.events
            if event[1] == 0xC0 | key.channel
        ]
        in_force = [data[0] for tick, _, data, _ in sorted(said) if tick < before][-1:] or [0]
        if in_force != [key.program]:
            self.chunks[key.chunk].add(before, AMID, 0xC0 | key.channel, (key.program,))

    def _press_pedals(self, score: Score) -> dict[int, pedalling.Spans]:
        """Press and release the sustain pedals of the file in the new bars, and return when, by channel."""
        lines = bar_lines(score, bar_count(score))
        bars, lines = int(np.searchsorted(lines, self.edit.start)), self.edit.tick_of(lines)
        chords = [marker.onset_ticks for marker in score.markers]
        changes, beat = self.edit.tick_of(np.array(chords, np.int64)), self.read.ticks_per_beat
        found: dict[int, pedalling.Spans] = {}
        for source, key in enumerate(self.keys):
            channel, pedals = key.channel, self.read.pedals
            given = pedals[(pedals.track == source) & (pedals.onset_ticks < self._seam)]
            presses = [n for _, n, _, data in self._controls[channel] if data[0] == reading.SUSTAIN]
            if channel in found or not len(given) or not presses:
                continue
            ends = np.minimum(given.onset_ticks + given.duration_ticks, self._seam)
            spans = pedalling.continued((given.onset_ticks, ends), lines, bars, changes, beat)
            found[channel] = spans
            add = self.chunks[presses[0]].add
            for down, up in zip(*(ticks.tolist() for ticks in spans), strict=True):
                add(down, AMID, 0xB0 | channel, (reading.SUSTAIN, 127))
                add(up, BEFORE, 0xB0 | channel, (reading.SUSTAIN, 0))
        return found

    def _new_target(self, track: Track) -> tuple[int, int]:
        """Return the chunk and channel for a new part; a file of type 0 gets no new chunk."""
        own = {key.channel for key in self.keys}
        new = {
            event[0] & 15 for chunk in self.chunks for *_, event in chunk.added if event[0] < 0xF0
        }
        free = {*reading.PITCHED_CHANNELS} - own - new
        if not (track.is_drum or free):
            raise NotKept("it has no free channel for a new part")
        channel = reading.DRUM_CHANNEL if track.is_drum else min(free)
        number, at = 0, self._seam if self.edit.is_continuation else 0
        if not self.is_type_0:
            number, at = len(self.chunks), 0
            self._between.insert(number, b"")
            self.chunks.append(Chunk(b"", []))
            self.chunks[number].add(0, BEFORE, reading.TRACK_NAME, track.name.encode())
        if channel not in own:
            self.chunks[number].add(at, AMID, 0xC0 | channel, (track.program,))
        return number, channel

    def _write_to(self, number: int, channel: int, notes: Notes, ends: np.ndarray) -> None:
        """Add notes to a chunk; of one key, new notes end where kept ones start, and start where kept ones end.

        A new note is left out if that would delay it audibly, or move it past the new bars.
        """
        # The rest that completes a pickup is before the start of the file.
        onsets = np.maximum(self.edit.tick_of(notes.onset_ticks), 0)
        if len(ends) and ends.max() > reading.LAST_TICK:
            raise NotKept("the new music would end after the last tick of a MIDI file")
        chunk = self.chunks[number]
        kept = defaultdict[int, list[reading.Note]](list)  # by pitch
        for note in () if self.edit.is_continuation else self.notes:
            if note.key[:2] == (number, channel) and note.on not in chunk.removed:
                kept[note.pitch].append(note)
        rows = np.stack([onsets, ends, notes.pitch, notes.velocity], axis=1)
        most_late, edit_stop = self.read.ticks_per_beat // MOST_LATE, self.edit.stop
        first_after = reading.LAST_TICK if edit_stop is None else self._first_tick(edit_stop)
        for on, end, pitch, velocity in rows[np.argsort(onsets, kind="stable")].tolist():
            before = [note.end for note in kept[pitch] if note.tick <= on < note.end]
            start, stop = max([on, *before]), max(end, on + 1)
            later = [note.tick for note in kept[pitch] if note.tick > start]
            late = start > on and (start - on > most_late or start >= first_after)
            if late or start >= (stop := min([stop, *later])):
                continue
            self._struck[number, channel, pitch].append(start)
            chunk.add(start, AFTER, 0x90 | channel, (pitch, velocity))
            chunk.add(stop, BEFORE, 0x80 | channel, (pitch, 64))

    def _encoded(self, seam: int | None, texts: Iterable[str]) -> bytes:
        """Return the changed file with texts at its start; with a seam, without the original events from there on."""
        bodies = [chunk.encoded(seam) for chunk in self.chunks]
        bodies[0] = reading.text_events(texts) + bodies[0]
        return joined(self._between[0], bodies, self._between[1:])


def joined(head: bytes, bodies: Sequence[bytes], after: Sequence[bytes]) -> bytes:
    """Return a file with the header `head` and these tracks, each with what follows it; several play at once."""
    kind = head[8:10] if len(bodies) == 1 else (1).to_bytes(2, "big")
    tracks = zip(map(reading.track_chunk, bodies), after, strict=True)
    return b"".join((head[:8], kind, len(bodies).to_bytes(2, "big"), head[12:], *chain(*tracks)))
