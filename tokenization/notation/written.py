"""A written score, bar by bar, with its repeats not yet unfolded: the common ground of MusicXML and ABC."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from tokenization.midi.limits import Limits
from tokenization.score import Track

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


@dataclass(slots=True)
class PartBar:
    """One bar of one part."""

    notes: list[WrittenNote] = field(default_factory=list)
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

    def count(self, quantity: str, more: int) -> None:
        """Add to the count of a quantity; raises MidiError if it exceeds its limit."""
        self.counts[quantity] += more
        self.limits.check(self.name, quantity, self.counts[quantity])

    def enter_bar(self, number: int) -> SharedBar:
        """Count a bar of a part and return its shared bar, which the first part to reach it creates."""
        if number == len(self.bars):
            self.bars.append(SharedBar())
        self.limits.check(self.name, "beats", len(self.bars))
        self.count("bars", 1)
        return self.bars[number]


def place_graces(graces: list[WrittenNote], tick: int) -> list[WrittenNote]:
    """Place grace notes before the tick of the note they lead to."""
    length = GRACE_TICKS if len(graces) > 1 else 2 * GRACE_TICKS
    for distance, note in enumerate(reversed(graces), 1):
        note.ticks, note.length = tick - distance * length, length
    return graces


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
