"""In which order the bars of a written score are played: repeats, endings and jumps."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from tokenization.notation.written import Line

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
        coda = _next(codas, bar) if jumped and "tocoda" in line.marks else None
        if coda is not None:
            bar = start = coda
            time, again = 1, coda <= left
        elif line.backward and not again and time < max(line.backward, 0, *group):
            bar, time = start, time + 1
        elif not jumped and not line.marks.isdisjoint(JUMPS):
            jumped, again, left = True, True, bar
            segno = next((at for at, one in enumerate(lines) if "segno" in one.marks), 0)
            bar = start = segno if "dalsegno" in line.marks else 0
        else:
            if line.backward and not group and not _goes_on(groups[bar + 1 : bar + 2]):
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


def _goes_on(following: Sequence[frozenset[int]]) -> bool:
    """Say whether what follows a repeat is the ending of its last time, as in `A:|2 B`."""
    return any(group and 1 not in group for group in following)


def _next(bars: Sequence[int], bar: int) -> int | None:
    """Return the first of some bars, in order, that comes after one."""
    at = bisect_right(bars, bar)
    return bars[at] if at < len(bars) else None
