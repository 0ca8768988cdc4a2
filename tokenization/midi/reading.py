"""Read any MIDI file, given as a path or bytes, to a score with remarks on what was repaired or assumed."""

from __future__ import annotations

import re
import struct
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import symusic

from tokenization.analysis.chords import marker_in
from tokenization.analysis.metres import bar_count, bar_lines
from tokenization.midi.chunks import (
    DRUM_CHANNEL,
    END_OF_TRACK,
    HEADER,
    LAST_TICK,
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
    encode_vlq,
    notes_of,
    split_chunks,
    track_chunk,
)
from tokenization.midi.conventions import complete, complete_within, without_far_events
from tokenization.midi.limits import GENEROUS, Limits, MidiError, read_source
from tokenization.score import FileTimes, Meters, Notes, Pedals, Score, Tempos, Track
from tokenization.wording import counted

# The fast path: parse the tracks with symusic, which is strict.
#
# symusic silently drops notes without a note-off, and everything after some unusual events. To detect that, each track
# gets a tail far after its end, which releases every pitch and pedal and contains a marker: a note that ends in the
# tail has no note-off, and a missing marker means that symusic lost its place. In both cases, and if symusic rejects
# the file or would give a pedal to only one of several tracks on its channel, the file is read event by event.

SUSTAIN, DOWN = 64, 64  # the controller, and the smallest value at which the pedal is down
Programs = Mapping[int, int]  # initial programs by channel
TAIL_TICKS = LAST_TICK + 1
TAIL_MARKER = "\x01the end of a track"
TAIL = (
    b"\xff\x7f\x00"  # an empty event takes over the delta time of the original end of track
    + encode_vlq(TAIL_TICKS)
    + b"\xff\x06"
    + encode_vlq(len(TAIL_MARKER))
    + TAIL_MARKER.encode()
)
NOTE_ENDS = [
    bytes((0, 0x80 | channel, 0, 0)) + b"".join(bytes((0, pitch, 0)) for pitch in range(1, 128))
    for channel in range(16)
]
PEDAL_ENDS = [bytes((0, 0xB0 | channel, 64, 0)) for channel in range(16)]
# symusic misreads F7 as a status, and running status after a system exclusive message.
MAYBE_F7_EVENT = re.compile(rb"[\x00-\x7f]\xf7")
PLAIN_EXCLUSIVE = re.compile(
    rb"\xf0[\x80-\xff]{0,3}[\x00-\x7f]+\xf7(?=[\x80-\xff]{0,3}[\x00-\x7f][\x80-\xff])"
)
SET_UP_TRACKS, SET_UP_BYTES = 16, 1 << 14  # searched for programs in tracks without notes
NOTE_COLUMNS = ("time", "duration", "pitch", "velocity")
CONTROL_COLUMNS = ("time", "number", "value")
MICROSECONDS_PER_MINUTE = 60e6
BLANKS = "\0 \t\r\n"
REPLACEMENT = "\ufffd"  # stands for bytes that are not UTF-8


def parse_tracks(bodies: Sequence[bytes], ticks_per_beat: int, limits: Limits, name: str) -> Score:
    """Parse tracks to a score without completing it; durations may be 0."""
    programs = set_up_programs(bodies)
    is_doubtful = any(map(_may_be_misread, bodies)) or _may_share_pedals(bodies)
    score = None if is_doubtful else _parse(bodies, programs, ticks_per_beat, limits, name)
    return score or _read_events(bodies, programs, ticks_per_beat, limits, name)


def _may_share_pedals(bodies: Sequence[bytes]) -> bool:
    """Return whether the pedal and notes of a channel may be in two tracks, or under two programs.

    symusic assigns a pedal to one track and program only. The test searches the bytes, since it runs on every file and
    few are affected.
    """
    for channel in PITCHED_CHANNELS:
        # Even with running status, each kind of event in a track has its status byte at least once.
        note, control = (b"%c[\0-\x7f]{2}" % (first | channel) for first in (0x90, 0xB0))
        pedals = [b for b in bodies if SUSTAIN in b and re.search(control, b)]
        notes = [b for b in bodies if re.search(note, b)] if pedals else []
        if notes and (len(notes) > 1 or any(body is not notes[0] for body in pedals)):
            return True
        programs = re.findall(b"%c[\0-\x7f]" % (0xC0 | channel), notes[0]) if notes else []
        if len(set(programs)) > 1:
            return True
    return False


def set_up_programs(bodies: Sequence[bytes]) -> Programs:
    """Return initial programs by channel, from tracks without notes, whose programs apply to all tracks."""
    programs: dict[int, int] = {}
    silent = (body for body in bodies if _channels(body, 0xC0) and not _has_notes(body))
    for body in islice(silent, SET_UP_TRACKS):
        with suppress(DamagedTrack):
            for _, status, data, _ in all_events(body[:SET_UP_BYTES]):
                if 0xC0 <= status < 0xD0 and data[0] < 128:
                    programs.setdefault(status & 15, data[0])
    return programs


def _has_notes(body: bytes) -> bool:
    """Return whether a track has note-on events; a long track that contains such a byte is assumed to."""
    if not _channels(body, 0x90):
        return False
    if len(body) > SET_UP_BYTES:
        return True
    with suppress(DamagedTrack):
        return any(0x90 <= status < 0xA0 for _, status, *_ in all_events(body))
    return True


def _channels(body: bytes, first: int) -> list[int]:
    """Return the channels whose status byte (`first` + channel) occurs anywhere in a track."""
    return [channel for channel in range(16) if first + channel in body]


def _may_be_misread(body: bytes) -> bool:
    """Return whether a track may contain events that symusic silently misreads."""
    return 0xF7 in body and (
        len(MAYBE_F7_EVENT.findall(body)) != len(PLAIN_EXCLUSIVE.findall(body))
    )


def _parse(
    bodies: Sequence[bytes], programs: Programs, ticks_per_beat: int, limits: Limits, name: str
) -> Score | None:
    """Parse tracks with symusic; None unless it read everything, every note has a note-off, and all text is UTF-8."""
    try:
        raw: Any = symusic.Score.from_midi(_with_tails(bodies, programs, ticks_per_beat))
    except RuntimeError:
        return None
    limits.check(name, "notes", raw.note_num())
    limits.check(name, "signs", len(raw.markers))
    with_notes = [track for track in raw.tracks if len(track.notes)]
    limits.check(name, "tracks", len(with_notes))
    notes = Notes(*_columns([track.notes for track in with_notes], NOTE_COLUMNS))
    if len(notes) and not 0 <= notes.onset_ticks.min() <= notes.onset_ticks.max() < TAIL_TICKS:
        raise MidiError(f"{name} is longer than {TAIL_TICKS:,} ticks: give a part of it")
    markers = [marker_in(marker.time, marker.text) for marker in raw.markers]
    tails = sum(m.text == TAIL_MARKER and m.onset_ticks >= TAIL_TICKS for m in markers)
    tracks = tuple(Track(t.name.strip(BLANKS), t.program, t.is_drum) for t in with_notes)
    texts = [track.name for track in tracks] + [marker.text for marker in markers]
    is_complete = tails == len(bodies) and (notes.end_ticks < TAIL_TICKS).all()
    if not is_complete or any(REPLACEMENT in text for text in texts):
        return None
    tempos, meters = raw.tempos.numpy(), raw.time_signatures.numpy()
    controls = [track.controls for track in with_notes]
    ticks, controller, value, track = _columns(controls, CONTROL_COLUMNS)
    is_pedal = controller == SUSTAIN
    return Score(
        ticks_per_beat=ticks_per_beat,
        notes=notes,
        tracks=tracks,
        tempos=_tempos(tempos["time"], tempos["mspq"]),
        meters=Meters(meters["time"], meters["numerator"], meters["denominator"]),
        # Not symusic's own spans, some of which wrongly start at tick 0.
        pedals=_pedals(*(column[is_pedal] for column in (ticks, value, track))),
        markers=tuple(marker for marker in markers if 0 <= marker.onset_ticks < TAIL_TICKS),
    )


def _with_tails(bodies: Sequence[bytes], programs: Programs, ticks_per_beat: int) -> bytes:
    """Encode the tracks as a MIDI file, with the programs before each and a tail after it."""
    changes = b"".join(bytes((0, 0xC0 | channel, value)) for channel, value in programs.items())
    parts = [HEADER, struct.pack(">IHHH", 6, 1, len(bodies), ticks_per_beat)]
    for body in bodies:
        ends = [NOTE_ENDS[channel] for channel in _channels(body, 0x90)]
        ends += [PEDAL_ENDS[channel] for channel in _channels(body, 0xB0)]
        if body.endswith(END_OF_TRACK):
            body = body[: -len(END_OF_TRACK)]
        else:
            body += b"\x00"
        parts.append(track_chunk(b"".join((changes, body, TAIL, *ends, b"\x00", END_OF_TRACK))))
    return b"".join(parts)


def _columns(lists: Sequence[Any], names: Sequence[str]) -> list[np.ndarray]:
    """Concatenate columns of symusic lists, and add a column with the index of each row's list."""
    columns = [events.numpy() for events in lists]
    joined = [
        np.concatenate([column[name] for column in columns]) if columns else np.empty(0)
        for name in names
    ]
    return [*joined, np.repeat(np.arange(len(lists)), [len(events) for events in lists])]


def _tempos(ticks: np.ndarray, microseconds: np.ndarray) -> Tempos:
    with np.errstate(divide="ignore"):
        return Tempos(ticks, MICROSECONDS_PER_MINUTE / microseconds)


def _pedals(ticks: np.ndarray, value: np.ndarray, track: np.ndarray) -> Pedals:
    """Convert pedal controller values, grouped by track, to spans in which the pedal is down."""
    down = value >= DOWN
    changed = np.append(True, (np.diff(track) != 0) | (np.diff(down) != 0))[: len(ticks)]
    ticks, down, track = ticks[changed], down[changed], track[changed]
    # Within a track, down and up now alternate; an "up" at the start of a track ends no span.
    press = np.flatnonzero(down[:-1] & (track[:-1] == track[1:]))
    pedals = Pedals(ticks[press], ticks[press + 1] - ticks[press], track[press])
    held = pedals.onset_ticks + pedals.duration_ticks >= TAIL_TICKS
    pedals = pedals.replace(duration_ticks=pedals.duration_ticks - held * TAIL_TICKS)
    return pedals[(pedals.duration_ticks > 0) & (pedals.onset_ticks >= 0)]


# The slow path: read damaged files, and pedals that several tracks share, event by event.

LONGEST_HANGING_BEATS = 4
ALL_OFF = (120, 123)  # controllers that silence a channel
CLIPPED = bytes(min(value, 127) for value in range(256))
MOST_PEDAL_EVENTS = 1 << 18  # in all tracks, with those copied from other tracks of a channel


def _read_events(
    bodies: Sequence[bytes], programs: Programs, ticks_per_beat: int, limits: Limits, name: str
) -> Score:
    """Read the events of tracks to a score, with remarks on what was repaired."""
    chunks: list[list[Event]] = []
    damaged = clipped = note_ons = 0
    for body in bodies:
        chunks.append([])
        try:
            for tick, status, data, first in all_events(body):
                if status < 0xF0 and not data.isascii():
                    data, clipped = data.translate(CLIPPED), clipped + 1
                note_ons += 0x90 <= status < 0xA0 and data[1] > 0
                chunks[-1].append((tick, status, data, first))
        except DamagedTrack:
            damaged += 1
    limits.check(name, "notes", note_ons)
    notes: list[tuple[Note, int]] = []  # with their velocities
    hanging = 0
    for number, events in enumerate(chunks):
        own = notes_of(number, events, programs)
        unended = [(note.key.channel, note.pitch) for note in own if note.off is None]
        if unended:
            _end_hanging(own, {*unended}, events, ticks_per_beat)
        hanging += len(unended)
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
    score = Score(
        ticks_per_beat=ticks_per_beat,
        notes=Notes(*_array(rows, 5)),
        tracks=tuple(
            Track(decode_text(names[chunk]).strip(BLANKS), program, channel == DRUM_CHANNEL)
            for chunk, channel, program in ends
        ),
        tempos=_tempos(*_array(tempos, 2)),
        meters=Meters(*_array(meters, 3)),
        pedals=_pedals(*_array(_pedal_events(chunks, ends, programs), 3)),
        markers=tuple(marker_in(tick, decode_text(data)) for tick, data in texts),
    )
    remarks = (
        (damaged, f"{counted(damaged, 'damaged track')} could be read only in part."),
        (clipped, f"{counted(clipped, 'value')} above 127 became 127."),
        (
            hanging,
            f"{counted(hanging, 'note')} never ended: such notes end where their pitch starts again, or after "
            f"{LONGEST_HANGING_BEATS} beats.",
        ),
    )
    return score.remark(*(sentence for count, sentence in remarks if count))


def _array(rows: Sequence[tuple[int, ...]], columns: int) -> np.ndarray:
    return np.array(rows, dtype=np.int64).reshape(-1, columns).T


def _end_hanging(
    notes: Sequence[Note],
    hanging: set[tuple[int, int]],
    events: Sequence[Event],
    ticks_per_beat: int,
) -> None:
    """End all notes of the given (channel, pitch) pairs where the pitch starts again, or after four beats.

    These pairs lack a note-off, which can be that of any of their notes: first-in first-out would prolong each note
    after it to the end of the next.
    """
    note_at = {note.on: note for note in notes}
    sounding: dict[int, dict[int, Note]] = defaultdict(dict)  # by channel and pitch

    def end(channel: int, pitch: int, tick: int) -> None:
        if note := sounding[channel].pop(pitch, None):
            note.end = min(tick, note.tick + LONGEST_HANGING_BEATS * ticks_per_beat)

    for number, (tick, status, data, _) in enumerate(events):
        kind, channel = status & 0xF0, status & 15
        if status >= 0xF0:
            continue
        if kind == 0xB0 and data[0] in ALL_OFF:
            for pitch in list(sounding[channel]):
                end(channel, pitch, tick)
        elif kind in (0x80, 0x90) and (channel, data[0]) in hanging:
            if note := note_at.get(number):
                end(channel, data[0], tick)
                sounding[channel][data[0]] = note
            elif note := sounding[channel].pop(data[0], None):
                note.end = tick
    for channel, left in sounding.items():
        for pitch, note in list(left.items()):
            end(channel, pitch, max(events[-1][0], note.tick + ticks_per_beat))


def _pedal_events(
    chunks: Sequence[Sequence[Event]], ends: Mapping[Key, int], programs: Programs
) -> list[tuple[int, int, int]]:
    """Return the pedal events of each track in order of time, as (tick, value, track).

    A pedal applies to all tracks of its channel, whatever their chunk and program. But if the file has more tracks than
    channels, so that unrelated tracks share one, a pedal applies only to its own chunk and program.
    """
    by_key: dict[Key, list[tuple[int, int]]] = defaultdict(list)
    by_channel: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for number, events in enumerate(chunks):
        program = dict(programs)
        for tick, status, data, _ in events:
            channel = status & 15
            if 0xC0 <= status < 0xD0:
                program[channel] = data[0]
            elif 0xB0 <= status < 0xC0 and data[0] == SUSTAIN:
                by_key[Key(number, channel, program.get(channel, 0))].append((tick, data[1]))
                by_channel[channel].append((tick, data[1]))
    pitched = [key for key in ends if key.channel != DRUM_CHANNEL]
    is_shared = (
        len({key[:2] for key in pitched}) <= len(PITCHED_CHANNELS)
        and sum(len(by_channel[key.channel]) for key in pitched) <= MOST_PEDAL_EVENTS
    )
    rows: list[tuple[int, int, int]] = []
    for track, (key, end) in enumerate(ends.items()):
        moves = sorted(
            by_channel[key.channel] if is_shared and key in pitched else by_key[key],
            key=lambda move: move[0],
        )
        if moves != by_key[key]:
            end = max(ends.values())
        rows += [(tick, value, track) for tick, value in [*moves, (end, 0)]]
    return rows


ASSUMED_TICKS_PER_BEAT = 480
SMPTE_FRAMES = {24: 24.0, 25: 25.0, 29: 30 / 1.001, 30: 30.0}  # code → frames per second


def read_midi(
    source: bytes | str | Path, *, limits: Limits = GENEROUS, name: str | None = None
) -> Score:
    """Read a MIDI file, given as a path or bytes; raises MidiError, which calls the file `name`.

    The score has one track per chunk, channel and program, notes in canonical order that last at least a tick, and a
    tempo and a meter from tick 0 on.
    """
    name, data = read_source(source, limits, name)
    chunks = split_chunks(data, name)
    ticks_per_beat, beats_per_minute, remarks = _resolution(chunks.division)
    is_sequence = chunks.kind == 2 and len(chunks.bodies) > 1
    if is_sequence:
        limits.check(name, "tracks", len(chunks.bodies))
        remarks = (*remarks, f"The {len(chunks.bodies)} pieces of a type-2 file were joined.")
        pieces = [
            complete(parse_tracks([body], ticks_per_beat, limits, name)) for body in chunks.bodies
        ]
        beats = sum(piece.end_ticks for piece in pieces) / ticks_per_beat
        limits.check(name, "beats", beats)  # before their bars are computed
        score = _end_to_end(pieces)
    else:
        score = parse_tracks(chunks.bodies, ticks_per_beat, limits, name)
    if not len(score.notes):
        damage = "; ".join(chunks.remarks + score.remarks).replace(".", "")
        advice = f"export it again ({damage})" if damage else "choose a file with music in it"
        raise MidiError(f"{name} holds no notes that can be read: {advice}")
    if beats_per_minute is not None:
        score = score.replace(tempos=Tempos(np.zeros(1), np.array([beats_per_minute])))
    if not is_sequence:
        times = FileTimes(np.array([0.0, 1.0]), np.array([0.0, ticks_per_beat]))
        score = score.replace(file_times=times)
    score = complete_within(score, limits, name)
    tracks = tuple(replace(track, sources=(i,)) for i, track in enumerate(score.tracks))
    remarks = tuple(dict.fromkeys((*chunks.remarks, *remarks, *score.remarks)))
    return score.replace(tracks=tracks, remarks=remarks)


def _resolution(division: int) -> tuple[int, float | None, tuple[str, ...]]:
    """Return the ticks per beat, the tempo if ticks are fractions of a second, and remarks."""
    if 0 < division < 0x8000:
        return division, None, ()
    rate, frame_ticks = 256 - (division >> 8), division & 0xFF
    if rate not in SMPTE_FRAMES or not frame_ticks:
        remark = f"The time division {division} is invalid: {ASSUMED_TICKS_PER_BEAT} ticks per beat were assumed."
        return ASSUMED_TICKS_PER_BEAT, None, (remark,)
    second_ticks = round(SMPTE_FRAMES[rate]) * frame_ticks
    ticks_per_beat = second_ticks // 2 if second_ticks % 2 == 0 else second_ticks
    beats_per_minute = 60 * SMPTE_FRAMES[rate] * frame_ticks / ticks_per_beat
    remark = f"Time is counted in SMPTE frames, not beats: {beats_per_minute:.0f} beats per minute were assumed."
    return ticks_per_beat, beats_per_minute, (remark,)


def _end_to_end(pieces: Sequence[Score]) -> Score:
    """Join pieces of equal resolution, each starting at the first bar line after the previous one."""
    whole, start = Score(ticks_per_beat=pieces[0].ticks_per_beat), 0
    for piece in pieces:
        length = int(bar_lines(piece, bar_count(piece))[-1]) if len(piece.notes) else 0
        # Events after the last bar of a piece would fall into the next one.
        piece = without_far_events(piece, length / piece.ticks_per_beat)
        piece = piece.timed(lambda old, start=start: old + start)
        start += length
        notes = piece.notes.replace(track=piece.notes.track + len(whole.tracks))
        pedals = piece.pedals.replace(track=piece.pedals.track + len(whole.tracks))
        whole = whole.replace(
            notes=Notes.concatenate((whole.notes, notes)),
            tracks=whole.tracks + piece.tracks,
            tempos=Tempos.concatenate((whole.tempos, piece.tempos)),
            meters=Meters.concatenate((whole.meters, piece.meters)),
            pedals=Pedals.concatenate((whole.pedals, pedals)),
            markers=whole.markers + piece.markers,
            remarks=whole.remarks + piece.remarks,
        )
    return whole
