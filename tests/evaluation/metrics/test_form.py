"""Form is counted bar by bar: what returns, what repeats, how chords move."""

import math

import pytest

from evaluation.metrics.form import form, overlap
from tests.evaluation.scores import piano_of

BAR = 4 * 12
THEME = [(0, 60), (12, 64), (24, 67), (36, 72)]
OTHER = [(6, 61), (18, 66), (30, 68), (42, 70)]


def music(*bars: list[tuple[int, int]]):
    """Return a score with a bar for each list of (tick in the bar, pitch)."""
    return piano_of(
        [(number * BAR + tick, 6, pitch) for number, bar in enumerate(bars) for tick, pitch in bar]
    )


def test_overlap_is_the_jaccard_index_and_silence_has_none():
    assert overlap({(0, 60, False), (4, 62, False)}, {(0, 60, False)}) == 0.5
    assert overlap(set(), set()) is None
    assert overlap({(0, 60, False)}, set()) == 0


def test_a_bar_that_comes_again_after_four_bars_is_a_return_and_one_that_comes_sooner_is_not():
    again = form(music(THEME, OTHER, OTHER, OTHER, THEME), 4, 5)
    assert (again["returns"], again["repeats"], again["notes"]) == (1, 1, 4)
    sooner = form(music(OTHER, OTHER, OTHER, THEME, THEME), 4, 5)
    assert (sooner["returns"], sooner["repeats"]) == (0, 1)
    most = form(music(THEME, OTHER, OTHER, OTHER, [*THEME[:3], (36, 71)]), 4, 5)
    assert (most["returns"], most["repeats"]) == (1, 0)  # 3 cells of 5


def test_bars_go_round_in_circles_that_have_most_of_one_of_the_four_before():
    nearly = [*THEME, *OTHER]
    varied = [*nearly[:-1], (42, 71)]  # 7 cells of 9 are the same
    assert form(music(OTHER, nearly, varied, nearly, varied), 1, 5)["circles"] == 3
    assert form(music(THEME, OTHER, [(0, 40)], [(0, 41)], THEME), 0, 5)["circles"] == 1
    assert form(music(THEME, OTHER, [(0, 40)], [(0, 41)], [(0, 42)], THEME), 0, 6)["circles"] == 0
    left = music(*[THEME] * 5, *([(0, 40 + bar)] for bar in range(3)), *[THEME] * 3)
    assert form(left, 0, 11)["circles"] == 4
    assert form(music(THEME, []), 1, 2)["circles"] is None


def test_a_phrase_is_like_the_earlier_bars_that_are_most_like_it():
    first = [[(0, 60 + bar), (24, 70 + bar)] for bar in range(8)]
    changed = [[(0, 60 + bar), (24, 50 - bar)] for bar in range(8)]
    assert form(music(*first, *first), 8, 16)["phrases"] == 1
    assert form(music(*first, *changed), 8, 16)["phrases"] == pytest.approx(1 / 3)
    assert form(music(*first), 0, 8)["phrases"] is None  # nothing stands before


def test_phrases_contrast_by_how_high_their_tops_lie_and_swell_by_their_notes():
    low = [[(0, 40), (0, 60), (24, 60)] for _ in range(8)]
    high = [[(0, 40), (0, 66), (24, 66)] for _ in range(8)]
    full = [[(tick, 60) for tick in range(0, 48, 8)] for _ in range(8)]
    found = form(music(*low, *high), 0, 16)
    assert (found["contrast"], found["swell"]) == (3, 0)
    found = form(music(*low, *full), 0, 16)
    assert (found["contrast"], found["swell"]) == (0, pytest.approx(math.log(2) / 2))
    alone = form(music(*low, *[[]] * 8), 0, 16)
    assert (alone["contrast"], alone["swell"]) == (None, None)  # a rest is no phrase


def test_bass_notes_on_the_line_are_counted():
    bars = [[(0, 40), (24, 60)], [(12, 40), (0, 60)], [(36, 60)]]
    assert form(music(*bars), 0, 3)["downbeat"] == 0.5  # nothing in the first half of the third


def test_what_is_silent_has_no_measures_but_its_counts():
    found = form(music(THEME, [], [], [], [], []), 4, 6)
    assert (found["returns"], found["repeats"], found["downbeat"]) == (None, None, None)
    assert found["notes"] == 0
