"""What a written score says, bar by bar, before its repeats are played: what MusicXML and ABC have in common."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from tokenization.midi.limits import Limits
from tokenization.score import Track

TICKS_PER_BEAT = 10080  # 2⁵·3²·5·7: tuplets of 3, 5, 7 and 9 are whole numbers of ticks
SIXTEENTH_TICKS = TICKS_PER_BEAT // 4
GRACE_TICKS = TICKS_PER_BEAT // 8  # a 32nd each before the note they lead to; one alone is a 16th
VELOCITY = 80  # where nothing is said
# As programs for scores play them: about 15 between two.
DYNAMICS = {
    **{"pppp": 12, "ppp": 22, "pp": 34, "p": 50, "mp": 65, "mf": 80, "f": 92, "ff": 104},
    **{"fff": 116, "ffff": 124, "sf": 104, "sfz": 104, "fp": 70, "fz": 104},
}


@dataclass(slots=True)
class WrittenNote:
    """A note as it stands in a bar; ticks count from the bar's start, before it for a grace note."""

    ticks: int
    length: int
    pitch: int
    velocity: int
    instrument: int  # of its part
    tied_from: bool = False  # it goes on with a note that ends where it begins
    tied_on: bool = False


@dataclass(slots=True)
class PartBar:
    """One bar of one part."""

    notes: list[WrittenNote] = field(default_factory=list)
    length: int = 0  # how far its notes and rests reach


@dataclass
class Part:
    """A player's part, with a track for each instrument in it."""

    tracks: list[Track]
    bars: list[PartBar] = field(default_factory=list)


@dataclass
class Line:
    """What stands at a bar for all parts: its time, tempos, chords, and where to go on after it."""

    time: tuple[int, int] | None = None  # where it changes
    tempos: list[tuple[int, float]] = field(default_factory=list)  # (ticks, quarters a minute)
    chords: list[tuple[int, str]] = field(default_factory=list)
    forward: bool = False  # a repeat starts here
    backward: int = 0  # a repeat ends here, after so many times; 0 for none
    endings: frozenset[int] | None = None  # the times at which it is played; None: always
    is_ended: bool = False  # an ending closes here
    section: str = ""  # the name of the section that starts here
    marks: set[str] = field(default_factory=set)  # segno, coda, fine, tocoda, dacapo, dalsegno


@dataclass
class Written:
    """A written score, within limits while it is read; a MidiError says what is too much."""

    limits: Limits
    name: str  # what an error calls it
    parts: list[Part] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    sections: str = ""  # in the order of playing, a letter each; as they stand if empty
    counts: Counter[str] = field(default_factory=Counter)

    def count(self, quantity: str, more: int) -> None:
        """Count more of a quantity."""
        self.counts[quantity] += more
        self.limits.check(self.name, quantity, self.counts[quantity])

    def line(self, bar: int) -> Line:
        """Return what stands at a bar for all parts, to which one of them has come."""
        if bar == len(self.lines):
            self.lines.append(Line())
        self.limits.check(self.name, "beats", len(self.lines))
        self.count("bars", 1)
        return self.lines[bar]


def place_graces(graces: list[WrittenNote], tick: int) -> list[WrittenNote]:
    """Return grace notes as they are played: before the note they lead to, which begins at a tick."""
    length = GRACE_TICKS if len(graces) > 1 else 2 * GRACE_TICKS
    for place, note in enumerate(reversed(graces), 1):
        note.ticks, note.length = tick - place * length, length
    return graces


# Where the bars of a score start when it is played, and in which metre each is.
#
# A pickup becomes the end of a whole bar that begins with rests. Two short bars side by side that make a whole one,
# as around a repeat sign, are one. Any other bar of another length than its time says has a metre of its own.

Time = tuple[int, int]
FINEST_DENOMINATOR = 64
CLOSE_TICKS = SIXTEENTH_TICKS // 4  # rounding of tuplets: nobody writes a bar shorter by so little


def bar_ticks(time: Time) -> int:
    """Return how long a bar of a time lasts."""
    return 4 * TICKS_PER_BEAT * time[0] // time[1]


def rounded(ticks: int, time: Time) -> int:
    """Return the length of a bar whose notes reach so far: the time's where none or nearly so is said."""
    if not ticks or abs(ticks - bar_ticks(time)) <= CLOSE_TICKS:
        return bar_ticks(time)
    return -(-ticks // SIXTEENTH_TICKS) * SIXTEENTH_TICKS


def lay(lengths: Sequence[int], times: Sequence[Time]) -> tuple[list[int], list[tuple[int, Time]]]:
    """Return where each bar starts, and each metre with the tick from which it holds."""
    whole = [bar_ticks(time) for time in times]
    together_at = _together(lengths, whole)
    starts: list[int] = []
    metres: list[tuple[int, Time]] = []
    tick = bar = 0
    if lengths and lengths[0] < whole[0]:
        metres.append((0, times[0]))
        starts.append(whole[0] - lengths[0])
        tick, bar = whole[0], 1
    while bar < len(lengths):
        together = together_at[bar]
        metre, is_last = times[bar], bar + 1 == len(lengths)
        short_end = is_last and lengths[bar] < whole[bar]  # rests after the end need no metre
        if together == 1 and lengths[bar] % whole[bar] and not short_end:
            metre = own_metre(lengths[bar], metre)
        if not metres or metres[-1][1] != metre:
            metres.append((tick, metre))
        for length in lengths[bar : bar + together]:
            starts.append(tick)
            tick += length
        bar += together
    return starts, metres


def _together(lengths: Sequence[int], whole: Sequence[int]) -> list[int]:
    """Return of each bar how many from it on, all of one time, make a whole one, or 1."""
    sums = [0, *accumulate(lengths)]  # which grow: no bar is without length
    counts, same = [1] * len(lengths), len(lengths)  # same: up to where the time stays
    for bar in reversed(range(len(lengths))):
        if bar + 1 < len(lengths) and whole[bar] != whole[bar + 1]:
            same = bar + 1
        end = bisect_left(sums, sums[bar] + whole[bar], bar)
        if end <= same and sums[end] - sums[bar] == whole[bar]:
            counts[bar] = end - bar
    return counts


def own_metre(length: int, time: Time, beat: int = TICKS_PER_BEAT) -> Time:
    """Return the metre of a bar of another length: as many of the time's beats, or of finer ones."""
    denominator = time[1]
    while length * denominator % (4 * beat) and denominator < FINEST_DENOMINATOR:
        denominator *= 2
    return max(1, length * denominator // (4 * beat)), denominator
