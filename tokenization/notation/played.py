"""Play a written score: bars in order with repeats unfolded, and ties joined, within the limits."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

import numpy as np

from tokenization.analysis.beats import DEFAULT_BEATS_PER_MINUTE
from tokenization.midi.conventions import complete_within
from tokenization.midi.limits import MidiError
from tokenization.notation.written import (
    TICKS_PER_BEAT,
    Part,
    PartBar,
    SharedBar,
    Time,
    WrittenScore,
    bar_ticks,
    place_bars,
    rounded,
)
from tokenization.score import FileTimes, Marker, Meters, Notes, Score, Tempos, Track

JUMPS = ("dacapo", "dalsegno")


class TooLong(ValueError):
    """The repeats produce more bars than are allowed."""


def play_order(bars: Sequence[SharedBar], most_bars: int) -> list[int]:
    """Return the numbers of the bars in the order of playing.

    After a jump (da capo, dal segno) repeats are not taken and the last ending is played. A coda after
    the jump is new music, so its repeats are taken.
    """
    groups = _ending_groups(bars)
    order: list[int] = []
    at, start, time = 0, 0, 1  # the start of the repeat, and the number of the pass through it
    jumped = replayed = False  # replayed: this music was already played before the jump
    jumped_from = 0
    visited, codas = 0, [number for number, bar in enumerate(bars) if "coda" in bar.marks]
    while at < len(bars):
        visited += 1
        if len(order) >= most_bars or visited > 8 * most_bars:
            raise TooLong(f"more than {most_bars:,} bars with its repeats")
        bar, group = bars[at], groups[at]
        if at and not group and groups[at - 1] and at > start:  # after all endings of a repeat
            start, time = at, 1
        if bar.forward and at != start:
            start, time = at, 1
        if bar.endings and (max(group) if replayed else time) not in bar.endings:
            at += 1
            continue
        order.append(at)
        if jumped and "fine" in bar.marks:
            break
        next_coda = bisect_right(codas, at)
        if jumped and "tocoda" in bar.marks and next_coda < len(codas):
            at = start = codas[next_coda]
            time, replayed = 1, at <= jumped_from
        elif bar.backward and not replayed and time < max(bar.backward, 0, *group):
            at, time = start, time + 1
        elif not jumped and not bar.marks.isdisjoint(JUMPS):
            jumped, replayed, jumped_from = True, True, at
            segno = next((number for number, bar in enumerate(bars) if "segno" in bar.marks), 0)
            at = start = segno if "dalsegno" in bar.marks else 0
        else:
            # A repeat without a first ending can be followed by its last one, as in `A:|2 B`.
            ending_follows = any(after and 1 not in after for after in groups[at + 1 : at + 2])
            if bar.backward and not group and not ending_follows:
                start, time = at + 1, 1
            at += 1
    return order


def _ending_groups(bars: Sequence[SharedBar]) -> list[frozenset[int]]:
    """Return for each bar the passes of all adjacent endings that it belongs to; empty outside endings."""
    groups: list[frozenset[int]] = [frozenset()] * len(bars)
    first = 0
    while first < len(bars):
        last = first
        while last < len(bars) and bars[last].endings:
            last += 1
        times = frozenset().union(*(bar.endings or () for bar in bars[first:last]))
        groups[first:last] = [times] * (last - first)
        first = max(last, first + 1)
    return groups


USUAL_TICKS_PER_BEAT = 480
DEFAULT_TIME: Time = (4, 4)
Row = list[int]  # onset, duration, pitch, velocity, track
Sign = TypeVar("Sign", float, str)  # a tempo or a chord


class BarLayout(NamedTuple):
    """The bars of a written score on the time line of the played one."""

    order: list[int]  # the numbers of the bars in the order of playing
    starts: list[int]  # the tick at which each of these starts
    times: list[Time]  # of each written bar
    lengths: list[int]  # of each written bar
    metres: list[tuple[int, Time]]  # with the ticks at which they begin


def bar_layout(written: WrittenScore) -> BarLayout:
    """Unfold the repeats and place the bars; raises MidiError if the score is too long or has no notes."""
    limits, name = written.limits, written.name
    try:
        order = play_order(written.bars, limits.beats)
    except TooLong as error:
        raise MidiError(f"{name} has {error}: give a part of it") from None
    # Each bar in the parts that have it.
    parts = [
        [part.bars[bar] for part in written.parts if bar < len(part.bars)]
        for bar in range(len(written.bars))
    ]
    sizes = [sum(len(bar.notes) for bar in parts[number]) for number in order]
    limits.check(name, "notes", sum(sizes))
    signs = [len(bar.tempos) + len(bar.chords) for bar in written.bars]
    limits.check(name, "signs", sum(signs[bar] for bar in order))
    if not sum(sizes):
        if any(bar.chords for bar in written.bars):
            raise MidiError(f"{name} holds chords but no notes: add a melody to them")
        raise MidiError(f"{name} holds no notes: choose a file with music in it")
    times = _times(written)
    lengths = [_length(bars, time) for bars, time in zip(parts, times, strict=True)]
    starts, metres = place_bars([lengths[i] for i in order], [times[i] for i in order])
    limits.check(name, "beats", (starts[-1] + lengths[order[-1]]) / TICKS_PER_BEAT)
    return BarLayout(order, starts, times, lengths, metres)


def played(written: WrittenScore, layout: BarLayout | None = None) -> Score:
    """Return the played score; raises MidiError if it is too long or has no notes.

    Its `file_times` are in ticks of TICKS_PER_BEAT. `layout` saves computing `bar_layout` again.
    """
    limits, name = written.limits, written.name
    order, starts, _, _, metres = layout or bar_layout(written)
    placed = list(zip(order, starts, strict=True))
    rows: list[Row] = []
    tracks: list[Track] = []
    for part in written.parts:
        rows += _joined_notes(part, placed, len(tracks))
        tracks += part.tracks
    # Checked before the conversion to numpy, whose integers could overflow: a note can outlast its bar.
    limits.check(name, "beats", max(row[0] + row[1] for row in rows) / TICKS_PER_BEAT)
    used, track = np.unique([row[4] for row in rows], return_inverse=True)
    onset, duration, pitch, velocity, _ = np.array(rows, dtype=np.int64).T
    initial = [(0, bpm) for bar in written.bars[: order[0]] for _, bpm in bar.tempos][-1:]
    current = initial[0][1] if initial else DEFAULT_BEATS_PER_MINUTE
    last = round(limits.beats * TICKS_PER_BEAT)
    tempos = initial + _signs_as_played([bar.tempos for bar in written.bars], placed, current, last)
    if tempos and tempos[0][0] <= starts[0]:  # include the rest before a pickup
        tempos[0] = (0, tempos[0][1])
    chords = _signs_as_played([bar.chords for bar in written.bars], placed, "", last)
    score = Score(
        ticks_per_beat=TICKS_PER_BEAT,
        notes=Notes(onset, duration, pitch, velocity, track),
        tracks=tuple(replace(tracks[i], sources=(i,)) for i in used.tolist()),
        tempos=Tempos(*_columns(tempos, 2)),
        meters=Meters(*_columns([(at, *metre) for at, metre in metres], 3)),
        markers=tuple(Marker(at, chord) for at, chord in chords),
        beats_known=True,
        remarks=tuple(dict.fromkeys(written.remarks)),
        file_times=FileTimes(np.array([0.0, 1.0]), np.array([0.0, TICKS_PER_BEAT])),
    )
    return complete_within(_at_usual_resolution(score), limits, name)


def _length(bars: list[PartBar], time: Time) -> int:
    """Return the length of a bar: the longest of its parts, ignoring rests past a full bar if any part is full."""
    longest, full = max((bar.length for bar in bars), default=0), bar_ticks(time)
    if longest > full and any(bar.length == full for bar in bars):
        ends = (note.ticks + note.length for bar in bars for note in bar.notes)
        longest = longest if max(ends, default=0) > full else full
    return rounded(longest, time)


def _times(written: WrittenScore) -> list[Time]:
    """Return the time signature of each bar; the first one also applies to the bars before it."""
    time = next((bar.time for bar in written.bars if bar.time), DEFAULT_TIME)
    times = []
    for bar in written.bars:
        time = bar.time or time
        times.append(time)
    return times


def _joined_notes(part: Part, placed: list[tuple[int, int]], first_track: int) -> list[Row]:
    """Return the notes of a part, with tied notes joined."""
    rows: list[Row] = []
    # By pitch and tick of continuation; a list, since two voices can hold the same pitch.
    open_ties: defaultdict[tuple[int, int], list[Row]] = defaultdict(list)
    for bar, start in placed:
        for note in part.bars[bar].notes if bar < len(part.bars) else ():
            onset = max(0, start + note.ticks)
            waiting = open_ties[note.pitch, onset] if note.tied_from else []
            if waiting:
                row = waiting.pop(0)
                row[1] += note.length
            else:
                track = first_track + note.instrument
                row = [onset, note.length, note.pitch, note.velocity, track]
                rows.append(row)
            if note.tied_on:
                open_ties[note.pitch, row[0] + row[1]].append(row)
    return rows


def _signs_as_played(
    signs: list[list[tuple[int, Sign]]], placed: list[tuple[int, int]], current: Sign, last: int
) -> list[tuple[int, Sign]]:
    """Return the signs of all bars at their ticks when played; `current` is in force before the first.

    When the music jumps back to a bar, the sign in force there at first is repeated. Signs more than `last` ticks after
    the start of their bar are dropped.
    """
    found: list[tuple[int, Sign]] = []
    at_first: dict[int, Sign] = {}
    previous = -1
    for bar, start in placed:
        before = at_first.setdefault(bar, current)
        if bar <= previous and before and before != current and all(at > 0 for at, _ in signs[bar]):
            found.append((start, before))
        own = [(max(0, start + at), sign) for at, sign in signs[bar] if at <= last]
        found += sorted(own, key=lambda sign: sign[0])  # stable: the last sign on a tick stays last
        current, previous = (found[-1][1] if found else current), bar
    return sorted(found, key=lambda sign: sign[0])


def _at_usual_resolution(score: Score) -> Score:
    """Convert a score to the usual resolution if that is exact."""
    step = score.ticks_per_beat // USUAL_TICKS_PER_BEAT
    ticks = (score.notes.onset_ticks, score.notes.duration_ticks, score.tempos.onset_ticks)
    is_exact = all((column % step == 0).all() for column in (*ticks, score.meters.onset_ticks))
    return score.rescaled(USUAL_TICKS_PER_BEAT) if is_exact else score


def _columns(rows: list[tuple], count: int) -> np.ndarray:
    return np.array(rows, dtype=np.float64).reshape(-1, count).T
