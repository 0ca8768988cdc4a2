"""Read any MIDI file, given as a path or bytes, to a score with remarks on what was repaired or assumed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from tokenization.analysis.chords import marker_in
from tokenization.midi.chunks import (
    DRUM_CHANNEL,
    MARKER,
    METER,
    PITCHED_CHANNELS,
    TEMPO,
    TRACK_NAME,
    DamagedTrack,
    Event,
    Key,
    Note,
    all_events,
    decode_text,
    notes_of,
    set_up_programs,
    split_chunks,
)
from tokenization.midi.limits import GENEROUS, Limits, MusicFileError, complete_within, read_source
from tokenization.score import FileTimes, Meters, Notes, Pedals, Score, Tempos, Track

SUSTAIN, DOWN = 64, 64  # the controller, and the smallest value at which the pedal is down
MICROSECONDS_PER_MINUTE = 60e6
BLANKS = "\0 \t\r\n"
NEVER = -1  # the tick at which an unreleased pedal is released: at the end of the track
LONGEST_HANGING_BEATS = 4  # of a note without an end
CLIPPED = bytes(min(value, 127) for value in range(256))
DAMAGED = "The file is damaged; it was read as far as possible."


def read_midi(
    source: bytes | str | Path, *, limits: Limits = GENEROUS, name: str | None = None
) -> Score:
    """Read a MIDI file, given as a path or bytes; raises MusicFileError, which calls the file `name`.

    The score has one track per chunk, channel and program, notes in canonical order that last at least a tick, and a
    tempo and a meter from tick 0 on.
    """
    name, data = read_source(source, limits, name)
    found = split_chunks(data, name)
    events = [_events(body) for body in found.bodies]
    is_damaged = found.is_damaged or any(damaged for _, damaged in events)
    score = _score([chunk for chunk, _ in events], found.ticks_per_beat, limits, name)
    if not len(score.notes):
        advice = "export it again, it is damaged" if is_damaged else "choose a file with music"
        raise MusicFileError(f"{name} holds no notes that can be read: {advice}")
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


def _score(
    chunks: Sequence[Sequence[Event]], ticks_per_beat: int, limits: Limits, name: str
) -> Score:
    """Return the score of the events of all tracks, before completion."""
    starts = (0x90 <= e[1] < 0xA0 and e[2][1] > 0 for events in chunks for e in events)
    limits.check(name, "notes", sum(starts))
    programs = set_up_programs(chunks)
    notes: list[tuple[Note, int]] = []  # with their velocities
    for number, events in enumerate(chunks):
        own = _ended(number, events, programs, LONGEST_HANGING_BEATS * ticks_per_beat)
        notes += [(note, events[note.on][2][1]) for note in own]
    ends: dict[Key, int] = {}  # of each track, the end of its chunk or of its last note if later
    for note, _ in notes:
        end = ends.get(note.key, chunks[note.key.chunk][-1][0])
        ends[note.key] = max(end, note.end)
    ends = dict(sorted(ends.items()))
    meta = [event[:3] for events in chunks for event in events if event[1] > 0xFF]
    meta.sort(key=lambda event: event[0])
    texts = [(tick, data) for tick, status, data in meta if status == MARKER]
    limits.check(name, "signs", len(texts))
    limits.check(name, "tracks", len(ends))
    track_of = {key: track for track, key in enumerate(ends)}
    rows = [(n.tick, n.end - n.tick, n.pitch, v, track_of[n.key]) for n, v in notes]
    tempos = [(t, int.from_bytes(d[:3], "big")) for t, s, d in meta if s == TEMPO and len(d) > 2]
    meters = [(t, d[0], 1 << min(d[1], 8)) for t, s, d in meta if s == METER and len(d) > 1]
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
        markers=tuple(marker_in(tick, decode_text(data)) for tick, data in texts),
        file_times=FileTimes(np.array([0.0, 1.0]), np.array([0.0, ticks_per_beat])),
    )


def _array(rows: Sequence[tuple[int, ...]], columns: int) -> np.ndarray:
    return np.array(rows, dtype=np.int64).reshape(-1, columns).T


def _ended(
    number: int, events: Sequence[Event], programs: Mapping[int, int], longest: int
) -> list[Note]:
    """Return the notes of a chunk; one without an end lasts until its pitch starts again, `longest` ticks at most.

    Its missing note-off can be that of any note on its pitch: first-in first-out would prolong all notes after it to
    the end of the next.
    """
    notes = notes_of(number, events, programs)
    if hanging := {(note.key.channel, note.pitch) for note in notes if note.off is None}:
        notes = notes_of(number, events, programs, hanging)
        for note in notes:
            if note.off is None:
                note.end = min(note.end, note.tick + longest)
    return notes


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
