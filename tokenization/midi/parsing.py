"""Tracks of bytes to a raw score by symusic, which reads strictly and fast.

It silently drops notes that are never ended and what stands after some unusual events. So each
track gets a tail far after its end that ends every pitch and pedal and carries a sign: a note that
ends there was never ended, and a sign that is missing shows that symusic lost the thread. Where
either is so, or symusic refuses, the tracks are repaired and read once more.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

import numpy as np
import symusic

from tokenization.midi.channel_pedals import DOWN, SUSTAIN, with_channel_pedals
from tokenization.midi.chunks import END_OF_TRACK, HEADER, TRACK
from tokenization.midi.limits import REPAIRABLE_BYTES, Limits, MidiError
from tokenization.midi.repair import (
    LAST_TICK,
    LONGEST_HANGING_BEATS,
    DamagedTrack,
    RepairedTrack,
    repair_track,
    track_events,
    variable_length,
)
from tokenization.score import Marker, Meters, Notes, Pedals, Score, Tempos, Track
from tokenization.wording import counted

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
TEMPO_COLUMNS = ("time", "mspq")
METER_COLUMNS = ("time", "numerator", "denominator")
MICROSECONDS_PER_MINUTE = 60e6
LARGE_REMARK = "More such notes may be missing: the file is too large to be repaired."
BLANKS = "\0 \t\r\n"
REPLACEMENT = "\ufffd"  # in place of bytes that are no UTF-8


def parse_tracks(bodies: Sequence[bytes], ticks_per_beat: int, limits: Limits, name: str) -> Score:
    """Return notes, events and tracks as they are written: a note may last no tick."""
    programs = _programs_set_apart(bodies)
    first_programs = dict(zip((s & 15 for s in programs[1::3]), programs[2::3], strict=True))
    is_small = sum(map(len, bodies)) <= REPAIRABLE_BYTES
    attempts = ([b for b in bodies if _may_mislead(b)], bodies) if is_small else ((),)
    for doubtful in attempts:
        repaired = {body: repair_track(body, ticks_per_beat) for body in doubtful}
        clean = [repaired[body].body if body in repaired else body for body in bodies]
        if is_small:
            clean = with_channel_pedals(clean, first_programs)
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


def _programs_set_apart(bodies: Sequence[bytes]) -> bytes:
    """Return program changes for tick 0: those of tracks without notes hold for all the others."""
    programs: dict[int, bytes] = {}
    apart = (body for body in bodies if _channels(body, 0xC0) and not _has_notes(body))
    for body in islice(apart, SET_UP_TRACKS):
        with suppress(DamagedTrack):
            for _, status, data in track_events(body[:SET_UP_BYTES]):
                if 0xC0 <= status < 0xD0 and data[0] < 128:
                    programs.setdefault(status, bytes((0, status)) + data)
    return b"".join(programs.values())


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
    bodies: Sequence[bytes], programs: bytes, ticks_per_beat: int, limits: Limits, name: str
) -> tuple[Score | None, int]:
    """Return what symusic reads, if it reads all, and how many of its notes never ended."""
    try:
        raw: Any = symusic.Score.from_midi(_with_tails(bodies, programs, ticks_per_beat))
    except RuntimeError:
        return None, 0
    limits.check(name, "notes", raw.note_num())
    tracks = [track for track in raw.tracks if len(track.notes)]
    limits.check(name, "tracks", len(tracks))
    notes = Notes(*_columns([track.notes for track in tracks], NOTE_COLUMNS))
    if len(notes) and not 0 <= notes.onset_ticks.min() <= notes.onset_ticks.max() < TAIL_TICKS:
        raise MidiError(f"{name} goes on for more than {TAIL_TICKS:,} ticks: give a part of it")
    markers = [Marker(marker.time, marker.text) for marker in raw.markers]
    signs = sum(m.text == SIGN and m.onset_ticks >= TAIL_TICKS for m in markers)
    if signs != len(bodies):
        return None, 0
    hanging = notes.end_ticks >= TAIL_TICKS
    if hanging.any():
        longest = LONGEST_HANGING_BEATS * ticks_per_beat
        ended = np.minimum(notes.duration_ticks - TAIL_TICKS, longest)
        notes = notes.replace(duration_ticks=np.where(hanging, ended, notes.duration_ticks))
    (tempo_ticks, microseconds), (meter_ticks, *meters) = (
        _columns([events], names)[:-1]
        for events, names in ((raw.tempos, TEMPO_COLUMNS), (raw.time_signatures, METER_COLUMNS))
    )
    with np.errstate(divide="ignore"):
        tempos = Tempos(tempo_ticks, MICROSECONDS_PER_MINUTE / microseconds)
    score = Score(
        ticks_per_beat=ticks_per_beat,
        notes=notes,
        tracks=tuple(Track(t.name.strip(BLANKS), t.program, t.is_drum) for t in tracks),
        tempos=tempos,
        meters=Meters(meter_ticks, *meters),
        pedals=_pedals([track.controls for track in tracks]),
        markers=tuple(marker for marker in markers if 0 <= marker.onset_ticks < TAIL_TICKS),
    )
    return score, int(hanging.sum())


def _with_tails(bodies: Sequence[bytes], programs: bytes, ticks_per_beat: int) -> bytes:
    """Return a MIDI file of the tracks, with programs before and a tail after each."""
    parts = [HEADER, struct.pack(">IHHH", 6, 1, len(bodies), ticks_per_beat)]
    for body in bodies:
        ends = [NOTE_ENDS[channel] for channel in _channels(body, 0x90)]
        ends += [PEDAL_ENDS[channel] for channel in _channels(body, 0xB0)]
        if body.endswith(END_OF_TRACK):
            body = body[: -len(END_OF_TRACK)]
        else:
            body += b"\x00"
        track = (programs, body, TAIL, *ends, b"\x00", END_OF_TRACK)
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
