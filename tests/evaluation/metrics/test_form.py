"""Form is counted bar by bar: what returns, what repeats, how chords move, and what shows that a piece ends."""

import math

import numpy as np
import pytest

from evaluation.metrics.form import form, last_bar, overlap, signs
from tests.evaluation.scores import piano_of
from tokenization.analysis.chords import tonic
from tokenization.score import Score

BAR = 4 * 12
THEME = [(0, 60), (12, 64), (24, 67), (36, 72)]
OTHER = [(6, 61), (18, 66), (30, 68), (42, 70)]
RUN = [(6 * step, 60 + pitch) for step, pitch in enumerate([0, 4, 7, 5, 4, 2, 7, 12])]
CHORD = [(0, 48, 48), (0, 60, 48), (0, 64, 48), (0, 67, 48)]


def music(*bars: list[tuple]) -> Score:
    """Return a score with a bar for each list of (tick in the bar, pitch, length or a sixteenth)."""
    return piano_of(
        [
            (number * BAR + tick, *(length or [6]), pitch)
            for number, bar in enumerate(bars)
            for tick, pitch, *length in bar
        ]
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


def test_bass_notes_on_the_line_are_counted_and_silence_has_no_measures():
    bars = [[(0, 40), (24, 60)], [(12, 40), (0, 60)], [(36, 60)]]
    assert form(music(*bars), 0, 3)["downbeat"] == 0.5  # nothing in the first half of the third
    found = form(music(THEME, [], [], [], [], []), 4, 6)
    assert (found["returns"], found["repeats"], found["downbeat"]) == (None, None, None)
    assert found["notes"] == 0


def test_signs_of_an_end():
    ended = signs(music(RUN, RUN, RUN, CHORD), 3)
    assert ended == {"tonic": True, "thinner": True, "longer": True, "all": True}
    going = signs(music(RUN, RUN, RUN, RUN), 3)
    assert going is not None
    assert (going["thinner"], going["longer"], going["all"]) == (False, False, False)
    dominant = [(tick, pitch + 7, length) for tick, pitch, length in CHORD]
    other = signs(music(*[RUN] * 20, dominant), 20)
    assert other is not None
    assert (other["tonic"], other["thinner"], other["all"]) == (False, True, False)
    assert signs(music(RUN, RUN), 2) is None  # a silent bar


def test_a_piece_ends_with_the_bar_in_which_its_last_note_begins():
    ringing = [(tick, pitch, 3 * BAR) for tick, pitch, _ in CHORD]
    assert last_bar(music(RUN, RUN, RUN, ringing)) == 3
    assert last_bar(music(RUN)) == 0
    assert last_bar(music()) == 0


def test_the_key_of_a_scale_is_its_own_in_every_key():
    scale = np.array([0, 2, 4, 5, 7, 9, 11, 12, 7, 4, 0])
    weight = np.array([3, 1, 2, 1, 2, 1, 1, 3, 2, 2, 4])
    assert [tonic(scale + key, weight) for key in range(12)] == [*range(12)]
