"""Scores are immutable, wide enough for any arithmetic, and say what is wrong with them."""

import numpy as np
import pytest

from tokenization.score import Notes, Score, Tempos, Track


def notes() -> Notes:
    return Notes([4, 0, 0], [1, 2, 3], [60, 64, 62], [90, 80, 70], [0, 0, 0])


def test_columns_are_read_only_copies():
    onsets = np.array([0, 1])
    tempos = Tempos(onsets, [120, 90.5])
    onsets[0] = 7
    assert tempos.onset_ticks[0] == 0
    assert tempos.beats_per_minute.tolist() == [120.0, 90.5]
    with pytest.raises(ValueError, match="read-only"):
        tempos.onset_ticks[0] = 1


def test_small_integers_do_not_wrap():
    narrow = Notes(*(np.array([100], dtype=np.uint8) for _ in range(5)))
    assert (narrow.pitch * 3).tolist() == [300]
    assert (narrow.pitch - 101).tolist() == [-1]


def test_columns_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match="one length"):
        Tempos([0, 1], [120])


def test_rows_select_compare_and_concatenate():
    assert notes()[notes().pitch > 61] == notes()[1:]
    assert Notes.concatenate([notes()[:1], notes()[1:]]) == notes()
    assert Notes.concatenate([]) == Notes.empty()
    assert notes() != notes().replace(pitch=notes().pitch + 1)


def test_canonical_order_is_onset_track_pitch():
    assert notes().sorted().pitch.tolist() == [62, 64, 60]


def test_a_note_on_a_track_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match=r"track 0.*0 tracks"):
        Score(ticks_per_beat=4, notes=notes())


def test_end_and_remarks():
    score = Score(ticks_per_beat=4, notes=notes(), tracks=(Track(),))
    assert score.end_ticks == 5
    assert Score(ticks_per_beat=4).end_ticks == 0
    assert score.remark("one").remark("two", "three").remarks == ("one", "two", "three")
