"""Bars of every metre: where they lie, and what stands for bars that no metre has."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tokenization.remi.cases import score_of
from tokenization.analysis.metres import (
    LENGTHS,
    METRES,
    NAMES,
    bar_count,
    bar_lines,
    bars_of,
    made_of,
    uniform,
)
from tokenization.score import Meters

SIGNATURE = st.tuples(st.integers(1, 20), st.sampled_from([1, 2, 4, 8, 16, 32]))


def meters(*rows) -> Meters:
    return Meters(*zip(*rows, strict=True)) if rows else Meters.empty()


def laid(*rows, until: int = 40) -> list[str]:
    """Return the names of the bars; a tick is a sub-beat."""
    return [NAMES[index] for index in bars_of(meters(*rows), 4, until).metre]


@pytest.mark.parametrize("name", NAMES)
def test_a_metre_of_the_language_is_itself(name):
    numerator, denominator = map(int, name.split("/"))
    assert made_of(numerator, denominator) == (name,)
    bars = bars_of(meters((0, numerator, denominator)), 4, 100)
    assert bars.start.tolist() == list(range(0, 101, 16 * numerator // denominator))
    assert bars.meters(2) == meters((0, numerator, denominator))


@pytest.mark.parametrize(
    ("metre", "parts"),
    [
        ((5, 8), ("3/8", "1/4")),
        ((7, 8), ("3/8", "2/4")),
        ((7, 4), ("4/4", "3/4")),
        ((4, 8), ("2/4",)),
        ((8, 8), ("4/4",)),
        ((4, 2), ("4/4", "4/4")),
        ((1, 8), ("1/4",)),  # two bars
        ((5, 16), ("3/8", "1/4")),  # two bars
        ((3, 7), ("3/8",)),  # 6.9 sub-beats: the nearest
    ],
)
def test_another_bar_is_made_of_these(metre, parts):
    assert made_of(*metre) == parts


def test_a_change_within_a_bar_cuts_it_short():
    assert laid((0, 4, 4), (28, 3, 4), until=50) == ["4/4", "3/4", "3/4", "3/4"]
    assert laid((0, 2, 4), (8, 4, 4)) == ["2/4", "4/4", "4/4", "4/4"]
    # An eighth alone can be no bar: it joins the one before.
    assert laid((0, 4, 4), (34, 4, 4), until=36) == ["4/4", "3/4", "3/8", "4/4"]


def test_without_signatures_bars_are_in_four_four():
    assert laid() == laid((0, 0, 4), (3, 4, 0)) == ["4/4"] * 3
    assert laid((4, 3, 4), until=20) == ["1/4", "3/4", "3/4"]


@given(st.lists(st.tuples(st.integers(0, 300), SIGNATURE), max_size=8), st.integers(0, 400))
def test_bars_reach_as_far_as_asked_and_do_not_depend_on_it(changes, until):
    rows = [(at, *metre) for at, metre in changes]
    bars = bars_of(meters(*rows), 4, until)
    assert bars.start[-1] <= until < bars.start[-1] + bars.length[-1]
    longer = bars_of(meters(*rows), 4, until + 500)
    assert longer.metre[: len(bars) - 1].tolist() == bars.metre[:-1].tolist()
    again = bars_of(longer.meters(1), 4, int(longer.start[-1]))
    assert again.metre.tolist() == longer.metre.tolist()


@given(st.lists(st.tuples(st.integers(0, 60), st.sampled_from(METRES)), max_size=6))
def test_changes_on_an_even_sub_beat_start_a_bar(changes):
    rows = sorted((4 * at, *metre) for at, metre in changes)
    starts = bars_of(meters(*rows), 4, 400).start
    assert np.isin([at for at, *_ in rows], starts).all()


def test_of_two_signatures_at_one_time_the_later_one_holds():
    assert laid((0, 4, 4), (32, 5, 8), (32, 3, 4), until=32) == ["4/4", "4/4", "3/4"]


def test_bar_lines_of_a_score():
    score = score_of([(20, 8, 60, 64)], 8, meters=[(0, 3, 4), (24, 2, 4)])
    assert bar_lines(score, 4).tolist() == [0, 24, 40, 56, 72]
    assert bar_count(score) == 2
    assert bar_count(score_of([])) == 1
    assert uniform(3).start.tolist() == [0, 16, 32]
    assert sorted(set(LENGTHS.tolist())) == [4, 6, 8, 12, 16, 18, 20, 24]
