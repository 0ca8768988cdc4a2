"""Where the bars of a score start when it is played, and in which metre each is.

A pickup becomes the end of a whole bar that begins with rests. Two short bars side by side that make
a whole one, as around a repeat sign, are one. Any other bar of another length than its time says has a
metre of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from tokenization.notation.written import SIXTEENTH_TICKS, TICKS_PER_BEAT

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
    starts: list[int] = []
    metres: list[tuple[int, Time]] = []
    tick = bar = 0
    if lengths and lengths[0] < whole[0]:
        metres.append((0, times[0]))
        starts.append(whole[0] - lengths[0])
        tick, bar = whole[0], 1
    while bar < len(lengths):
        together = _together(lengths, whole, bar)
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


def _together(lengths: Sequence[int], whole: Sequence[int], bar: int) -> int:
    """Return how many bars from this one make a whole one, or 1."""
    total = 0
    for end in range(bar, len(lengths)):
        if lengths[end] >= whole[bar] or whole[end] != whole[bar]:
            return 1
        total += lengths[end]
        if total >= whole[bar]:
            return end + 1 - bar if total == whole[bar] else 1
    return 1


def own_metre(length: int, time: Time, beat: int = TICKS_PER_BEAT) -> Time:
    """Return the metre of a bar of another length: as many of the time's beats, or of finer ones."""
    denominator = time[1]
    while length * denominator % (4 * beat) and denominator < FINEST_DENOMINATOR:
        denominator *= 2
    return max(1, length * denominator // (4 * beat)), denominator
