"""Tracks are found by name or index."""

import numpy as np
import pytest

from tokenization.analysis.parts import find_tracks, label, note_counts
from tokenization.score import Notes, Score, Track

SCORE = Score(
    ticks_per_beat=4,
    notes=Notes(*np.array([[0, 1, 60, 64, track] for track in (0, 2, 2)]).T),
    tracks=(Track(name="Lead "), Track(), Track(name="1"), Track(name="LEAD")),
)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [("lead", [0, 3]), (" Lead", [0, 3]), (3, [3]), ("3", [3]), (1, [1]), ("1", [2])],
)
def test_a_name_means_all_its_tracks_and_a_number_an_index(wanted, found):
    assert find_tracks(SCORE, wanted) == found


@pytest.mark.parametrize("wanted", ["Cello", 4, -1, "", "²"])
def test_an_unknown_track_is_answered_with_those_there_are(wanted):
    with pytest.raises(ValueError, match=r"no track .* has 0 \(Lead\), 1 \(track 1\), 2 \(1\)"):
        find_tracks(SCORE, wanted)


def test_labels_and_counts():
    assert [label(SCORE, index) for index in range(2)] == ["Lead", "track 1"]
    assert note_counts(SCORE) == [1, 0, 2, 0]
