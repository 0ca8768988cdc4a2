"""Bars begin where their times say, and those of another length have a metre of their own."""

import pytest

from tokenization.notation.written import TICKS_PER_BEAT as BEAT
from tokenization.notation.written import bar_ticks, lay, rounded


@pytest.mark.parametrize(
    ("beats", "times", "starts", "metres"),
    [
        ([3, 3, 3], [(3, 4)] * 3, [0, 3, 6], [(0, (3, 4))]),
        # A pickup is the end of a whole bar.
        ([1, 3, 3], [(3, 4)] * 3, [2, 3, 6], [(0, (3, 4))]),
        # So is one with what the last bar lacks, when the whole is repeated.
        ([1, 3, 2, 1, 3, 2], [(3, 4)] * 6, [2, 3, 6, 8, 9, 12], [(0, (3, 4))]),
        # Two halves of a bar around a repeat sign are one bar.
        ([4, 3, 1, 4], [(4, 4)] * 4, [0, 4, 7, 8], [(0, (4, 4))]),
        # An odd bar has its own metre, and the time comes back after it.
        (
            [4, 2, 4],
            [(4, 4)] * 3,
            [0, 4, 6],
            [(0, (4, 4)), (4, (2, 4)), (6, (4, 4))],
        ),
        ([3, 2.5, 3], [(6, 8)] * 3, [0, 3, 5.5], [(0, (6, 8)), (3, (5, 8)), (5.5, (6, 8))]),
        # Two whole bars in one are two; rests after the end need no metre.
        ([4, 8, 4, 1], [(4, 4)] * 4, [0, 4, 12, 16], [(0, (4, 4))]),
        # A pickup into another time is an odd bar of that time.
        (
            [4, 1, 3],
            [(4, 4), (3, 4), (3, 4)],
            [0, 4, 5],
            [(0, (4, 4)), (4, (1, 4)), (5, (3, 4))],
        ),
    ],
)
def test_lay(beats, times, starts, metres):
    found = lay([int(length * BEAT) for length in beats], times)
    assert found == ([s * BEAT for s in starts], [(at * BEAT, metre) for at, metre in metres])


def test_what_a_bar_lacks_by_rounding_alone_it_has():
    whole = bar_ticks((3, 4))
    assert rounded(0, (3, 4)) == rounded(whole - 7, (3, 4)) == rounded(whole + 7, (3, 4)) == whole
    assert rounded(2 * BEAT, (3, 4)) == 2 * BEAT
    assert rounded(2 * BEAT + 1, (3, 4)) == 2 * BEAT + BEAT // 4
