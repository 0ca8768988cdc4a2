"""A written score, bar by bar, and how it is played: the common ground of MusicXML and ABC.

Repeats are unfolded and ties joined, within the limits.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import NamedTuple, TypeVar

import numpy as np

from tokenization.analysis.beats import DEFAULT_BEATS_PER_MINUTE
from tokenization.limits import Limits, MusicFileError, NoNotes, complete_within
from tokenization.score import (
    FileTimes,
    KeyChanges,
    Lyric,
    Marker,
    Meters,
    Notes,
    Score,
    Tempos,
    Texts,
    Track,
)

TICKS_PER_BEAT = 10080  # 2⁵·3²·5·7: tuplets of 3, 5, 7 and 9 last whole numbers of ticks
SIXTEENTH_TICKS = TICKS_PER_BEAT // 4
GRACE_TICKS = TICKS_PER_BEAT // 8  # each grace note is a 32nd; a single one is a 16th
VELOCITY = 80  # without dynamics
# As notation programs play them: steps of about 15.
DYNAMICS = {
    **{"pppp": 12, "ppp": 22, "pp": 34, "p": 50, "mp": 65, "mf": 80, "f": 92, "ff": 104},
    **{"fff": 116, "ffff": 124, "sf": 104, "sfz": 104, "fp": 70, "fz": 104},
}


@dataclass(slots=True)
class WrittenNote:
    """A note of a bar; `ticks` count from the start of the bar and can be negative for grace notes."""

    ticks: int
    length: int
    pitch: int
    velocity: int
    instrument: int  # index into the tracks of its part
    tied_from: bool = False  # tied to a note that ends where this one starts
    tied_on: bool = False  # tied to a note that starts where this one ends


class Syllable(NamedTuple):
    """What is sung at a place of a bar in the first verse."""

    ticks: int
    text: str
    instrument: int
    continues: bool = False  # the next syllable is of the same word


@dataclass(slots=True)
class PartBar:
    """One bar of one part."""

    notes: list[WrittenNote] = field(default_factory=list)
    syllables: list[Syllable] = field(default_factory=list)
    length: int = 0  # where its last note or rest ends


@dataclass
class Part:
    """The part of a player, with one track per instrument."""

    tracks: list[Track]
    bars: list[PartBar] = field(default_factory=list)


@dataclass
class SharedBar:
    """What all parts share in a bar: time signature, tempos, chords, repeats and jumps."""

    time: tuple[int, int] | None = None  # None if it does not change
    # Of a part at concert pitch: sharps, or flats if negative, and whether it says minor; None if there is none.
    key_signature: tuple[int, bool] | None = None
    tempos: list[tuple[int, float]] = field(default_factory=list)  # (ticks, quarters per minute)
    chords: list[tuple[int, str]] = field(default_factory=list)
    forward: bool = False  # whether a repeat starts here
    backward: int = 0  # how many times the repeat that ends here is played; 0 if none ends here
    endings: frozenset[int] | None = None  # the passes in which it is played; None: all
    closes_ending: bool = False
    marks: set[str] = field(default_factory=set)  # segno, coda, fine, tocoda, dacapo, dalsegno


@dataclass
class WrittenScore:
    """A written score, which is checked against the limits as it grows."""

    limits: Limits
    name: str  # of the file, for errors
    parts: list[Part] = field(default_factory=list)
    bars: list[SharedBar] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    title: str = ""
    composer: str = ""

    def count(self, quantity: str, more: int) -> None:
        """Add to the count of a quantity; raises MusicFileError if it exceeds its limit."""
        self.counts[quantity] += more
        self.limits.check(self.name, quantity, self.counts[quantity])

    def enter_bar(self, number: int) -> SharedBar:
        """Count a bar of a part and return its shared bar, which the first part to reach it creates."""
        if number == len(self.bars):
            self.bars.append(SharedBar())
        self.limits.check(self.name, "beats", len(self.bars))
        self.count("bars", 1)
        return self.bars[number]


def place_graces(graces: Sequence[WrittenNote | None], tick: int) -> list[WrittenNote]:
    """Place grace notes, of which some can be rests, before the tick of the note they lead to."""
    length = GRACE_TICKS if len(graces) > 1 else 2 * GRACE_TICKS
    sounding = [(at, note) for at, note in enumerate(graces) if note is not None]
    for at, note in sounding:
        note.ticks, note.length = tick - (len(graces) - at) * length, length
    return [note for _, note in sounding]


# Bar starts and metres of a played score.
#
# A pickup becomes the end of a full bar that begins with rests. Consecutive short bars that add up to a full bar, as
# around a repeat sign, are merged. Any other bar whose length differs from its time signature gets its own metre.

Time = tuple[int, int]
FINEST_DENOMINATOR = 64
CLOSE_TICKS = SIXTEENTH_TICKS // 4  # tolerance for rounded tuplets


def bar_ticks(time: Time) -> int:
    """Return the length of a bar of a time signature."""
    return 4 * TICKS_PER_BEAT * time[0] // time[1]


def rounded(ticks: int, time: Time) -> int:
    """Round the length of a bar: to its time signature if it is close or 0, otherwise up to a sixteenth."""
    if not ticks or abs(ticks - bar_ticks(time)) <= CLOSE_TICKS:
        return bar_ticks(time)
    return -(-ticks // SIXTEENTH_TICKS) * SIXTEENTH_TICKS


def place_bars(
    lengths: Sequence[int], times: Sequence[Time]
) -> tuple[list[int], list[tuple[int, Time]]]:
    """Return the start of each bar, and each metre with the tick at which it begins."""
    full = [bar_ticks(time) for time in times]
    group_sizes = _group_sizes(lengths, full)
    starts: list[int] = []
    metres: list[tuple[int, Time]] = []
    tick = bar = 0
    if lengths and lengths[0] < full[0]:
        metres.append((0, times[0]))
        starts.append(full[0] - lengths[0])
        tick, bar = full[0], 1
    while bar < len(lengths):
        size = group_sizes[bar]
        metre, is_last = times[bar], bar + 1 == len(lengths)
        short_end = is_last and lengths[bar] < full[bar]  # rests complete it
        if size == 1 and lengths[bar] % full[bar] and not short_end:
            metre = own_metre(lengths[bar], metre)
        if not metres or metres[-1][1] != metre:
            metres.append((tick, metre))
        for length in lengths[bar : bar + size]:
            starts.append(tick)
            tick += length
        bar += size
    return starts, metres


def _group_sizes(lengths: Sequence[int], full: Sequence[int]) -> list[int]:
    """Return for each bar how many bars from it on, with equal times, add up to a full bar; 1 if none do."""
    sums = [0, *accumulate(lengths)]  # strictly increasing, since no bar is empty
    counts, same = [1] * len(lengths), len(lengths)  # same: the end of the bars with equal times
    for bar in reversed(range(len(lengths))):
        if bar + 1 < len(lengths) and full[bar] != full[bar + 1]:
            same = bar + 1
        end = bisect_left(sums, sums[bar] + full[bar], bar)
        if end <= same and sums[end] - sums[bar] == full[bar]:
            counts[bar] = end - bar
    return counts


def own_metre(length: int, time: Time, beat: int = TICKS_PER_BEAT) -> Time:
    """Return the metre of a bar of irregular length, in beats of its time signature or finer ones."""
    denominator = time[1]
    while length * denominator % (4 * beat) and denominator < FINEST_DENOMINATOR:
        denominator *= 2
    return max(1, length * denominator // (4 * beat)), denominator


# The order in which the bars are played.

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
    """Unfold the repeats and place the bars; raises MusicFileError if the score is too long or has no notes."""
    limits, name = written.limits, written.name
    try:
        order = play_order(written.bars, limits.beats)
    except TooLong as error:
        raise MusicFileError(f"{name} has {error}: use an excerpt") from None
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
            raise NoNotes(f"{name} holds chords but no notes: add a melody to them")
        raise NoNotes(f"{name} contains no notes: choose a file with music in it")
    times = _times(written)
    lengths = [_length(bars, time) for bars, time in zip(parts, times, strict=True)]
    starts, metres = place_bars([lengths[i] for i in order], [times[i] for i in order])
    limits.check(name, "beats", (starts[-1] + lengths[order[-1]]) / TICKS_PER_BEAT)
    return BarLayout(order, starts, times, lengths, metres)


def _kept_tracks(written: WrittenScore, playing: np.ndarray) -> list[int]:
    """Return the numbers of the tracks with notes, and of the first track of each silent part."""
    first, found = 0, {*playing.tolist()}
    for part in written.parts:
        own = {*range(first, first + len(part.tracks))}
        found |= set() if own & found else {first} & own
        first += len(part.tracks)
    return sorted(found)


def played(written: WrittenScore, layout: BarLayout | None = None) -> Score:
    """Return the played score; raises MusicFileError if it is too long or has no notes.

    Its `file_times` are in ticks of TICKS_PER_BEAT. `layout` saves computing `bar_layout` again.
    """
    limits, name = written.limits, written.name
    order, starts, _, lengths, metres = layout or bar_layout(written)
    placed = list(zip(order, starts, strict=True))
    rows: list[Row] = []
    tracks: list[Track] = []
    for part in written.parts:
        rows += _joined_notes(part, placed, len(tracks))
        tracks += part.tracks
    # Checked before the conversion to numpy, whose integers could overflow: a note can outlast its bar.
    limits.check(name, "beats", max(row[0] + row[1] for row in rows) / TICKS_PER_BEAT)
    onset, duration, pitch, velocity, number = np.array(rows, dtype=np.int64).T
    used = _kept_tracks(written, number)
    track = np.searchsorted(used, number)
    initial = [(0, bpm) for bar in written.bars[: order[0]] for _, bpm in bar.tempos][-1:]
    current = initial[0][1] if initial else DEFAULT_BEATS_PER_MINUTE
    last = round(limits.beats * TICKS_PER_BEAT)
    tempos = initial + _signs_as_played([bar.tempos for bar in written.bars], placed, current, last)
    if tempos and tempos[0][0] <= starts[0]:  # include the rest before a pickup
        tempos[0] = (0, tempos[0][1])
    chords = _signs_as_played([bar.chords for bar in written.bars], placed, "", last)
    keys = _keys(written, placed)
    score = Score(
        ticks_per_beat=TICKS_PER_BEAT,
        notes=Notes(onset, duration, pitch, velocity, track),
        tracks=tuple(replace(tracks[i], sources=(i,)) for i in used),
        tempos=Tempos(*_columns(tempos, 2)),
        meters=Meters(*_columns([(at, *metre) for at, metre in metres], 3)),
        markers=tuple(Marker(at, chord) for at, chord in chords),
        beats_known=True,
        remarks=tuple(dict.fromkeys(written.remarks)),
        key_signature=keys[0][1] if keys else None,
        key_changes=KeyChanges(*_columns([(at, *key) for at, key in keys[1:]], 3)),
        texts=_texts(written, placed),
        extent=(starts[0], starts[-1] + lengths[order[-1]]),
        file_times=FileTimes(np.array([0.0, 1.0]), np.array([0.0, TICKS_PER_BEAT])),
    )
    return complete_within(_at_usual_resolution(score), limits, name)


def _keys(
    written: WrittenScore, placed: list[tuple[int, int]]
) -> list[tuple[int, tuple[int, bool]]]:
    """Return the key signatures where they change when played: the one in force also after a jump."""
    in_force: list[tuple[int, bool] | None] = [None]
    for bar in written.bars:
        in_force.append(bar.key_signature or in_force[-1])
    found: list[tuple[int, tuple[int, bool]]] = []
    for bar, start in placed:
        key = in_force[bar + 1]
        if key is not None and (not found or found[-1][1] != key):
            found.append((start, key))
    return found


def _texts(written: WrittenScore, placed: list[tuple[int, int]]) -> Texts:
    """Return the title, the composer, and the words where they are sung first."""
    lyrics: list[Lyric] = []
    first = 0  # track of the part
    for part in written.parts:
        seen: set[int] = set()
        for bar, start in placed:
            if bar in seen or bar >= len(part.bars):
                continue
            seen.add(bar)
            for at, text, instrument, continues in part.bars[bar].syllables:
                lyrics.append(Lyric(max(0, start + at), text, first + instrument, continues))
        first += len(part.tracks)
    ordered = sorted(lyrics, key=lambda one: one.onset_ticks)
    return Texts(written.title, written.composer, tuple(ordered))


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
