"""Changes of the signs of a MIDI file, tempo, key and metre, and of its time: bars that are cut out."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from math import inf

from tokenization import changes
from tokenization.analysis.chords import are_sections, parse
from tokenization.changes import Change
from tokenization.edit import NotKept
from tokenization.limits import LONGEST_BEAT_MICROSECONDS
from tokenization.midi import reading as midi
from tokenization.midi.events import Event, Lane, OpenMidi
from tokenization.midi.keeping import AMID, BEFORE, CENTRE, PEDALS

USUAL_BEAT = 500_000  # microseconds, before the first tempo
METRONOME = bytes((24, 8))  # clocks per click, and 32nd notes per quarter
USUAL = {  # what is in force before the first sign
    midi.TEMPO: Event(0, midi.TEMPO, USUAL_BEAT.to_bytes(3, "big")),
    midi.METER: Event(0, midi.METER, bytes((4, 2)) + METRONOME),
    midi.KEY_SIGNATURE: Event(0, midi.KEY_SIGNATURE, bytes(2)),
}
Signs = Sequence[tuple[Lane, Event]]
# What sets up a file or a track at its start, and stays there if its first bars are cut.
SET_UP = {0xF0, 0xF7, 0xFF00, midi.TEXT, 0xFF02, midi.TRACK_NAME, 0xFF04, 0xFF20, 0xFF21, 0xFF54, 0xFF7F}  # fmt: skip


def _set(file: OpenMidi, status: int, change: Change, new: Iterable[tuple[int, bytes]]) -> None:
    """Put signs in place of those of their kind in the span of a change."""
    _clear(file, change, file.signs(status), BEFORE, USUAL[status])
    for tick, data in new:
        file.lanes[0].put(tick, BEFORE, status, data)


def _clear(
    file: OpenMidi, change: Change, old: Signs, rank: int, usual: Event | None = None
) -> None:
    """Remove signs of one kind in the span of a change; what was in force returns after it."""
    first, last = file.reading.span(change)
    in_force = next((event for _, event in reversed(old) if event.tick < last), usual)
    if in_force and last < inf and not any(event.tick == last for _, event in old):
        file.lanes[0].put(int(last), rank, in_force.status, in_force.data)
    file.take(event for _, event in old if first <= event.tick < last)


def set_tempo(file: OpenMidi, change: changes.Tempo) -> None:
    """Set or scale tempos."""
    first, last = file.reading.span(change)
    tempos = [(one.tick, int.from_bytes(one.data[:3], "big")) for _, one in file.signs(midi.TEMPO)]
    if change.times is not None:
        in_force = [beat for tick, beat in tempos if tick <= first][-1:] or [USUAL_BEAT]
        inside = [(tick, beat) for tick, beat in tempos if first < tick < last]
        new = [(tick, beat / change.times) for tick, beat in [(first, in_force[0]), *inside]]
    else:
        # The file's ticks of a beat are its own, unless its beats were found in its notes.
        reading, bpm = file.reading, change.bpm or USUAL_BEAT
        knots = [] if reading.keeps_beats else [t for t in reading.file_ticks if first < t < last]
        new = []
        for tick in [first, *(round(knot) for knot in knots)]:
            at = float(reading.heard(tick))
            length = float(reading.in_file(at + reading.ticks_per_beat) - reading.in_file(at))
            new.append((tick, midi.MICROSECONDS_PER_MINUTE / bpm * file.ticks_per_beat / length))
    _set(file, midi.TEMPO, change, [
        (tick, max(1, min(LONGEST_BEAT_MICROSECONDS, round(beat))).to_bytes(3, "big")) for tick, beat in new
    ])  # fmt: skip


def set_key(file: OpenMidi, change: changes.Key) -> None:
    """Set the key signature."""
    data = bytes((change.fifths % 256, change.minor))
    _set(file, midi.KEY_SIGNATURE, change, [(file.reading.span(change)[0], data)])


def set_metre(file: OpenMidi, change: changes.Metre) -> None:
    """Set the time signature; raises NotKept if the beats of the piece are not those of the file."""
    if not file.reading.keeps_beats:
        raise NotKept("its beats are not those of the piece")
    data = bytes((change.beats, change.unit.bit_length() - 1)) + METRONOME
    _set(file, midi.METER, change, [(file.reading.span(change)[0], data)])


def set_chords(file: OpenMidi, change: changes.Chords) -> None:
    """Put chord symbols in place of those of a span; what was in force returns after it."""
    _clear(file, change, file.symbols(), AMID)
    texts = [midi.decode_text(one.data) for _, one in file.signs(midi.MARKER)]
    texts = [text for text in texts if parse(text) is not None]
    new = [*zip(change.ticks, change.symbols, change.guesses, strict=True)]
    texts += [text for _, text, is_guess in new if not is_guess]
    more = "maj" if are_sections(texts) else ""  # not a name of a section
    for tick, text, is_guess in new:
        status = midi.CUE if is_guess else midi.MARKER
        text += more if len(text) == 1 else ""
        file.lanes[0].put(file.reading.tick_in_file(tick), AMID, status, text.encode())


def cut(file: OpenMidi, change: changes.Cut) -> None:
    """Remove a span of time."""
    start, stop = file.reading.span(change)
    first = file.first_tick(change.start) if change.start else 0
    last = inf if change.stop is None else file.first_tick(change.stop)
    every = [note for source in file.sources for note in source.notes]
    file.remove(note for note in every if first <= note.start < last)
    by, of_notes = stop - start, set[int]()
    for note in (note for source in file.sources for note in source.notes):
        of_notes |= {id(note.on), id(note.off)}
        if note.start >= last:
            for event in (note.on, note.off):
                event.tick = max(0, int(event.tick - by))
        elif note.off.tick > start:
            note.off.tick, note.off.rank = start, BEFORE
            note.lane.is_changed = True
    symbols = {id(event) for _, event in file.symbols()}
    for lane in file.lanes:
        _cut_lane(lane, start, stop, of_notes, symbols)
    if change.stop is not None:
        file.reading = file.reading.without(change.start, change.stop)


def _cut_lane(lane: Lane, start: int, stop: float, of_notes: set[int], symbols: set[int]) -> None:
    """Remove the events of a span that are not of notes; the states that they set remain in force after it."""
    left: list[Event] = []
    held: dict[tuple[int, ...], Event] = {}
    for event in sorted(lane.events, key=lambda event: event.tick):  # stable
        if id(event) in of_notes or event.tick < start:
            left.append(event)
        elif event.tick >= stop:
            held.pop(_state(event, symbols), None) if event.tick == stop else None
            event.tick = int(event.tick - (stop - start))
            left.append(event)
        elif start == 0 and event.tick == 0 and event.status in SET_UP:
            left.append(event)
        elif state := _state(event, symbols):
            held[state] = event
    lane.is_changed = True
    if stop == inf:
        left += _releases(left, start)
    else:
        for event in held.values():
            event.tick, event.rank = start, BEFORE
        left = [*held.values(), *left]
    lane.events = left
    lane.end = start if stop == inf else max(start, int(lane.end - (stop - start)))


def _state(event: Event, symbols: Container[int] = ()) -> tuple[int, ...]:
    """Return what an event sets until the next one of its kind; empty if it sets nothing."""
    if event.status in (midi.TEMPO, midi.METER, midi.KEY_SIGNATURE):
        return (event.status,)
    if event.status in (midi.MARKER, midi.CUE):
        return (midi.MARKER,) if id(event) in symbols else ()
    kind = event.status & 0xF0
    if event.status < 0xF0 and kind in (0xC0, 0xD0, 0xE0):
        return (event.status,)
    return (event.status, event.data[0]) if event.status < 0xF0 and kind == 0xB0 else ()


def _releases(events: Iterable[Event], tick: int) -> list[Event]:
    """Return the events that release the pedals and bends in force at a tick."""
    held = {
        state: event
        for event in sorted(events, key=lambda one: one.tick)
        if (state := _state(event))
    }
    found: list[Event] = []
    for event in held.values():
        kind, data = event.status & 0xF0, event.data
        if event.status < 0xF0 and kind == 0xE0 and data != CENTRE:
            found.append(Event(tick, event.status, CENTRE))
        if event.status < 0xF0 and kind == 0xB0 and data[0] in PEDALS and data[1] >= midi.DOWN:
            found.append(Event(tick, event.status, bytes((data[0], 0))))
    return found
