"""Divide the time of a bar into note values as engraved: split at beats, tied, in triplets, with rests on beats."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tokenization.edit import Bar

DIVISIONS = 24  # per quarter: a sixteenth is 6, a triplet eighth 8
THIRTY_SECOND = 3  # the shortest plain value
EIGHTH, QUARTER, DOTTED_QUARTER, HALF = 12, 24, 36, 48


class Value(NamedTuple):
    """A note value from `start` to `stop`."""

    start: int
    stop: int
    type: str
    dots: int = 0
    is_triplet: bool = False
    tuplet: str = (
        ""  # of a complete group: start, stop, both at once, or empty inside and outside of it
    )
    unit: str = ""  # the note value of which the group has three, if it is complete


_TYPES = ("whole", "half", "quarter", "eighth", "16th", "32nd")
_PLAIN = {4 * DIVISIONS >> n: (kind, 0) for n, kind in enumerate(_TYPES)} | {192: ("breve", 0)}
_DOTTED = {length * 3 // 2: (kind, 1) for length, (kind, _) in _PLAIN.items() if length % 2 == 0}
SINGLE = _PLAIN | _DOTTED
_TRIPLETS = {length * 2 // 3: name for length, name in SINGLE.items() if length < 96} | {
    1: ("64th", 0)
}
_BY_LENGTH = {length: (*name, True) for length, name in _TRIPLETS.items()} | {
    length: (*name, False) for length, name in SINGLE.items()
}
_LENGTHS = sorted(_BY_LENGTH, reverse=True)


def is_compound(time: tuple[int, int]) -> bool:
    """Return whether the beat of a metre is a dotted quarter."""
    return time[1] == 8 and time[0] % 3 == 0


def values_in(segments: Sequence[tuple[int, int, bool]], bar: Bar) -> list[list[Value]]:
    """Return the values of each segment (start, stop, whether it is a rest) of a voice within a bar, in order.

    The bar starts where its metre starts: for a pickup, before its first segment.
    """
    edges = sorted({edge for start, stop, _ in segments for edge in (start, stop)})
    groups = _groups(edges, bar)
    opens = [start for start, _ in groups]
    return [[*_values(start, stop, rest, bar, groups, opens)] for start, stop, rest in segments]


def _groups(edges: Sequence[int], bar: Bar) -> list[tuple[int, int]]:
    """Return the beats, eighths in compound metres, and pairs of beats that are triplets: (start, stop)."""
    unit = QUARTER if bar.time[1] < 8 else EIGHTH
    found: list[tuple[int, int]] = []
    cell = bar.start
    while cell + unit <= bar.stop:
        wide = cell + 2 * unit
        inside = _inside(edges, cell, wide)
        at_two_beats = unit == QUARTER and (cell - bar.start) % HALF == 0 and wide <= bar.stop
        if at_two_beats and inside and all(place % 16 == 0 for place in inside):
            found.append((cell, wide))
            cell = wide
            continue
        inside = _inside(edges, cell, cell + unit)
        third = unit // 3 // 4 or 1  # down to a fourth of the triplet's value
        if any(place % THIRTY_SECOND for place in inside) and not any(p % third for p in inside):
            found.append((cell, cell + unit))
        cell += unit
    return found


def _inside(edges: Sequence[int], start: int, stop: int) -> list[int]:
    return [edge - start for edge in edges[bisect_right(edges, start) : bisect_left(edges, stop)]]


def _values(
    start: int, stop: int, rest: bool, bar: Bar, groups: list[tuple[int, int]], opens: list[int]
) -> Iterator[Value]:
    """Yield the values of a segment, cut at the edges of the triplets."""
    at = start
    while at < stop:
        index = bisect_right(opens, at) - 1
        if index >= 0 and at < groups[index][1]:
            first, last = groups[index]
            end = min(stop, last)
            yield from _in_triplet(at, end, first, last)
        else:
            end = min(stop, opens[index + 1] if index + 1 < len(opens) else stop)
            yield from _plain(at, end, rest, bar)
        at = end


def _in_triplet(at: int, stop: int, first: int, last: int) -> Iterator[Value]:
    unit = {HALF: "quarter", QUARTER: "eighth", EIGHTH: "16th"}[last - first]
    while at < stop:
        length = next(one for one in sorted(_TRIPLETS, reverse=True) if one <= stop - at)
        ends = "start" * (at == first) + "stop" * (at + length == last)
        yield Value(at, at + length, *_TRIPLETS[length], True, ends, unit)
        at += length


def _plain(start: int, stop: int, rest: bool, bar: Bar) -> Iterator[Value]:
    """Yield plain and dotted values that show the beats."""
    at = start
    while at < stop:
        length = _first(at - bar.start, stop - at, rest, bar)
        name = _BY_LENGTH.get(length)
        if name is None:  # a length without a plain value, in exact scores
            length = next(one for one in _LENGTHS if one <= length)
            name = _BY_LENGTH[length]
        yield Value(at, at + length, *name)
        at += length


def _first(at: int, left: int, rest: bool, bar: Bar) -> int:
    """Return the length of the first value of a stretch that starts at a position in the bar."""
    compound, size = is_compound(bar.time), bar.stop - bar.start
    beat = DOTTED_QUARTER if compound else QUARTER
    offset = at % beat
    if rest:
        return _first_rest(at, left, compound)
    middle = size // 2 if bar.time == (4, 4) and size == 96 else 0
    if offset:
        room = beat - offset
        if left <= room:
            return left if left in SINGLE else _to_finer(at, left)
        # A syncopation, as eighth, quarter, eighth.
        if left == QUARTER and offset == EIGHTH and not compound and at + EIGHTH != middle:
            return left
        return room if room in SINGLE else _to_finer(at, room)
    if at < middle < at + left and at and not (left % QUARTER == 0 and left in SINGLE):
        left = middle - at
    if left < beat:
        return left if left in SINGLE else _to_finer(at, left)
    if left in SINGLE and (left % beat == 0 or not compound):
        return left
    return max(one for one in SINGLE if one <= left and one % beat == 0)


def _first_rest(at: int, left: int, compound: bool) -> int:
    """Return the length of the first rest: plain, aligned with its own length, in compound metres dotted on beats."""
    if compound and at % DOTTED_QUARTER == 0:
        for dotted in (144, 72, DOTTED_QUARTER):
            if at % dotted == 0 and left >= dotted:
                return dotted
    place = at % DOTTED_QUARTER if compound else at
    fitting = [one for one in _PLAIN if one <= left and place % one == 0]
    return max(fitting, default=_to_finer(at, left))


def _to_finer(at: int, left: int) -> int:
    """Return the length up to the next eighth or sixteenth, or all that is left."""
    for step in (EIGHTH, EIGHTH // 2, THIRTY_SECOND):
        length = step - at % step
        if length < left:
            return length
    return left
