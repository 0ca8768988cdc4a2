"""An end shows itself by the tonic, by few notes, by long ones."""

import numpy as np

from evaluation.metrics.form import last_bar, signs
from tests.evaluation.scores import piano_of
from tokenization.analysis.chords import tonic

BAR = 4 * 12
RUN = [(6 * step, 6, 60 + pitch) for step, pitch in enumerate([0, 4, 7, 5, 4, 2, 7, 12])]
CHORD = [(0, 48, 48), (0, 48, 60), (0, 48, 64), (0, 48, 67)]


def music(*bars):
    return piano_of(
        [
            (number * BAR + tick, length, pitch)
            for number, bar in enumerate(bars)
            for tick, length, pitch in bar
        ]
    )


def test_a_held_tonic_after_a_run_is_an_end():
    assert signs(music(RUN, RUN, RUN, CHORD), 3) == {
        "tonic": True, "thinner": True, "longer": True, "all": True,
    }  # fmt: skip


def test_a_bar_like_those_before_it_is_none():
    found = signs(music(RUN, RUN, RUN, RUN), 3)
    assert found is not None
    assert (found["thinner"], found["longer"], found["all"]) == (False, False, False)


def test_another_chord_is_not_the_tonic():
    dominant = [(tick, length, pitch + 7) for tick, length, pitch in CHORD]
    found = signs(music(*[RUN] * 20, dominant), 20)
    assert found is not None
    assert (found["tonic"], found["thinner"], found["all"]) == (False, True, False)


def test_a_silent_bar_says_nothing():
    assert signs(music(RUN, RUN), 2) is None


def test_a_piece_ends_with_the_bar_in_which_its_last_note_begins():
    ringing = [(tick, 3 * BAR, pitch) for tick, _, pitch in CHORD]
    score = music(RUN, RUN, RUN, ringing)
    assert last_bar(score) == 3
    assert signs(score, 3) is not None
    assert last_bar(music(RUN)) == 0
    assert last_bar(music()) == 0


def test_the_key_of_a_scale_is_its_own_in_every_key():
    scale = np.array([0, 2, 4, 5, 7, 9, 11, 12, 7, 4, 0])
    weight = np.array([3, 1, 2, 1, 2, 1, 1, 3, 2, 2, 4])
    for key in range(12):
        assert tonic(scale + key, weight) == key
