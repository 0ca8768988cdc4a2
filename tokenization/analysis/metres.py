"""Bars of every metre: where they begin, which metre each has, and how other bars are made of these.

A bar is counted in sub-beats (sixteenth notes). Twelve metres have a name of their own. A bar of another length is laid
as the nearest bars that have one: 5/8 as 3/8 and 1/4, 7/8 as 2/4 and 3/8, the three beats before a change of metre as a
bar of 3/4. So bar lines stay where they were, and no note moves against another. Lengths are 4, or 6 and on in steps of
2, so that every even length from 4 on is a sum of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property

import numpy as np

from tokenization.score import Meters, Notes, Score

SUBBEATS_PER_WHOLE = 16
# Order is that of their tokens, and the first one is in force where none is named. One more, even at the end, moves
# all later tokens, which saved models speak: CONTRIBUTING.md says how a language gets new ones.
METRES = (
    (4, 4), (2, 4), (3, 4), (6, 8), (9, 8), (12, 8), (2, 2), (3, 8), (6, 4), (3, 2), (5, 4), (1, 4),
)  # fmt: skip
NAMES = tuple(f"{numerator}/{denominator}" for numerator, denominator in METRES)
LENGTHS = np.array([SUBBEATS_PER_WHOLE * n // d for n, d in METRES])  # sub-beats
LONGEST_BAR = int(LENGTHS.max())
SHORTEST_BAR = int(LENGTHS.min())
FOUR_FOUR = 0
# Of a bar with no other name.
_BY_LENGTH = {4: "1/4", 6: "3/8", 8: "2/4", 12: "3/4", 16: "4/4", 20: "5/4"}
_IN_QUARTERS, _IN_EIGHTHS = (16, 12, 8, 6, 4), (12, 6, 8, 4)


@dataclass(frozen=True, eq=False)
class Bars:
    """The bars of a piece, end to end from sub-beat 0 on."""

    metre: np.ndarray  # (K,) index into METRES

    @cached_property
    def length(self) -> np.ndarray:
        """How many sub-beats each has: (K,)."""
        return LENGTHS[self.metre]

    @cached_property
    def start(self) -> np.ndarray:
        """The sub-beat at which each begins: (K,)."""
        return np.cumsum(self.length) - self.length

    def of(self, subbeat: np.ndarray) -> np.ndarray:
        """Return the number of the bar that each sub-beat lies in, of those after the last the last."""
        return np.searchsorted(self.start, subbeat, side="right") - 1

    def __len__(self) -> int:
        return len(self.metre)

    def meters(self, ticks_per_subbeat: int) -> Meters:
        """Return the time signatures, one where the metre changes; 4/4 from the start where there are no bars."""
        changes = np.flatnonzero(np.diff(self.metre, prepend=-1))
        if not len(changes):
            return Meters(np.array([0]), *np.array(METRES[FOUR_FOUR])[:, None])
        rows = np.array(METRES)[self.metre[changes]]
        return Meters(self.start[changes] * ticks_per_subbeat, rows[:, 0], rows[:, 1])


def bars_of(meters: Meters, ticks_per_beat: int, until_subbeat: int) -> Bars:
    """Return the bars that time signatures make, up to the one that holds a sub-beat."""
    metre: list[np.ndarray] = []
    at = 0
    for _, stop, numerator, denominator in _sections(meters, ticks_per_beat):
        if at > until_subbeat:
            break
        pattern = _pattern(numerator, denominator)
        length = int(LENGTHS[pattern].sum())
        end = until_subbeat + 1 if stop is None else min(stop, until_subbeat + length + 1)
        whole, rest = divmod(max(end - at, 0), length)
        if stop is None or end < stop:
            whole, rest = whole + bool(rest), 0
        bars = np.tile(pattern, whole)
        if rest and rest % 2:  # a sixteenth cannot be a bar; bar lines wait for it
            rest -= 1
        if rest and rest < SHORTEST_BAR:  # it joins the bar before it
            last = len(pattern) if len(bars) else 0
            rest = rest + length if last else SHORTEST_BAR
            bars = bars[: len(bars) - last]
        bars = np.append(bars, np.array(_made_of(rest, denominator), dtype=np.int64))
        metre.append(bars)
        at += int(LENGTHS[bars].sum())
    every = np.concatenate(metre) if metre else np.zeros(0, dtype=np.int64)
    needed = int(np.searchsorted(np.cumsum(LENGTHS[every]), until_subbeat, side="right")) + 1
    return Bars(every[:needed])


def made_of(numerator: int, denominator: int) -> tuple[str, ...]:
    """Return the metres that a bar is written as: itself, or those that it is made of."""
    return tuple(NAMES[index] for index in _pattern(numerator, denominator))


def bar_lines(score: Score, bars: int) -> np.ndarray:
    """Return the ticks at which so many bars of a score on the grid begin, and the last one ends: (bars + 1,)."""
    subbeats = bars * LONGEST_BAR
    lengths = bars_of(score.meters, score.ticks_per_beat, subbeats).length[:bars]
    return np.append(0, np.cumsum(lengths)) * score.ticks_per_beat // 4


def bar_count(score: Score) -> int:
    """Return how many bars a score on the grid has begun when its last note ends."""
    last = max(-(-4 * score.end_ticks // score.ticks_per_beat) - 1, 0)
    return len(bars_of(score.meters, score.ticks_per_beat, last))


def usable_signatures(meters: Meters) -> list[tuple[int, int, int]]:
    """Return start and fraction of each time signature that can be, in order; it is 4/4 until the first of them."""
    rows = zip(*(column.tolist() for column in meters.columns), strict=True)
    rows = sorted(rows, key=lambda row: row[0])  # of two at one tick, the one written last
    usable = [(at, n, d) for at, n, d in rows if 0 < n < 256 and 0 < d < 256]
    if not usable or usable[0][0] > 0:
        usable.insert(0, (0, *METRES[FOUR_FOUR]))
    return usable


def _sections(meters: Meters, ticks_per_beat: int) -> list[tuple[int, int | None, int, int]]:
    """Return start and stop (sub-beats) of each time signature that can be, and what it says."""
    usable = usable_signatures(meters)
    starts = [(8 * max(at, 0) + ticks_per_beat) // (2 * ticks_per_beat) for at, _, _ in usable]
    stops = [*starts[1:], None]
    return [
        (start, stop, n, d)
        for start, stop, (_, n, d) in zip(starts, stops, usable, strict=True)
        if start != stop
    ]


@cache
def _pattern(numerator: int, denominator: int) -> np.ndarray:
    """Return the bars that stand for one bar of a metre, or for the fewest that make a whole one."""
    if (numerator, denominator) in METRES:
        return np.array([METRES.index((numerator, denominator))])
    length = Fraction(SUBBEATS_PER_WHOLE * numerator, denominator)
    for bars in (1, 2, 4, 8):
        whole = bars * length
        if whole.denominator == 1 and whole % 2 == 0 and whole >= SHORTEST_BAR:
            return np.array(_made_of(int(whole), denominator))
    return np.array(_made_of(max(2 * round(length / 2), SHORTEST_BAR), denominator))


def _made_of(length: int, denominator: int) -> list[int]:
    """Return bars that are so many sub-beats long together, an even number or none; the longest first."""
    sizes = _IN_QUARTERS if denominator <= 4 else _IN_EIGHTHS
    bars: list[int] = []
    if length in _BY_LENGTH:
        return [NAMES.index(_BY_LENGTH[length])]
    while length:
        size = next(size for size in sizes if size <= length and length - size != 2)
        bars.append(NAMES.index(_BY_LENGTH[size]))
        length -= size
    return bars


# The beats of a score's bars: quarters, or three eighths each where the metre counts in threes of them.

QUARTER, DOTTED_QUARTER = 4, 6  # sub-beats
FIRST, MIDDLE, OTHER = 0, 2, 1  # places that music treats alike, as beats of a bar of four
COMPOUND = np.array([n % 3 == 0 and d == 8 for n, d in METRES])
BEAT = np.where(COMPOUND, DOTTED_QUARTER, QUARTER)  # of each metre
BEATS = LENGTHS // BEAT


@dataclass(frozen=True)
class Pulse:
    """When beats begin; without any named ones they are quarters in bars of four."""

    ticks_per_beat: int
    ticks: np.ndarray  # (K,), of each named beat
    places: np.ndarray  # (K,), what each is in its bar

    def spans(self, notes: Notes) -> tuple[np.ndarray, np.ndarray]:
        """Return at which beat, and part of it, each note starts, and how many beats it lasts."""
        if not len(self.ticks):
            return (
                notes.onset_ticks / self.ticks_per_beat,
                notes.duration_ticks / self.ticks_per_beat,
            )
        beats = np.arange(len(self.ticks))
        onset = np.interp(notes.onset_ticks, self.ticks, beats)
        return onset, np.interp(notes.end_ticks, self.ticks, beats) - onset

    def to_ticks(self, beats: np.ndarray) -> np.ndarray:
        """Return when whole beats begin."""
        return self.ticks[beats] if len(self.ticks) else beats * self.ticks_per_beat

    def place(self, beats: np.ndarray) -> np.ndarray:
        """Return the beat of a bar of four that each whole beat is like: 0 … 3."""
        return self.places[beats] if len(self.ticks) else beats % 4


def pulse_of(score: Score) -> Pulse:
    """Return the beats up to the bar after the last note."""
    if (score.meters.numerator == 4).all() and (score.meters.denominator == 4).all():
        return Pulse(score.ticks_per_beat, np.zeros(0), np.zeros(0))
    last = -(-4 * score.end_ticks // score.ticks_per_beat)
    bars = bars_of(score.meters, score.ticks_per_beat, last)
    count = BEATS[bars.metre]
    bar = np.repeat(np.arange(len(bars)), count)
    number = np.arange(len(bar)) - np.repeat(np.cumsum(count) - count, count)
    subbeats = bars.start[bar] + number * BEAT[bars.metre[bar]]
    middle = (2 * number == count[bar]) & (count[bar] > 2)
    places = np.where(number == 0, FIRST, np.where(middle, MIDDLE, OTHER))
    end = bars.start[-1] + bars.length[-1]
    ticks = np.append(subbeats, end) * score.ticks_per_beat // 4
    return Pulse(score.ticks_per_beat, ticks, np.append(places, FIRST))
