"""Read any MIDI file: bytes or a path to a score, with remarks on what was repaired or assumed."""

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
    notes_of,
    split_chunks,
    track_chunk,
    variable_length,
)
from tokenization.midi.conventions import complete, finished, without_far_events
from tokenization.midi.limits import GENEROUS, Limits, MidiError, opened
from tokenization.score import FileTimes, Meters, Notes, Pedals, Score, Tempos, Track
from tokenization.wording import counted

# Tracks of bytes to a score by symusic, which reads strictly and fast.
#
# It silently drops notes that are never ended and what stands after some unusual events. So each track gets a tail
# far after its end that ends every pitch and pedal and carries a sign: a note that ends there was never ended, and a
# sign that is missing shows that symusic lost the thread. Where either is so, where symusic refuses, or may give a
# pedal to one track of several on its channel, the file is read event by event.

SUSTAIN, DOWN = 64, 64  # the controller, and the least value at which the pedal is down
Programs = Mapping[int, int]  # those in force at the start, by channel
TAIL_TICKS = LAST_TICK + 1
SIGN = "\x01the end of a track"
TAIL = (
    b"\xff\x7f\x00"  # an empty event takes the time before the old end of track
    + variable_length(TAIL_TICKS)
    + b"\xff\x06"
    + variable_length(len(SIGN))
    + SIGN.encode()
)
NOTE_ENDS = [
    bytes((0, 0x80 | channel, 0, 0)) + b"".join(bytes((0, pitch, 0)) for pitch in range(1, 128))
    for channel in range(16)
]
PEDAL_ENDS = [bytes((0, 0xB0 | channel, 64, 0)) for channel in range(16)]
# symusic misreads F7 as a status of its own, and running status after an exclusive message.
MAYBE_F7_EVENT = re.compile(rb"[\x00-\x7f]\xf7")
PLAIN_EXCLUSIVE = re.compile(
    rb"\xf0[\x80-\xff]{0,3}[\x00-\x7f]+\xf7(?=[\x80-\xff]{0,3}[\x00-\x7f][\x80-\xff])"
)
SET_UP_TRACKS, SET_UP_BYTES = 16, 1 << 14  # as far as programs set apart are looked for
NOTE_COLUMNS = ("time", "duration", "pitch", "velocity")
CONTROL_COLUMNS = ("time", "number", "value")
MICROSECONDS_PER_MINUTE = 60e6
BLANKS = "\0 \t\r\n"
REPLACEMENT = "\ufffd"  # in place of bytes that are no UTF-8


def parse_tracks(bodies: Sequence[bytes], ticks_per_beat: int, limits: Limits, name: str) -> Score:
    """Return notes, events and tracks as they are written: a note may last no tick."""
    programs = programs_set_apart(bodies)
    is_doubtful = any(map(_may_mislead, bodies)) or _may_share_pedals(bodies)
    score = None if is_doubtful else _parse(bodies, programs, ticks_per_beat, limits, name)
    return score or _read_events(bodies, programs, ticks_per_beat, limits, name)


def _may_share_pedals(bodies: Sequence[bytes]) -> bool:
    """Say whether pedal and notes of a channel may stand in two tracks, or under two programs.

    By bytes, since few files have any such and all are asked. symusic gives a pedal to one track and program alone.
    """
    for channel in PITCHED_CHANNELS:
        # Running or not, each kind that a track has is spelled out once.
        note, control = (b"%c[\0-\x7f]{2}" % (first | channel) for first in (0x90, 0xB0))
        pedals = [b for b in bodies if SUSTAIN in b and re.search(control, b)]
        notes = [b for b in bodies if re.search(note, b)] if pedals else []
        if notes and (len(notes) > 1 or any(body is not notes[0] for body in pedals)):
            return True
        programs = re.findall(b"%c[\0-\x7f]" % (0xC0 | channel), notes[0]) if notes else []
        if len(set(programs)) > 1:
            return True
    return False


def programs_set_apart(bodies: Sequence[bytes]) -> Programs:
    """Return the programs of channels at tick 0: those of tracks without notes hold for all the others."""
    programs: dict[int, int] = {}
    apart = (body for body in bodies if _channels(body, 0xC0) and not _has_notes(body))
    for body in islice(apart, SET_UP_TRACKS):
        with suppress(DamagedTrack):
            for _, status, data, _ in all_events(body[:SET_UP_BYTES]):
                if 0xC0 <= status < 0xD0 and data[0] < 128:
                    programs.setdefault(status & 15, data[0])
    return programs


def _has_notes(body: bytes) -> bool:
    """Say whether a track starts notes; where its bytes allow it, a tempo or a title may look so."""
    if not _channels(body, 0x90):
        return False
    if len(body) > SET_UP_BYTES:
        return True
    with suppress(DamagedTrack):
        return any(0x90 <= status < 0xA0 for _, status, *_ in all_events(body))
    return True


def _channels(body: bytes, first: int) -> list[int]:
    """Return the channels whose status byte, the first's plus the channel, occurs anywhere."""
    return [channel for channel in range(16) if first + channel in body]


def _may_mislead(body: bytes) -> bool:
    """Say whether a track may hold what symusic misreads without a word."""
    return 0xF7 in body and (
        len(MAYBE_F7_EVENT.findall(body)) != len(PLAIN_EXCLUSIVE.findall(body))
    )


def _parse(
    bodies: Sequence[bytes], programs: Programs, ticks_per_beat: int, limits: Limits, name: str
) -> Score | None:
    """Return what symusic reads, if it reads all, every note ends, and no text is in another encoding than UTF-8."""
    try:
        raw: Any = symusic.Score.from_midi(_with_tails(bodies, programs, ticks_per_beat))
    except RuntimeError:
        return None
    limits.check(name, "notes", raw.note_num())
    limits.check(name, "signs", len(raw.markers))
    heard = [track for track in raw.tracks if len(track.notes)]
    limits.check(name, "tracks", len(heard))
    notes = Notes(*_columns([track.notes for track in heard], NOTE_COLUMNS))
    if len(notes) and not 0 <= notes.onset_ticks.min() <= notes.onset_ticks.max() < TAIL_TICKS:
        raise MidiError(f"{name} goes on for more than {TAIL_TICKS:,} ticks: give a part of it")
    markers = [marker_in(marker.time, marker.text) for marker in raw.markers]
    signs = sum(m.text == SIGN and m.onset_ticks >= TAIL_TICKS for m in markers)
    tracks = tuple(Track(t.name.strip(BLANKS), t.program, t.is_drum) for t in heard)
    texts = [track.name for track in tracks] + [marker.text for marker in markers]
    is_whole = signs == len(bodies) and (notes.end_ticks < TAIL_TICKS).all()
    if not is_whole or any(REPLACEMENT in text for text in texts):
        return None
    tempos, meters = raw.tempos.numpy(), raw.time_signatures.numpy()
    controls = [track.controls for track in heard]
    ticks, controller, value, track = _columns(controls, CONTROL_COLUMNS)
    is_pedal = controller == SUSTAIN
    return Score(
        ticks_per_beat=ticks_per_beat,
        notes=notes,
        tracks=tracks,
        tempos=_tempos(tempos["time"], tempos["mspq"]),
        meters=Meters(meters["time"], meters["numerator"], meters["denominator"]),
        # From the controller itself: symusic's own spans may start at tick 0 for no reason.
        pedals=_pedals(*(column[is_pedal] for column in (ticks, value, track))),
        markers=tuple(marker for marker in markers if 0 <= marker.onset_ticks < TAIL_TICKS),
    )


def _with_tails(bodies: Sequence[bytes], programs: Programs, ticks_per_beat: int) -> bytes:
    """Return a MIDI file of the tracks, with programs before and a tail after each."""
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
    """Return columns of several symusic lists end to end, and of each row the number of its list."""
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
    """Return the spans of pedals that move at ticks, track by track."""
    down = value >= DOWN
    moved = np.append(True, (np.diff(track) != 0) | (np.diff(down) != 0))[: len(ticks)]
    ticks, down, track = ticks[moved], down[moved], track[moved]
    # Within a track the pedal now goes up and down by turns; a first "up" ends nothing.
    press = np.flatnonzero(down[:-1] & (track[:-1] == track[1:]))
    pedals = Pedals(ticks[press], ticks[press + 1] - ticks[press], track[press])
    held = pedals.onset_ticks + pedals.duration_ticks >= TAIL_TICKS
    pedals = pedals.replace(duration_ticks=pedals.duration_ticks - held * TAIL_TICKS)
    return pedals[(pedals.duration_ticks > 0) & (pedals.onset_ticks >= 0)]


# A file event by event: whatever still makes sense of one that is damaged, and the pedals of its channels.

LONGEST_HANGING_BEATS = 4
ALL_OFF = (120, 123)  # controllers that silence a channel
CLIPPED = bytes(min(value, 127) for value in range(256))
MOST_MOVES = 1 << 18  # of pedals in all tracks: those of more stay with the track they are in


def _read_events(
    bodies: Sequence[bytes], programs: Programs, ticks_per_beat: int, limits: Limits, name: str
) -> Score:
    """Return what the events of tracks say, with remarks on what was put right."""
    chunks: list[list[Event]] = []
    cut = clipped = begun = 0
    for body in bodies:
        chunks.append([])
        try:
            for tick, status, data, first in all_events(body):
                if status < 0xF0 and not data.isascii():
                    data, clipped = data.translate(CLIPPED), clipped + 1
                begun += 0x90 <= status < 0xA0 and data[1] > 0
                chunks[-1].append((tick, status, data, first))
        except DamagedTrack:
            cut += 1
    limits.check(name, "notes", begun)
    notes: list[tuple[Note, int]] = []  # with their velocities
    hanging = 0
    for number, events in enumerate(chunks):
        own = notes_of(number, events, programs)
        never = [note for note in own if note.off is None]
        if never:
            _end_hanging(
                own, {(note.key.channel, note.pitch) for note in never}, events, ticks_per_beat
            )
        hanging += len(never)
        notes += [(note, events[note.on][2][1]) for note in own]
    ends: dict[Key, int] = {}  # of each track: when its chunk has ended, and the last of its notes
    for note, _ in notes:
        end = ends.get(note.key, chunks[note.key.chunk][-1][0])
        ends[note.key] = max(end, note.end)
    ends = dict(sorted(ends.items()))
    signs = [event[:3] for events in chunks for event in events if event[1] > 0xFF]
    signs.sort(key=lambda sign: sign[0])
    texts = [(tick, data) for tick, status, data in signs if status == MARKER]
    limits.check(name, "signs", len(texts))
    limits.check(name, "tracks", len(ends))
    place = {key: track for track, key in enumerate(ends)}
    rows = [(n.tick, n.end - n.tick, n.pitch, v, place[n.key]) for n, v in notes]
    tempos = [(t, int.from_bytes(d[:3], "big")) for t, s, d in signs if s == TEMPO and len(d) > 2]
    meters = [(t, d[0], 1 << min(d[1], 8)) for t, s, d in signs if s == METER and len(d) > 1]
    named = [b"".join([e[2] for e in events if e[1] == TRACK_NAME][-1:]) for events in chunks]
    score = Score(
        ticks_per_beat=ticks_per_beat,
        notes=Notes(*_array(rows, 5)),
        tracks=tuple(
            Track(decode_text(named[chunk]).strip(BLANKS), program, channel == DRUM_CHANNEL)
            for chunk, channel, program in ends
        ),
        tempos=_tempos(*_array(tempos, 2)),
        meters=Meters(*_array(meters, 3)),
        pedals=_pedals(*_array(_moves(chunks, ends, programs), 3)),
        markers=tuple(marker_in(tick, decode_text(data)) for tick, data in texts),
    )
    said = (
        (cut, f"{counted(cut, 'damaged track')} could be read only in part."),
        (clipped, f"{counted(clipped, 'value')} above 127 became 127."),
        (
            hanging,
            f"{counted(hanging, 'note')} never ended: such notes end where their pitch starts again, or after "
            f"{LONGEST_HANGING_BEATS} beats.",
        ),
    )
    return score.remark(*(sentence for count, sentence in said if count))


def _array(rows: Sequence[tuple[int, ...]], columns: int) -> np.ndarray:
    return np.array(rows, dtype=np.int64).reshape(-1, columns).T


def _end_hanging(
    notes: Sequence[Note],
    hanging: set[tuple[int, int]],
    events: Sequence[Event],
    ticks_per_beat: int,
) -> None:
    """End the notes of channels and pitches of which some never end: where the pitch starts again, or after four beats.

    The missing end can be that of any of its notes: first-in first-out would prolong each one
    after it to the end of the next.
    """
    begins = {note.on: note for note in notes}
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
            if note := begins.get(number):
                end(channel, data[0], tick)
                sounding[channel][data[0]] = note
            elif note := sounding[channel].pop(data[0], None):
                note.end = tick
    for channel, left in sounding.items():
        for pitch, note in list(left.items()):
            end(channel, pitch, max(events[-1][0], note.tick + ticks_per_beat))


def _moves(
    chunks: Sequence[Sequence[Event]], ends: Mapping[Key, int], programs: Programs
) -> list[tuple[int, int, int]]:
    """Return how the pedal of each track moves, in time: tick, value and track.

    It is a message to a channel, whichever chunk it stands in and whichever program is in force there. Where more
    tracks than there are channels share these for want of more, it stays with its chunk and program.
    """
    by_key: dict[Key, list[tuple[int, int]]] = defaultdict(list)
    by_channel: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for number, events in enumerate(chunks):
        now = dict(programs)
        for tick, status, data, _ in events:
            channel = status & 15
            if 0xC0 <= status < 0xD0:
                now[channel] = data[0]
            elif 0xB0 <= status < 0xC0 and data[0] == SUSTAIN:
                by_key[Key(number, channel, now.get(channel, 0))].append((tick, data[1]))
                by_channel[channel].append((tick, data[1]))
    pitched = [key for key in ends if key.channel != DRUM_CHANNEL]
    is_shared = (
        len({key[:2] for key in pitched}) <= len(PITCHED_CHANNELS)
        and sum(len(by_channel[key.channel]) for key in pitched) <= MOST_MOVES
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
SMPTE_FRAMES = {24: 24.0, 25: 25.0, 29: 30 / 1.001, 30: 30.0}  # name of the rate → frames a second


def read_midi(
    source: bytes | str | Path, *, limits: Limits = GENEROUS, name: str | None = None
) -> Score:
    """Read a file, or a file's bytes, which errors call by `name`; a MidiError says what is wrong.

    The score has notes in canonical order, each at least a tick long, in tracks by channel and
    program, and a tempo and a meter from tick 0 on.
    """
    name, data = opened(source, limits, name)
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
        limits.check(name, "beats", beats)  # before their bars are laid
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
    score = finished(score, limits, name)
    tracks = tuple(replace(track, sources=(i,)) for i, track in enumerate(score.tracks))
    said = tuple(dict.fromkeys((*chunks.remarks, *remarks, *score.remarks)))
    return score.replace(tracks=tracks, remarks=said)


def _resolution(division: int) -> tuple[int, float | None, tuple[str, ...]]:
    """Return ticks a beat, a tempo where the ticks are parts of a second, and remarks."""
    if 0 < division < 0x8000:
        return division, None, ()
    name, frame_ticks = 256 - (division >> 8), division & 0xFF
    if name not in SMPTE_FRAMES or not frame_ticks:
        wrong = f"The time division {division} makes no sense"
        said = f"{wrong}: {ASSUMED_TICKS_PER_BEAT} ticks a beat were assumed."
        return ASSUMED_TICKS_PER_BEAT, None, (said,)
    second_ticks = round(SMPTE_FRAMES[name]) * frame_ticks
    ticks_per_beat = second_ticks // 2 if second_ticks % 2 == 0 else second_ticks
    beats_per_minute = 60 * SMPTE_FRAMES[name] * frame_ticks / ticks_per_beat
    laid = f"beats were laid at {beats_per_minute:.0f} a minute"
    said = f"Time is counted in SMPTE frames, not beats: {laid}."
    return ticks_per_beat, beats_per_minute, (said,)


def _end_to_end(pieces: Sequence[Score]) -> Score:
    """Return pieces of one resolution as one, each from the first bar after the one before."""
    whole, start = Score(ticks_per_beat=pieces[0].ticks_per_beat), 0
    for piece in pieces:
        length = int(bar_lines(piece, bar_count(piece))[-1]) if len(piece.notes) else 0
        # What a piece says after its last bar would be said amid the next one.
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
