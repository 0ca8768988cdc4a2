"""The sustain pedal of a channel, written into every track with notes on that channel.

It is a message to a channel, whichever track it stands in and whichever program is in force there;
symusic gives it to one track and program alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from tokenization.midi.repair import BYTES, END, DamagedTrack, meta_event, serialised, track_events

SUSTAIN, DOWN = 64, 64  # the controller, and the least value at which the pedal is down
DRUM_CHANNEL = 9
MOST_MOVES = 1 << 18  # that are written into tracks: pedals of more stay with the track they are in
_CHANNELS = [channel for channel in range(16) if channel != DRUM_CHANNEL]
# Running or not, each kind that a track has is spelled out once.
_NOTE, _CONTROL = (
    {channel: re.compile(b"%c[\0-\x7f]{2}" % (first | channel)) for channel in _CHANNELS}
    for first in (0x90, 0xB0)
)
_PROGRAM = {channel: re.compile(b"%c[\0-\x7f]" % (0xC0 | channel)) for channel in _CHANNELS}

Events = list[tuple[int, int, bytes]]  # tick, status, data
Moves = dict[int, list[tuple[int, int]]]  # of a channel's pedal: tick, value


def with_channel_pedals(bodies: Sequence[bytes], programs: Mapping[int, int]) -> Sequence[bytes]:
    """Return the tracks with the pedals of their channels, the same ones where that changes nothing.

    `programs` are those in force at the start. A damaged track is for the repair.
    """
    if not any(_may_concern(bodies, channel) for channel in _CHANNELS):
        return bodies
    try:
        tracks = [list(track_events(body)) for body in bodies]
    except DamagedTrack:
        return bodies
    if any(status < 0xF0 and not data.isascii() for events in tracks for _, status, data in events):
        return bodies
    notes = [{s & 15 for _, s, _ in events if 0x90 <= s < 0xA0} for events in tracks]
    if sum(len(channels - {DRUM_CHANNEL}) for channels in notes) > len(_CHANNELS):
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


def _programs(events: Events, moves: Moves, programs: Mapping[int, int]) -> dict[int, list[int]]:
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
            yield tick, BYTES[status] + data
        if others:
            yield tick, bytes((0xC0 | channel, now[channel]))
        yield tick, meta_event(status, data) if status >= 0xF0 else BYTES[status] + data
