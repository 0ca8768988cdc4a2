"""Beats of every metre, and chords recognised on them."""

import numpy as np

from tests.tokenization.remi.cases import score_of
from tokenization.analysis.chords import recognise
from tokenization.analysis.metres import pulse_of
from tokenization.score import Marker

TRIADS = {"C_M": (48, 64, 67), "F_M": (41, 57, 60), "G_7": (43, 59, 65)}


def chord_notes(name: str, onset: int, duration: int):
    return [(onset, duration, pitch, 80) for pitch in TRIADS[name]]


def test_in_four_four_beats_are_quarters():
    pulse = pulse_of(score_of([(0, 4, 60, 64)], 8))
    assert pulse.to_ticks(np.array([0, 1, 5])).tolist() == [0, 8, 40]
    assert pulse.place(np.array([0, 1, 2, 3, 4])).tolist() == [0, 1, 2, 3, 0]


def test_beats_follow_the_bars_of_other_metres():
    score = score_of([(0, 100, 60, 64)], 4, meters=[(0, 3, 4), (12, 6, 8), (36, 9, 8), (54, 2, 4)])
    pulse = pulse_of(score)
    assert pulse.ticks[:11].tolist() == [0, 4, 8, 12, 18, 24, 30, 36, 42, 48, 54]
    assert pulse.places[:11].tolist() == [0, 1, 1, 0, 1, 0, 1, 0, 1, 1, 0]
    onset, length = pulse.spans(score_of([(15, 6, 60, 64)]).notes)
    assert (onset.tolist(), length.tolist()) == ([3.5], [1.0])


def test_chords_change_on_the_bars_of_a_waltz_and_of_six_eight():
    for meter, bar in ((3, 4), 12), ((6, 8), 12), ((9, 8), 18):
        notes = [
            note
            for number, name in enumerate(["C_M", "F_M", "G_7", "C_M"])
            for note in chord_notes(name, bar * number, bar)
        ]
        found = recognise(score_of(notes, 4, meters=[(0, *meter)]))
        assert found == tuple(
            Marker(bar * number, name) for number, name in enumerate(["C_M", "F_M", "G_7", "C_M"])
        )
