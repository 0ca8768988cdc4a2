"""Rolls of takes to look at."""

import numpy as np

from evaluation.study.takes import roll_of
from tests.evaluation.scores import trio
from tokenization.score import Track


def test_tracks_of_one_instrument_are_numbered():
    tracks = (Track("Melody", 0), Track("Set", 0, True), Track("Left hand", 0))
    roll = roll_of(
        trio([(0, 12, 60, 0), (0, 12, 36, 1), (0, 12, 48, 2)], tracks=tracks), np.ones(3, bool)
    )
    assert roll["tracks"] == ["piano", "drums", "piano 2"]
