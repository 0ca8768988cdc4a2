"""A written score as it is played: its bars in order, repeats unfolded, ties joined, within the limits."""

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
    Line,
    Part,
    PartBar,
    Time,
    Written,
    bar_ticks,
    lay,
    rounded,
)
from tokenization.score import FileTimes, Marker, Meters, Notes, Score, Tempos, Track

JUMPS = ("dacapo", "dalsegno")


class TooLong(ValueError):
    """The repeats make more bars than are allowed."""


def play_order(lines: Sequence[Line], most_bars: int) -> list[int]:
    """Return the numbers of the bars as they are played.

    Repeats are not taken again after a jump (da capo, dal segno), and of several endings the last
    is played then. A coda after the jump comes for the first time, with its repeats.
    """
    groups = _ending_groups(lines)
    order: list[int] = []
    bar, start, time, left = 0, 0, 1, 0  # left: the bar from which the jump went back
    jumped = again = False  # again: where the music is now, it was before the jump
    looked, codas = 0, [at for at, line in enumerate(lines) if "coda" in line.marks]
    while bar < len(lines):
        looked += 1
        if len(order) >= most_bars or looked > 8 * most_bars:
            raise TooLong(f"more than {most_bars:,} bars with its repeats")
        line, group = lines[bar], groups[bar]
        if bar and not group and groups[bar - 1] and bar > start:  # past all endings of a repeat
            start, time = bar, 1
        if line.forward and bar != start:
            start, time = bar, 1
        if line.endings and (max(group) if again else time) not in line.endings:
            bar += 1
            continue
        order.append(bar)
        if jumped and "fine" in line.marks:
            break
        later = bisect_right(codas, bar)
        if jumped and "tocoda" in line.marks and later < len(codas):
            bar = start = codas[later]
            time, again = 1, bar <= left
        elif line.backward and not again and time < max(line.backward, 0, *group):
            bar, time = start, time + 1
        elif not jumped and not line.marks.isdisjoint(JUMPS):
            jumped, again, left = True, True, bar
            segno = next((at for at, one in enumerate(lines) if "segno" in one.marks), 0)
            bar = start = segno if "dalsegno" in line.marks else 0
        else:
            # Unless the ending of its last time follows, as in `A:|2 B`.
            goes_on = any(after and 1 not in after for after in groups[bar + 1 : bar + 2])
            if line.backward and not group and not goes_on:
                start, time = bar + 1, 1
            bar += 1
    return order


def section_order(lines: Sequence[Line], sections: str, most_bars: int) -> list[int]:
    """Return the numbers of the bars where sections come in an order of their own, each with its repeats.

    What stands before the first section comes first.
    """
    starts = [bar for bar, line in enumerate(lines) if line.section]
    stops = [*starts[1:], len(lines)]
    bars = {lines[start].section: (start, stop) for start, stop in zip(starts, stops, strict=True)}
    played = {  # once each: a section of which nothing is played costs time, too
        section: [start + bar for bar in play_order(lines[start:stop], most_bars)]
        for section, (start, stop) in bars.items()
        if section in sections
    }
    order = play_order(lines[: starts[0]], most_bars)
    for section in sections:
        order += played[section]
        if len(order) > most_bars:
            raise TooLong(f"more than {most_bars:,} bars with its repeats")
    return order


def _ending_groups(lines: Sequence[Line]) -> list[frozenset[int]]:
    """Return for each bar the times of all endings side by side that it is in; empty where it is in none."""
    groups: list[frozenset[int]] = [frozenset()] * len(lines)
    first = 0
    while first < len(lines):
        last = first
        while last < len(lines) and lines[last].endings:
            last += 1
        together = frozenset().union(*(line.endings or () for line in lines[first:last]))
        groups[first:last] = [together] * (last - first)
        first = max(last, first + 1)
    return groups


USUAL_TICKS_PER_BEAT = 480
UNSAID: Time = (4, 4)
Row = list[int]  # onset, duration, pitch, velocity, track
Sign = TypeVar("Sign", float, str)


class Laid(NamedTuple):
    """Where the bars of a written score lie when it is played."""

    order: list[int]  # the numbers of the bars as they are played
    starts: list[int]  # the tick at which each of these starts
    times: list[Time]  # of each bar
    lengths: list[int]  # of each bar
    metres: list[tuple[int, Time]]  # with the ticks from which on they hold


def laid_out(written: Written) -> Laid:
    """Return where the bars lie; what is too long or holds no notes raises a MidiError."""
    limits, name = written.limits, written.name
    try:
        if written.sections:
            order = section_order(written.lines, written.sections, limits.beats)
        else:
            order = play_order(written.lines, limits.beats)
    except TooLong as error:
        raise MidiError(f"{name} has {error}: give a part of it") from None
    # Each bar in the parts that have it.
    parts = [
        [part.bars[bar] for part in written.parts if bar < len(part.bars)]
        for bar in range(len(written.lines))
    ]
    sizes = [sum(len(bar.notes) for bar in parts[number]) for number in order]
    limits.check(name, "notes", sum(sizes))
    signs = [len(line.tempos) + len(line.chords) for line in written.lines]
    limits.check(name, "signs", sum(signs[bar] for bar in order))
    if not sum(sizes):
        if any(line.chords for line in written.lines):
            raise MidiError(f"{name} holds chords but no notes: add a melody to them")
        raise MidiError(f"{name} holds no notes: choose a file with music in it")
    times = _times(written)
    lengths = [_length(bars, time) for bars, time in zip(parts, times, strict=True)]
    starts, metres = lay([lengths[i] for i in order], [times[i] for i in order])
    limits.check(name, "beats", (starts[-1] + lengths[order[-1]]) / TICKS_PER_BEAT)
    return Laid(order, starts, times, lengths, metres)


def played(written: Written, where: Laid | None = None) -> Score:
    """Return the score; what is too long or holds no notes raises a MidiError.

    The times of its file are ticks of the played score, TICKS_PER_BEAT a beat. `where` its bars lie may be known.
    """
    limits, name = written.limits, written.name
    order, starts, _, _, metres = where or laid_out(written)
    laid = list(zip(order, starts, strict=True))
    rows: list[Row] = []
    tracks: list[Track] = []
    for part in written.parts:
        rows += _sounding(part, laid, len(tracks))
        tracks += part.tracks
    # Before numpy, whose numbers end somewhere: a note may last longer than its bar.
    limits.check(name, "beats", max(row[0] + row[1] for row in rows) / TICKS_PER_BEAT)
    heard, used = np.unique([row[4] for row in rows], return_inverse=True)
    onset, duration, pitch, velocity, _ = np.array(rows, dtype=np.int64).T
    said = [(0, bpm) for line in written.lines[: order[0]] for _, bpm in line.tempos][-1:]
    now = said[0][1] if said else DEFAULT_BEATS_PER_MINUTE
    most = round(limits.beats * TICKS_PER_BEAT)
    tempos = said + _as_played([line.tempos for line in written.lines], laid, now, most)
    if tempos and tempos[0][0] <= starts[0]:  # it holds in the rest before a pickup, too
        tempos[0] = (0, tempos[0][1])
    chords = _as_played([line.chords for line in written.lines], laid, "", most)
    score = Score(
        ticks_per_beat=TICKS_PER_BEAT,
        notes=Notes(onset, duration, pitch, velocity, used),
        tracks=tuple(replace(tracks[i], sources=(i,)) for i in heard.tolist()),
        tempos=Tempos(*_columns(tempos, 2)),
        meters=Meters(*_columns([(at, *metre) for at, metre in metres], 3)),
        markers=tuple(Marker(at, chord) for at, chord in chords),
        beats_known=True,
        remarks=tuple(written.remarks),
        file_times=FileTimes(np.array([0.0, 1.0]), np.array([0.0, TICKS_PER_BEAT])),
    )
    return complete_within(_usual(score), limits, name)


def _length(bars: list[PartBar], time: Time) -> int:
    """Return how long a bar is in all its parts: as the longest, but for rests past a whole bar that one has."""
    longest, whole = max((bar.length for bar in bars), default=0), bar_ticks(time)
    if longest > whole and any(bar.length == whole for bar in bars):
        heard = (note.ticks + note.length for bar in bars for note in bar.notes)
        longest = longest if max(heard, default=0) > whole else whole
    return rounded(longest, time)


def _times(written: Written) -> list[Time]:
    """Return the time of each bar: the last one that was said, the first one before any is."""
    said = next((line.time for line in written.lines if line.time), UNSAID)
    times = []
    for line in written.lines:
        said = line.time or said
        times.append(said)
    return times


def _sounding(part: Part, laid: list[tuple[int, int]], first_track: int) -> list[Row]:
    """Return the notes of a part, tied ones as one."""
    rows: list[Row] = []
    # By pitch and the tick where they go on: two voices may hold one pitch.
    open_ties: defaultdict[tuple[int, int], list[Row]] = defaultdict(list)
    for bar, start in laid:
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


def _as_played(
    written: list[list[tuple[int, Sign]]], laid: list[tuple[int, int]], now: Sign, most: int
) -> list[tuple[int, Sign]]:
    """Return the signs of the bars at their ticks, `most` of them from the bar; `now` is in force before the first.

    Where the music goes back to a bar, what was in force when it first came there is said again.
    """
    found: list[tuple[int, Sign]] = []
    at_first: dict[int, Sign] = {}
    last = -1
    for bar, start in laid:
        before = at_first.setdefault(bar, now)
        if bar <= last and before and before != now and all(at > 0 for at, _ in written[bar]):
            found.append((start, before))
        signs = [(max(0, start + at), sign) for at, sign in written[bar] if at <= most]
        found += sorted(signs, key=lambda sign: sign[0])  # the last written on a tick stays last
        now, last = (found[-1][1] if found else now), bar
    return sorted(found, key=lambda sign: sign[0])


def _usual(score: Score) -> Score:
    """Return the score at the usual resolution where all of it is whole numbers of ticks there."""
    step = score.ticks_per_beat // USUAL_TICKS_PER_BEAT
    ticks = (score.notes.onset_ticks, score.notes.duration_ticks, score.tempos.onset_ticks)
    whole = all((column % step == 0).all() for column in (*ticks, score.meters.onset_ticks))
    return score.rescaled(USUAL_TICKS_PER_BEAT) if whole else score


def _columns(rows: list[tuple], count: int) -> np.ndarray:
    return np.array(rows, dtype=np.float64).reshape(-1, count).T
