import numpy as np
import pytest

from tokenization.analysis.grid import FOUR_FOUR, on_four_four, on_own_bars, without_rest_in_front
from tokenization.score import Marker, Meters, Notes, Pedals, Score, Tempos, Track


def score(onset_beats: list[float], *meters: tuple[float, int, int], **parts: object) -> Score:
    onset = np.rint(np.array(onset_beats) * 480).astype(np.int64)
    same = np.ones_like(onset)
    rows = [(int(beat * 480), numerator, denominator) for beat, numerator, denominator in meters]
    return Score(
        ticks_per_beat=480,
        tracks=(Track(),),
        notes=Notes(onset, 480 * same, 60 * same, 64 * same, 0 * same),
        meters=Meters(*np.array(rows, dtype=np.int64).reshape(-1, 3).T),
    ).replace(**parts)


def laid(*args, **parts) -> tuple[list[float], tuple[str, ...]]:
    result = on_four_four(score(*args, **parts))
    assert result.meters == FOUR_FOUR
    return (result.notes.onset_ticks / 480).tolist(), result.remarks


@pytest.mark.parametrize("meters", [(), [(0, 4, 4)], [(0, 2, 2)], [(0, 4, 4), (8, 4, 4)]])
def test_bars_of_four_beats_stay_as_they_are(meters):
    assert laid([0, 1.5, 9], *meters) == ([0, 1.5, 9], ())


@pytest.mark.parametrize("meter", [(3, 4), (6, 8), (7, 8), (2, 4), (5, 4), (12, 8), (1, 32)])
def test_another_meter_is_laid_end_to_end_and_said(meter):
    onsets, (remark,) = laid([0, 2.5, 9], (0, *meter))
    assert onsets == [0, 2.5, 9]
    assert f"The meter is {meter[0]}/{meter[1]}" in remark
    assert "4/4 grid beat by beat" in remark


def test_an_upbeat_becomes_a_whole_bar():
    onsets, remarks = laid([0, 1, 5], (0, 1, 4), (1, 4, 4))
    assert onsets == [3, 4, 8]
    assert remarks[-1] == "The first bar is an upbeat and starts with 3 beats of rest."


def test_after_an_odd_bar_the_longer_part_keeps_its_bar_lines():
    onsets, remarks = laid([0, 1, 2, 6, 10, 14], (0, 2, 4), (2, 4, 4))
    assert onsets == [2, 3, 4, 8, 12, 16]
    assert "The meter changes (2/4, 4/4)" in remarks[0]
    assert "4 of 6 notes keep their bar lines" in remarks[0]


def test_a_single_odd_bar_late_in_a_piece_moves_nothing():
    onsets, remarks = laid([0, 4, 8, 12, 14], (0, 4, 4), (12, 2, 4), (14, 4, 4))
    assert onsets == [0, 4, 8, 12, 14]
    assert "3 of 5 notes keep" in remarks[0]


def test_a_bar_of_half_beats_moves_bar_lines_by_half_a_beat():
    onsets, _ = laid([0, 3.5, 4.5, 7.5], (0, 7, 8), (3.5, 4, 4))
    assert onsets == [0.5, 4, 5, 8]


def test_a_first_signature_after_the_first_note_makes_an_upbeat():
    assert laid([0, 1, 5, 9], (1, 4, 4))[0] == [3, 4, 8, 12]


def test_of_several_signatures_on_a_tick_the_last_holds_and_impossible_ones_are_ignored():
    onsets, remarks = laid([0, 1], (0, 3, 4), (0, 4, 4), (0, 0, 4), (0, 5, 0))
    assert onsets == [0, 1]
    assert remarks == ()


def test_everything_moves_with_the_notes():
    moved = on_four_four(
        score(
            [0, 1, 5],
            (0, 1, 4),
            (1, 4, 4),
            tempos=Tempos(np.array([0, 480]), np.array([60.0, 90.0])),
            pedals=Pedals(np.array([480]), np.array([10]), np.array([0])),
            markers=(Marker(480, "C:maj"),),
        )
    )
    assert moved.tempos.onset_ticks.tolist() == [0, 4 * 480]
    assert moved.pedals.onset_ticks.tolist() == [4 * 480]
    assert moved.markers == (Marker(4 * 480, "C:maj"),)


def test_a_score_without_notes_is_no_trouble():
    assert laid([], (0, 3, 4)) == ([], ())


def test_a_recording_is_laid_on_estimated_beats():
    generator = np.random.default_rng(0)
    played = (np.arange(64) * 0.7 + generator.normal(0, 0.01, 64) + 0.5) * 2  # at 120 a minute
    moved = on_four_four(score(played.tolist(), (0, 3, 4)))
    assert "the beats are estimated: about 86 a minute" in moved.remarks[0]
    position = moved.notes.onset_ticks / 480
    np.testing.assert_allclose(np.diff(np.rint(position)), 1)
    np.testing.assert_allclose(position, np.rint(position), atol=0.1)


def test_rest_in_front_goes_by_whole_bars():
    trimmed = without_rest_in_front(
        score([9, 10], tempos=Tempos(np.array([0]), np.array([60.0])), markers=(Marker(0, "N"),))
    )
    assert (trimmed.notes.onset_ticks / 480).tolist() == [1, 2]
    assert trimmed.markers == (Marker(0, "N"),)
    assert trimmed.remarks == ("2 bars of rest are left out at the start.",)
    assert without_rest_in_front(score([3.9])).notes.onset_ticks[0] == 0


def test_on_its_own_bars_a_score_keeps_every_metre():
    signatures = Meters(*np.array([[0, 3, 4], [9 * 480, 2, 4]]).T)
    laid_there = on_own_bars(score([0, 1, 9]).replace(meters=signatures))
    assert laid_there.meters == signatures
    assert (laid_there.notes.onset_ticks / 480).tolist() == [0, 1, 9]
    assert laid_there.remarks == ()


def test_beats_that_are_written_are_kept_however_the_notes_lie_on_them():
    """Fives and sevens, say: nothing is estimated of a written score, on its own bars either."""
    fives = np.sort(np.concatenate([np.arange(40) / 5, np.arange(56) / 7 + 8]))
    written = score(fives.tolist(), (0, 3, 4), beats_known=True)
    assert on_own_bars(written.replace(beats_known=False)).remarks
    for lay in (on_four_four, on_own_bars):
        assert lay(written).notes == written.notes
    assert on_own_bars(written).remarks == ()
    assert on_own_bars(written).meters == written.meters


def test_on_its_own_bars_an_upbeat_becomes_a_whole_bar():
    moved = on_own_bars(score([0, 1, 5], (0, 1, 4), (1, 3, 4), (4, 6, 8)))
    assert (moved.notes.onset_ticks / 480).tolist() == [2, 3, 7]
    assert moved.meters == Meters(*np.array([[0, 3, 4], [6 * 480, 6, 8]]).T)
    assert moved.remarks == ("The first bar is an upbeat and starts with 2 beats of rest.",)


def test_two_metres_bar_by_bar_in_turn_begin_without_an_upbeat():
    rows = [(bar, *metre) for bar, metre in zip((0, 3, 7, 10), [(3, 4), (4, 4)] * 2, strict=True)]
    in_turn = score([0, 3, 7, 10], *rows)
    assert on_own_bars(in_turn) == in_turn


@pytest.mark.parametrize(
    "meters",
    [
        [(0, 1, 4), (1, 4, 4), (9, 1, 4)],
        [(0, 3, 4), (1, 4, 4), (5, 3, 4)],  # a first bar that is cut short
    ],
)
def test_an_upbeat_stays_one_where_its_metre_comes_back(meters):
    moved = on_own_bars(score([0, 1, 5], *meters))
    assert (moved.notes.onset_ticks / 480).tolist() == [3, 4, 8]
    assert moved.remarks == ("The first bar is an upbeat and starts with 3 beats of rest.",)


def test_bars_that_no_metre_has_are_made_of_others_and_said():
    mixed = on_own_bars(score([0, 4, 9], (0, 4, 4), (4, 5, 8), (9, 4, 4)))
    assert (mixed.notes.onset_ticks / 480).tolist() == [0, 4, 9]
    assert mixed.remarks == ("Bars of 5/8 are written as bars of 3/8 and 1/4.",)


def test_rest_in_front_goes_by_the_bars_of_each_metre():
    trimmed = without_rest_in_front(score([10, 13], (0, 3, 4), (6, 2, 4), (12, 3, 4)))
    assert (trimmed.notes.onset_ticks / 480).tolist() == [0, 3]
    assert trimmed.meters == Meters(*np.array([[0, 2, 4], [2 * 480, 3, 4]]).T)
    assert trimmed.remarks == ("4 bars of rest are left out at the start.",)
