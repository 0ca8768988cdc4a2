"""The measures of form, and the signs of an ending."""

import math
from typing import Any

import numpy as np
import pytest

from evaluation.metrics.form import form, last_bar, signs
from tests.evaluation.scores import piano_of
from tokenization.analysis.chords import tonic
from tokenization.score import Score

BAR = 4 * 12
THEME = [(0, 60), (12, 64), (24, 67), (36, 72)]
OTHER = [(6, 61), (18, 66), (30, 68), (42, 70)]
RUN = [(6 * step, 60 + pitch) for step, pitch in enumerate([0, 4, 7, 5, 4, 2, 7, 12])]
CHORD = [(0, 48, 48), (0, 60, 48), (0, 64, 48), (0, 67, 48)]


def music(*bars: list[tuple]) -> Score:
    """Return a score with one bar per list of (tick in the bar, pitch, duration, by default half a beat)."""
    return piano_of(
        (number * BAR + tick, *(length or [6]), pitch)
        for number, bar in enumerate(bars)
        for tick, pitch, *length in bar
    )


A, B = THEME, OTHER
NEARLY = [*A, *B]
VARIED = [*NEARLY[:-1], (42, 71)]  # 7 of 9 cells are equal
SINGLE = [[(0, 40 + bar)] for bar in range(3)]
FIRST = [[(0, 60 + bar), (24, 70 + bar)] for bar in range(8)]
CHANGED = [[(0, 60 + bar), (24, 50 - bar)] for bar in range(8)]
LOW = [[(0, 40), (0, 60), (24, 60)]] * 8
HIGH = [[(0, 40), (0, 66), (24, 66)]] * 8
FULL = [[(tick, 60) for tick in range(0, 48, 8)]] * 8


@pytest.mark.parametrize(
    ("bars", "start", "expected"),
    [
        # A return is to a bar at least four bars earlier.
        ([A, B, B, B, A], 4, {"returns": 1, "repeats": 1, "notes": 4}),
        ([B, B, B, A, A], 4, {"returns": 0, "repeats": 1}),
        ([A, B, B, B, [*A[:3], (36, 71)]], 4, {"returns": 1, "repeats": 0}),  # 3 of 5 cells
        # A loop repeats most of one of the four bars before.
        ([B, NEARLY, VARIED, NEARLY, VARIED], 1, {"circles": 3}),
        ([A, B, *SINGLE[:2], A], 0, {"circles": 1}),
        ([A, B, *SINGLE, A], 0, {"circles": 0}),
        ([*[A] * 5, *SINGLE, *[A] * 3], 0, {"circles": 4}),
        # A phrase is compared with the most similar earlier bars.
        ([*FIRST, *FIRST], 8, {"phrases": 1}),
        ([*FIRST, *CHANGED], 8, {"phrases": pytest.approx(1 / 3)}),
        (FIRST, 0, {"phrases": None}),
        # Contrast compares the top notes of phrases, swell their number of notes; rests do not count.
        ([*LOW, *HIGH], 0, {"contrast": 3, "swell": 0, "loudness": 1}),
        ([*LOW, *FULL], 0, {"contrast": 0, "swell": pytest.approx(math.log(2) / 2)}),
        ([*LOW, *[[]] * 8], 0, {"contrast": None, "swell": None}),
        # A phrase collapses if it is more than twice as full as the music before, or repeats most of its top notes.
        (
            [*[[(0, 60), (24, 64)]] * 8, *[[(0, 60), (6, 64), (24, 60), (30, 64)]] * 8],
            8,
            {"collapses": 0},
        ),
        ([*[[(0, 60)]] * 8, *[[(0, 60), (6, 64), (24, 61)]] * 8], 8, {"collapses": 1}),
        ([*[[(0, 60), (24, 64)]] * 8, *[[(0, 60), (24, 60)]] * 8], 8, {"collapses": 1}),
        ([*[[(0, 60), (24, 60)]] * 8], 0, {"collapses": None}),
        # The first half of the third bar is silent.
        ([[(0, 40), (24, 60)], [(12, 40), (0, 60)], [(36, 60)]], 0, {"downbeat": 0.5}),
        (
            [A, *[[]] * 5],
            4,
            {"returns": None, "repeats": None, "downbeat": None, "circles": None, "notes": 0},
        ),
    ],
)
def test_form(bars: list, start: int, expected: dict[str, Any]):
    found = form(music(*bars), start, len(bars))
    assert {name: found[name] for name in expected} == expected


def test_signs_of_an_ending():
    ended = signs(music(RUN, RUN, RUN, CHORD), 3)
    assert ended == {"tonic": True, "thinner": True, "longer": True, "all": True}
    going = signs(music(RUN, RUN, RUN, RUN), 3)
    assert (going["thinner"], going["longer"], going["all"]) == (False, False, False)
    dominant = [(tick, pitch + 7, length) for tick, pitch, length in CHORD]
    other = signs(music(*[RUN] * 20, dominant), 20)
    assert (other["tonic"], other["thinner"], other["all"]) == (False, True, False)
    assert signs(music(RUN, RUN), 2) is None  # a silent bar
    ringing = [(tick, pitch, 3 * BAR) for tick, pitch, _ in CHORD]
    assert last_bar(music(RUN, RUN, RUN, ringing)) == 3
    assert last_bar(music()) == 0


def test_the_tonic_of_a_scale_is_found_in_every_key():
    scale = np.array([0, 2, 4, 5, 7, 9, 11, 12, 7, 4, 0])
    weight = np.array([3, 1, 2, 1, 2, 1, 1, 3, 2, 2, 4])
    assert [tonic(scale + key, weight) for key in range(12)] == [*range(12)]
