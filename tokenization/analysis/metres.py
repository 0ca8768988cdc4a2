"""Bars and metres: bar positions from time signatures, and the split of unsupported bars into supported ones.

Bar lengths are counted in sub-beats (sixteenth notes). Twelve metres are supported. A bar of another length is split
into bars that are: 5/8 into 3/8 and 1/4, 7/8 into 2/4 and 3/8; three beats before a change of metre become a bar of
3/4. So all bar lines are kept, and notes keep their distances. Every even length from 4 on is a sum of supported
lengths.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from itertools import pairwise

import numpy as np

from tokenization.score import Meters, Notes, Score

SUBBEATS_PER_WHOLE = 16
# In the order of their tokens; the first is the default. Adding one, even at the end, would shift all later tokens and
# break saved models.
METRES = (
    (4, 4), (2, 4), (3, 4), (6, 8), (9, 8), (12, 8), (2, 2), (3, 8), (6, 4), (3, 2), (5, 4), (1, 4),
)  # fmt: skip
NAMES = tuple(f"{numerator}/{denominator}" for numerator, denominator in METRES)
LENGTHS = np.array([SUBBEATS_PER_WHOLE * n // d for n, d in METRES])  # sub-beats
LONGEST_BAR = int(LENGTHS.max())
SHORTEST_BAR = int(LENGTHS.min())
FOUR_FOUR = 0
# The metre of a bar of which only the length is known.
_BY_LENGTH = {4: "1/4", 6: "3/8", 8: "2/4", 12: "3/4", 16: "4/4", 20: "5/4"}
_IN_QUARTERS, _IN_EIGHTHS = (16, 12, 8, 6, 4), (12, 6, 8, 4)


@dataclass(frozen=True, eq=False)
class Bars:
    """The consecutive bars of a piece, from sub-beat 0."""

    metre: np.ndarray  # (K,) index into METRES

    @cached_property
    def length(self) -> np.ndarray:
        """The length of each bar in sub-beats: (K,)."""
        return LENGTHS[self.metre]

    @cached_property
    def start(self) -> np.ndarray:
        """The first sub-beat of each bar: (K,)."""
        return np.cumsum(self.length) - self.length

    def of(self, subbeat: np.ndarray) -> np.ndarray:
        """Return the index of the bar of each sub-beat; the last bar for all later ones."""
        return np.searchsorted(self.start, subbeat, side="right") - 1

    def __len__(self) -> int:
        return len(self.metre)

    def meters(self, ticks_per_subbeat: int) -> Meters:
        """Return a time signature for each change of metre, or 4/4 if there are no bars."""
        changes = np.flatnonzero(np.diff(self.metre, prepend=-1))
        if not len(changes):
            return Meters(np.array([0]), *np.array(METRES[FOUR_FOUR])[:, None])
        rows = np.array(METRES)[self.metre[changes]]
        return Meters(self.start[changes] * ticks_per_subbeat, rows[:, 0], rows[:, 1])


def bars_of(meters: Meters, ticks_per_beat: int, until_subbeat: int) -> Bars:
    """Return the bars that follow from time signatures, up to the one that contains a sub-beat."""
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
        if rest and rest % 2:  # bars have even lengths; the next bar starts a sixteenth early
            rest -= 1
        if rest and rest < SHORTEST_BAR:  # too short for a bar; extend the previous one
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
    """Return the metres that a bar is split into, or only its own if it is supported."""
    return tuple(NAMES[index] for index in _pattern(numerator, denominator))


def bar_lines(score: Score, bars: int) -> np.ndarray:
    """Return the start of the first bars of a score on the grid, and the end of the last, in ticks: (bars + 1,)."""
    subbeats = bars * LONGEST_BAR
    lengths = bars_of(score.meters, score.ticks_per_beat, subbeats).length[:bars]
    return np.append(0, np.cumsum(lengths)) * score.ticks_per_beat // 4


def bar_count(score: Score) -> int:
    """Return the number of bars of a score on the grid, up to the end of its last note."""
    last = max(-(-4 * score.end_ticks // score.ticks_per_beat) - 1, 0)
    return len(bars_of(score.meters, score.ticks_per_beat, last))


def file_bar_lines(score: Score, bars: int) -> np.ndarray:
    """Return the start of the first bars as a file's time signatures make them, and the end of the last: (bars + 1,).

    Unlike `bar_lines`, bars may have any metre, and a new time signature begins a bar anywhere.
    """
    signatures = [*usable_signatures(score.meters), (1 << 62, 4, 4)]
    lines = [0.0]
    for (_, top, low), (stop, *_) in pairwise(signatures):
        length = score.ticks_per_beat * 4 * top / low
        while lines[-1] < stop and len(lines) <= bars:
            lines.append(min(lines[-1] + length, stop))
    return np.array(lines)


def usable_signatures(meters: Meters) -> list[tuple[int, int, int]]:
    """Return (tick, numerator, denominator) of the valid time signatures, one per tick, with 4/4 before the first."""
    rows = zip(*(column.tolist() for column in meters.columns), strict=True)
    usable = {at: (at, n, d) for at, n, d in rows if 0 < n < 256 and 0 < d < 256}
    if min(usable, default=1) > 0:
        usable[0] = (0, *METRES[FOUR_FOUR])
    return sorted(usable.values())


def _sections(meters: Meters, ticks_per_beat: int) -> list[tuple[int, int | None, int, int]]:
    """Return (start, stop, numerator, denominator) of each valid time signature, in sub-beats."""
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
    """Return the supported metres that make up one bar, or the fewest bars with a valid total length."""
    if (numerator, denominator) in METRES:
        return np.array([METRES.index((numerator, denominator))])
    length = Fraction(SUBBEATS_PER_WHOLE * numerator, denominator)
    for bars in (1, 2, 4, 8):
        whole = bars * length
        if whole.denominator == 1 and whole % 2 == 0 and whole >= SHORTEST_BAR:
            return np.array(_made_of(int(whole), denominator))
    return np.array(_made_of(max(2 * round(length / 2), SHORTEST_BAR), denominator))


def _made_of(length: int, denominator: int) -> list[int]:
    """Return supported metres with a total length in sub-beats, which is even, the longest first."""
    sizes = _IN_QUARTERS if denominator <= 4 else _IN_EIGHTHS
    bars: list[int] = []
    if length in _BY_LENGTH:
        return [NAMES.index(_BY_LENGTH[length])]
    while length:
        size = next(size for size in sizes if size <= length and length - size != 2)
        bars.append(NAMES.index(_BY_LENGTH[size]))
        length -= size
    return bars


# Beats: quarter notes, or dotted quarter notes in compound metres.

QUARTER, DOTTED_QUARTER = 4, 6  # sub-beats
FIRST, MIDDLE, OTHER = (
    0,
    2,
    1,
)  # roles of a beat in its bar, as the beats of a 4/4 bar with this role
COMPOUND = np.array([n % 3 == 0 and d == 8 for n, d in METRES])
BEAT = np.where(COMPOUND, DOTTED_QUARTER, QUARTER)  # of each metre
BEATS = LENGTHS // BEAT


@dataclass(frozen=True)
class Pulse:
    """The beats of a score; without `ticks`, they are quarter notes in 4/4."""

    ticks_per_beat: int
    ticks: np.ndarray  # (K,) of each beat
    places: np.ndarray  # (K,) role in the bar

    def spans(self, notes: Notes) -> tuple[np.ndarray, np.ndarray]:
        """Return the onset and the duration of each note in beats."""
        if not len(self.ticks):
            return (
                notes.onset_ticks / self.ticks_per_beat,
                notes.duration_ticks / self.ticks_per_beat,
            )
        beats = np.arange(len(self.ticks))
        onset = np.interp(notes.onset_ticks, self.ticks, beats)
        return onset, np.interp(notes.end_ticks, self.ticks, beats) - onset

    def to_ticks(self, beats: np.ndarray) -> np.ndarray:
        """Return the ticks of whole beats."""
        return self.ticks[beats] if len(self.ticks) else beats * self.ticks_per_beat

    def place(self, beats: np.ndarray) -> np.ndarray:
        """Return the beat of a 4/4 bar, 0 … 3, that corresponds to each whole beat."""
        return self.places[beats] if len(self.ticks) else beats % 4


def pulse_of(score: Score) -> Pulse:
    """Return the beats of a score, up to the start of the bar after the last note."""
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
