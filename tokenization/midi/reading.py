"""Read any MIDI file: bytes or a path to a score, with remarks on what was repaired or assumed."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping, Sequence
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
    END,
    END_OF_TRACK,
    HEADER,
    LAST_TICK,
    LONGEST_HANGING_BEATS,
    PITCHED_CHANNELS,
    TRACK,
    DamagedTrack,
    RepairedTrack,
    event_bytes,
    repair_track,
    serialised,
    split_chunks,
    track_events,
    variable_length,
)
from tokenization.midi.conventions import complete, finished, without_far_events
from tokenization.midi.limits import GENEROUS, REPAIRABLE_BYTES, Limits, MidiError, opened
from tokenization.score import FileTimes, Meters, Notes, Pedals, Score, Tempos, Track
from tokenization.wording import counted

# The sustain pedal of a channel, written into every track with notes on that channel.
#
# It is a message to a channel, whichever track it stands in and whichever program is in force there; symusic gives it
# to one track and program alone.

SUSTAIN, DOWN = 64, 64  # the controller, and the least value at which the pedal is down
MOST_MOVES = 1 << 18  # that are written into tracks: pedals of more stay with the track they are in
# Running or not, each kind that a track has is spelled out once.
_NOTE, _CONTROL = (
    {channel: re.compile(b"%c[\0-\x7f]{2}" % (first | channel)) for channel in PITCHED_CHANNELS}
    for first in (0x90, 0xB0)
)
_PROGRAM = {channel: re.compile(b"%c[\0-\x7f]" % (0xC0 | channel)) for channel in PITCHED_CHANNELS}

Events = list[tuple[int, int, bytes]]  # tick, status, data
Moves = dict[int, list[tuple[int, int]]]  # of a channel's pedal: tick, value
Programs = Mapping[int, int]  # those in force at the start, by channel


def with_channel_pedals(bodies: Sequence[bytes], programs: Programs) -> Sequence[bytes]:
    """Return the tracks with the pedals of their channels, the same ones where that changes nothing.

    A damaged track is for the repair.
    """
    if not any(_may_concern(bodies, channel) for channel in PITCHED_CHANNELS):
        return bodies
    try:
        tracks = [list(track_events(body)) for body in bodies]
    except DamagedTrack:
        return bodies
    if any(status < 0xF0 and not data.isascii() for events in tracks for _, status, data in events):
        return bodies
    notes = [{s & 15 for _, s, _ in events if 0x90 <= s < 0xA0} for events in tracks]
    if sum(len(channels - {DRUM_CHANNEL}) for channels in notes) > len(PITCHED_CHANNELS):
        return bodies  # with more tracks than channels these are shared for want of more
    moves = _moves(tracks)
    result = list(bodies)
    for place, events in enumerate(tracks):
        moving = {channel: moves[channel] for channel in notes[place] if channel in moves}
        used = _programs(events, moving, programs)
        own = _moves([events])
        moving = {
            c: moved for c, moved in moving.items() if len(used[c]) > 1 or own.get(c) != moved
        }
        if sum(len(moving[channel]) * len(used[channel]) for channel in moving) > MOST_MOVES:
            return bodies
        if moving:
            ended = {channel: _ended(moved, tracks) for channel, moved in moving.items()}
            result[place] = serialised(list(_merged(events, ended, used)))
    return result


def _may_concern(bodies: Sequence[bytes], channel: int) -> bool:
    """Say whether pedal and notes of a channel may stand in two tracks, or under two programs.

    By bytes, since few files have any such and all are asked.
    """
    pedals = [b for b in bodies if SUSTAIN in b and _CONTROL[channel].search(b)]
    notes = [b for b in bodies if _NOTE[channel].search(b)] if pedals else []
    if not notes:
        return False
    apart = len(notes) > 1 or any(body is not notes[0] for body in pedals)
    return apart or len(set(_PROGRAM[channel].findall(notes[0]))) > 1


def _moves(tracks: Sequence[Events]) -> Moves:
    """Return how the pedal of each pitched channel moves, in time."""
    moves: Moves = {}
    for events in tracks:
        for tick, status, data in events:
            if 0xB0 <= status < 0xC0 and data[0] == SUSTAIN and status & 15 != DRUM_CHANNEL:
                moves.setdefault(status & 15, []).append((tick, data[1]))
    return {channel: sorted(moved, key=lambda move: move[0]) for channel, moved in moves.items()}


def _ended(moved: list[tuple[int, int]], tracks: Sequence[Events]) -> list[tuple[int, int]]:
    """Return a pedal's moves; one that is down at the end comes up with the last event of the file."""
    if moved[-1][1] < DOWN:
        return moved
    return [*moved, (max(events[-1][0] for events in tracks if events), 0)]


def _programs(events: Events, moves: Moves, programs: Programs) -> dict[int, list[int]]:
    """Return the programs of each channel with moves, in order of their coming."""
    used = {channel: [programs.get(channel, 0)] for channel in moves}
    for _, status, data in events:
        channel = status & 15
        if 0xC0 <= status < 0xD0 and channel in used and data[0] not in used[channel]:
            used[channel].append(data[0])
    return used


def _merged(
    events: Events, moves: Moves, used: Mapping[int, Sequence[int]]
) -> Iterator[tuple[int, bytes]]:
    """Yield a track's events with the moves in the place of its own, under each program."""
    timed = [
        (tick, False, status, data)
        for tick, status, data in events
        if not (0xB0 <= status < 0xC0 and data[0] == SUSTAIN and status & 15 in moves)
        and status != END
    ]
    timed += [
        (tick, True, 0xB0 | channel, bytes((SUSTAIN, value)))
        for channel, moved in moves.items()
        for tick, value in moved
    ]
    now = {channel: programs[0] for channel, programs in used.items()}
    for tick, is_move, status, data in sorted(timed, key=lambda event: event[:2]):
        channel = status & 15
        if 0xC0 <= status < 0xD0 and channel in now:
            now[channel] = data[0]
        others = [p for p in used[channel] if p != now[channel]] if is_move else []
        for program in others:
            yield tick, bytes((0xC0 | channel, program))
            yield tick, event_bytes(status, data)
        if others:
            yield tick, bytes((0xC0 | channel, now[channel]))
        yield tick, event_bytes(status, data)


# Tracks of bytes to a raw score by symusic, which reads strictly and fast.
#
# It silently drops notes that are never ended and what stands after some unusual events. So each track gets a tail
# far after its end that ends every pitch and pedal and carries a sign: a note that ends there was never ended, and a
# sign that is missing shows that symusic lost the thread. Where either is so, or symusic refuses, the tracks are
# repaired and read once more.

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
LARGE_REMARK = "More such notes may be missing: the file is too large to be repaired."
BLANKS = "\0 \t\r\n"
REPLACEMENT = "\ufffd"  # in place of bytes that are no UTF-8


def parse_tracks(bodies: Sequence[bytes], ticks_per_beat: int, limits: Limits, name: str) -> Score:
    """Return notes, events and tracks as they are written: a note may last no tick."""
    programs = programs_set_apart(bodies)
    is_small = sum(map(len, bodies)) <= REPAIRABLE_BYTES
    attempts = ([b for b in bodies if _may_mislead(b)], bodies) if is_small else ((),)
    for doubtful in attempts:
        repaired = {body: repair_track(body, ticks_per_beat) for body in doubtful}
        clean = [repaired[body].body if body in repaired else body for body in bodies]
        if is_small:
            clean = with_channel_pedals(clean, programs)
        score, hanging_notes = _parse_once(clean, programs, ticks_per_beat, limits, name)
        is_sound = score is not None and not hanging_notes and not _has_lost_text(score)
        if score is not None and (is_sound or doubtful is attempts[-1]):
            tracks = [repaired[body] for body in bodies if body in repaired]
            unrepaired = [LARGE_REMARK] if hanging_notes else []
            return score.remark(*_repairs(tracks, hanging_notes), *unrepaired)
    raise MidiError(
        f"{name} is damaged{'' if is_small else ', and too large to be repaired'}: "
        "open and save it in another program"
    )


def _repairs(tracks: Sequence[RepairedTrack], hanging_notes: int) -> list[str]:
    cut_tracks = sum(track.is_cut for track in tracks)
    clipped_events = sum(track.clipped_events for track in tracks)
    hanging_notes += sum(track.hanging_notes for track in tracks)
    remarks = []
    if cut_tracks:
        remarks.append(f"{counted(cut_tracks, 'damaged track')} could be read only in part.")
    if clipped_events:
        remarks.append(f"{counted(clipped_events, 'value')} above 127 became 127.")
    if hanging_notes:
        remarks.append(
            f"{counted(hanging_notes, 'note')} never ended: such notes end where their pitch "
            f"starts again, or after {LONGEST_HANGING_BEATS} beats."
        )
    return remarks


def programs_set_apart(bodies: Sequence[bytes]) -> Programs:
    """Return the programs of channels at tick 0: those of tracks without notes hold for all the others."""
    programs: dict[int, int] = {}
    apart = (body for body in bodies if _channels(body, 0xC0) and not _has_notes(body))
    for body in islice(apart, SET_UP_TRACKS):
        with suppress(DamagedTrack):
            for _, status, data in track_events(body[:SET_UP_BYTES]):
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
        return any(0x90 <= status < 0xA0 for _, status, _ in track_events(body))
    return True


def _channels(body: bytes, first: int) -> list[int]:
    """Return the channels whose status byte, the first's plus the channel, occurs anywhere."""
    return [channel for channel in range(16) if first + channel in body]


def _may_mislead(body: bytes) -> bool:
    """Say whether a track may hold what symusic misreads without a word."""
    return 0xF7 in body and (
        len(MAYBE_F7_EVENT.findall(body)) != len(PLAIN_EXCLUSIVE.findall(body))
    )


def _has_lost_text(score: Score) -> bool:
    texts = [track.name for track in score.tracks] + [marker.text for marker in score.markers]
    return any(REPLACEMENT in text for text in texts)


def _parse_once(
    bodies: Sequence[bytes], programs: Programs, ticks_per_beat: int, limits: Limits, name: str
) -> tuple[Score | None, int]:
    """Return what symusic reads, if it reads all, and how many of its notes never ended."""
    try:
        raw: Any = symusic.Score.from_midi(_with_tails(bodies, programs, ticks_per_beat))
    except RuntimeError:
        return None, 0
    limits.check(name, "notes", raw.note_num())
    limits.check(name, "signs", len(raw.markers))
    tracks = [track for track in raw.tracks if len(track.notes)]
    limits.check(name, "tracks", len(tracks))
    notes = Notes(*_columns([track.notes for track in tracks], NOTE_COLUMNS))
    if len(notes) and not 0 <= notes.onset_ticks.min() <= notes.onset_ticks.max() < TAIL_TICKS:
        raise MidiError(f"{name} goes on for more than {TAIL_TICKS:,} ticks: give a part of it")
    markers = [marker_in(marker.time, marker.text) for marker in raw.markers]
    signs = sum(m.text == SIGN and m.onset_ticks >= TAIL_TICKS for m in markers)
    if signs != len(bodies):
        return None, 0
    hanging = notes.end_ticks >= TAIL_TICKS
    if hanging.any():
        longest = LONGEST_HANGING_BEATS * ticks_per_beat
        ended = np.minimum(notes.duration_ticks - TAIL_TICKS, longest)
        notes = notes.replace(duration_ticks=np.where(hanging, ended, notes.duration_ticks))
    tempos, meters = raw.tempos.numpy(), raw.time_signatures.numpy()
    with np.errstate(divide="ignore"):
        beats_per_minute = MICROSECONDS_PER_MINUTE / tempos["mspq"]
    score = Score(
        ticks_per_beat=ticks_per_beat,
        notes=notes,
        tracks=tuple(Track(t.name.strip(BLANKS), t.program, t.is_drum) for t in tracks),
        tempos=Tempos(tempos["time"], beats_per_minute),
        meters=Meters(meters["time"], meters["numerator"], meters["denominator"]),
        pedals=_pedals([track.controls for track in tracks]),
        markers=tuple(marker for marker in markers if 0 <= marker.onset_ticks < TAIL_TICKS),
    )
    return score, int(hanging.sum())


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
        track = (changes, body, TAIL, *ends, b"\x00", END_OF_TRACK)
        parts += (TRACK, sum(map(len, track)).to_bytes(4, "big"), *track)
    return b"".join(parts)


def _columns(lists: Sequence[Any], names: Sequence[str]) -> list[np.ndarray]:
    """Return columns of several symusic lists end to end, and of each row the number of its list."""
    columns = [events.numpy() for events in lists]
    joined = [
        np.concatenate([column[name] for column in columns]) if columns else np.empty(0)
        for name in names
    ]
    return [*joined, np.repeat(np.arange(len(lists)), [len(events) for events in lists])]


def _pedals(lists: Sequence[Any]) -> Pedals:
    """Return the pedals' spans; one that is held at the end is released there.

    They are read from the controller itself: symusic's own spans may start at tick 0 for no reason.
    """
    ticks, number, value, track = _columns(lists, CONTROL_COLUMNS)
    rows = number == SUSTAIN
    ticks, down, track = ticks[rows], value[rows] >= DOWN, track[rows]
    moved = np.append(True, (np.diff(track) != 0) | (np.diff(down) != 0))[: len(ticks)]
    ticks, down, track = ticks[moved], down[moved], track[moved]
    # Within a track the pedal now goes up and down by turns; a first "up" ends nothing.
    press = np.flatnonzero(down[:-1] & (track[:-1] == track[1:]))
    pedals = Pedals(ticks[press], ticks[press + 1] - ticks[press], track[press])
    held = pedals.onset_ticks + pedals.duration_ticks >= TAIL_TICKS
    if held.any():
        pedals = pedals.replace(duration_ticks=pedals.duration_ticks - held * TAIL_TICKS)
    kept = (pedals.duration_ticks > 0) & (pedals.onset_ticks >= 0)
    return pedals if kept.all() else pedals[kept]


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
    if chunks.kind == 2 and len(chunks.bodies) > 1:
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
    if chunks.kind != 2 or len(chunks.bodies) == 1:
        times = FileTimes(np.array([0.0, 1.0]), np.array([0.0, ticks_per_beat]))
        score = score.replace(file_times=times)
    score = finished(score, limits, name)
    tracks = tuple(replace(track, sources=(i,)) for i, track in enumerate(score.tracks))
    score = score.replace(tracks=tracks)
    return score.replace(remarks=tuple(dict.fromkeys((*chunks.remarks, *remarks, *score.remarks))))


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
