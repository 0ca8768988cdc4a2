"""Changes of the notes of a MIDI file: insert, delete, move, lengthen, transpose, velocity.

A note that is inserted, moved or lengthened gives way to the others of its key, since MIDI pairs the ends of notes with
their starts in order: it ends where the next one starts, and not before one that sounds already.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from tokenization import changes
from tokenization.analysis.chords import moved_by
from tokenization.changes import Row
from tokenization.edit import NotKept
from tokenization.midi import reading as midi
from tokenization.midi.events import OFF_VELOCITY, Event, Note, OpenMidi
from tokenization.midi.keeping import AFTER, BEFORE


def change_notes(file: OpenMidi, change: changes.ChangeNotes) -> None:
    """Insert, delete and change notes."""
    befores = [(before, after) for before, after in change.rows if before is not None]
    every = (note for source in file.sources for note in source.notes)
    taken = file.reading.notes_of([before for before, _ in befores], every)
    gone: list[Note] = []
    placed: list[Note] = []
    new = [after for before, after in change.rows if before is None and after is not None]
    onsets = [
        (before and before[0], after[0]) for before, after in change.rows if after is not None
    ]
    if starts := [onset for old, onset in onsets if onset != old]:
        _make_room(file, min(starts))
    for (before, after), notes in zip(befores, taken, strict=True):
        if after is None:
            gone += notes
        elif after[4] != before[4]:
            gone += notes
            new.append(after)
        else:
            for note in notes:
                _alter(file, note, before, after)
                if before[:3] != after[:3]:
                    placed.append(note)
    file.remove(gone)
    placed += [_inserted(file, row) for row in new]
    _place(file, placed)
    _keep_programs(file, placed)


def _keep_programs(file: OpenMidi, notes: Sequence[Note]) -> None:
    """Set the program of a note's track for it alone if another is in force where the note now starts."""
    programs: dict[tuple[int, int], list[Event]] = defaultdict(list)  # of a lane, by their status
    for lane in {id(note.lane): note.lane for note in notes}.values():
        for one in lane.events:
            if 0xC0 <= one.status < 0xD0:
                programs[id(lane), one.status].append(one)
    for note in notes:
        source, lane, on = file.sources[note.source], note.lane, note.on
        status = 0xC0 | source.channel
        known = programs[id(lane), status]
        said = sorted((one for one in known if one.tick <= on.tick), key=lambda one: (one.tick, one.rank))  # fmt: skip
        in_force = said[-1].data[0] if said else file.programs.get(source.channel, 0)
        if in_force != source.program:
            lane.take([on])
            on.rank = AFTER
            known.append(lane.put(on.tick, AFTER, status, (source.program,)))
            lane.events.append(on)
            known.append(lane.put(on.tick, AFTER, status, (in_force,)))


def _make_room(file: OpenMidi, first: int) -> None:
    """Move everything later if a note is to start before the file, as before a pickup, which becomes a full bar."""
    by = -round(float(file.reading.in_file(0)))
    if file.reading.in_file(first) > -0.5 or by <= 0:
        return
    metres = file.signs(midi.METER)
    if len(metres) > 1 and not metres[0][1].tick:
        (lane, short), (_, full) = metres[:2]
        if full.tick == file.ticks_per_beat * 4 * short.data[0] >> short.data[1]:
            lane.take([short])
            full.tick = 0
    for lane in file.lanes:
        for event in lane.events:
            if event.tick or event.status & 0xF0 in (0x80, 0x90, 0xA0):
                event.tick += by
        lane.end, lane.is_changed = lane.end + by, True
    file.reading = file.reading.later(by)


def _alter(file: OpenMidi, note: Note, before: Row, after: Row) -> None:
    """Change a note of the file as much as the row that stands for it."""
    reading, (on, off) = file.reading, (note.on, note.off)
    start, end = float(reading.onset(on.tick)), float(reading.heard(note.end))
    if by := after[0] - before[0]:
        on.tick = reading.tick_in_file(start + by)
    if longer := after[0] + after[1] - before[0] - before[1]:
        off.tick = reading.tick_in_file(end + longer)
        if off.tick <= on.tick:  # the pedal holds the note for longer than its key
            off.tick = max(on.tick + 1, reading.tick_in_file(after[0] + after[1]))
    pitch = min(127, max(0, note.pitch + after[2] - before[2]))
    velocity = min(127, max(1, on.data[1] + after[3] - before[3]))
    on.data = bytes((pitch, velocity))
    off.data = bytes((pitch, off.data[1]))
    note.lane.is_changed = True


def _inserted(file: OpenMidi, row: Row) -> Note:
    """Add a note to the source of its track that has played the nearest pitch."""
    onset, duration, pitch, velocity, track = row
    sources = file.sources_of([track])
    played = [n for n in sources if file.sources[n].notes] or sources
    if not played:
        raise NotKept(f"it has no track for the notes of track {track + 1}")
    busiest = max(played, key=lambda n: len(file.sources[n].notes))
    alike = [n for n in played if file.sources[n].program == file.sources[busiest].program]
    index = min(
        alike,
        key=lambda n: min((abs(one.pitch - pitch) for one in file.sources[n].notes), default=0),
    )
    source = file.sources[index]
    start, end = (file.reading.tick_in_file(tick) for tick in (onset, onset + duration))
    if end > midi.LAST_TICK:
        raise NotKept("a note would end after the last tick of a MIDI file")
    on = source.lane.put(start, AFTER, 0x90 | source.channel, (pitch, velocity))
    off = source.lane.put(max(end, start + 1), BEFORE, 0x80 | source.channel, (pitch, OFF_VELOCITY))  # fmt: skip
    source.notes.append(Note(index, source.lane, on, off))
    return source.notes[-1]


def _place(file: OpenMidi, notes: Sequence[Note]) -> None:
    """Make notes that were inserted or moved give way to the others of their keys."""
    placed = {id(note) for note in notes}
    of_key: dict[tuple[int, int, int], list[Note]] = defaultdict(list)
    keys = {note.key for note in notes}
    for source in file.sources:
        for note in source.notes:
            if note.key in keys and id(note) not in placed:
                of_key[note.key].append(note)
    for note in sorted(notes, key=lambda note: note.start):
        others = of_key[note.key]
        note.on.rank, note.lane.is_changed = AFTER, True
        least = max((one.end for one in others if one.start <= note.start < one.end), default=0)
        later = [one for one in others if one.start > note.start]
        most = min(
            (one.start if one.start >= least else one.end for one in later), default=midi.LAST_TICK
        )
        note.off.rank = BEFORE
        note.off.tick = max(note.start + 1, least, min(note.off.tick, most))
        others.append(note)


def transpose(file: OpenMidi, change: changes.Transpose) -> None:
    """Transpose notes, and with all of them the chord symbols."""
    by = change.semitones
    notes = [
        note for note in file.within(change, file.sources_of(change.tracks))
        if file.sources[note.source].channel != midi.DRUM_CHANNEL
    ]  # fmt: skip
    if wrong := next((note for note in notes if not 0 <= note.pitch + by < 128), None):
        raise ValueError(
            f"transposed by {by}, a note would have the pitch {wrong.pitch + by}; MIDI has 0 to 127"
        )
    for note in notes:
        for event in (note.on, note.off):
            event.data = bytes((event.data[0] + by, event.data[1]))
    _place(file, notes)
    if change.tracks is None:
        _transpose_signs(file, change)


def _transpose_signs(file: OpenMidi, change: changes.Transpose) -> None:
    """Transpose the chord symbols, and the key signatures if the whole piece is transposed."""
    first, last = file.reading.span(change)
    is_whole, flats = not change.start and change.stop is None, False
    for lane in file.lanes:
        for event in lane.events:
            if event.status == midi.KEY_SIGNATURE and is_whole and len(event.data) > 1:
                sharps, *more = event.data
                fifths = (sharps - 256 if sharps > 127 else sharps) + 7 * change.semitones
                fifths = (fifths + 5) % 12 - 5
                event.data, lane.is_changed = bytes((fifths % 256, *more)), True
                flats = flats or fifths < 0
    for lane, event in file.symbols():
        if first <= event.tick < last:
            text = midi.decode_text(event.data)
            if (moved := moved_by(text, change.semitones, flats=flats)) != text:
                event.data, lane.is_changed = moved.encode(), True


def set_velocity(file: OpenMidi, change: changes.Velocity) -> None:
    """Change velocities."""
    for note in file.within(change, file.sources_of(change.tracks)):
        note.on.data = bytes((note.pitch, change.of(note.on.data[1])))
        note.lane.is_changed = True


def delete(file: OpenMidi, change: changes.Delete) -> None:
    """Delete notes."""
    file.remove(file.within(change, file.sources_of(change.tracks)))
