import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenization.analysis.beats import BeatMap, first_seconds, remap, tempo_map
from tokenization.score import Marker, Meters, Notes, Pedals, Score, Tempos, Track

growing = st.lists(st.floats(0.05, 3), min_size=2, max_size=20).map(np.cumsum)


def score(onsets: list[int], durations: list[int], **parts: object) -> Score:
    size = len(onsets)
    notes = Notes(*(np.array(c) for c in (onsets, durations, [60] * size, [64] * size, [0] * size)))
    return Score(ticks_per_beat=100, notes=notes, tracks=(Track(),)).replace(**parts)


def tempos(*changes: tuple[int, float]) -> Tempos:
    return Tempos(*(np.array(column) for column in zip(*changes, strict=True)))


@given(growing, growing, st.lists(st.floats(-50, 100), max_size=20))
def test_to_seconds_undoes_to_beats(seconds, beats, times):
    size = min(len(seconds), len(beats))
    beat_map = BeatMap(seconds[:size], beats[:size])
    positions = beat_map.to_beats(np.array(times))
    np.testing.assert_allclose(beat_map.to_seconds(positions), times, atol=1e-6)
    assert (np.diff(beat_map.to_beats(np.sort(times))) >= 0).all()
    np.testing.assert_allclose(beat_map.to_beats(seconds[:size]), beats[:size], atol=1e-9)


def test_a_beat_map_goes_on_at_its_first_and_last_tempo():
    beat_map = BeatMap(np.array([1.0, 2.0, 2.5]), np.array([0, 1, 2]))
    np.testing.assert_allclose(
        beat_map.to_beats(np.array([-1.0, 1.5, 2.25, 3.5])), [-2, 0.5, 1.5, 4]
    )
    np.testing.assert_allclose(beat_map.beats_per_minute, [60, 120])


@pytest.mark.parametrize(
    ("seconds", "beats", "message"),
    [
        ([0.0], [0.0], "two or more growing seconds"),
        ([0.0, 0.0], [0.0, 1.0], "growing seconds"),
        ([0.0, 1.0], [1.0, 0.0], "growing beats"),
        ([0.0, np.nan], [0.0, 1.0], "growing seconds"),
        ([0.0, 1.0, 2.0], [0.0, 1.0], "3 seconds and 2 beats"),
    ],
)
def test_a_beat_map_says_what_is_wrong_with_its_knots(seconds, beats, message):
    with pytest.raises(ValueError, match=message):
        BeatMap(np.array(seconds), np.array(beats))


def test_without_tempo_a_beat_lasts_half_a_second():
    assert tempo_map(score([], [])).to_seconds(np.array(4)) == 2
    late = tempo_map(score([], [], tempos=tempos((200, 60.0))))
    np.testing.assert_allclose(late.to_seconds(np.array([2, 3])), [1, 2])


def test_of_several_tempos_on_a_tick_the_last_holds():
    beat_map = tempo_map(score([], [], tempos=tempos((100, 30.0), (0, 60.0), (100, 120.0))))
    np.testing.assert_allclose(beat_map.to_seconds(np.array([1, 3])), [1, 2])


def test_a_map_moves_by_whole_bars_to_that_of_a_time():
    beat_map = BeatMap(np.array([5.0, 5.5, 6.0, 6.5]), np.array([3, 4, 5, 6]))
    moved = beat_map.from_bar_of(1.0)  # 8 beats before the first annotated one, beat 3
    np.testing.assert_allclose(moved.to_beats(np.array([1.0, 5.0, 5.5])), [3, 11, 12])
    early = beat_map.from_bar_of(5.49)  # just before the bar line is after it
    np.testing.assert_allclose(early.to_beats(np.array([5.5])), 0, atol=1e-9)


def test_remapping_keeps_when_things_sound():
    original = score(
        [10, 110, 260],
        [100, 1, 0],
        tempos=tempos((0, 60.0), (100, 120.0)),
        meters=Meters(np.array([0]), np.array([3]), np.array([4])),
        pedals=Pedals(np.array([10]), np.array([100]), np.array([0])),
        markers=(Marker(110, "C:maj"),),
    )
    beats = BeatMap(np.array([0.1, 0.6, 1.3]), np.array([0, 1, 2]))
    moved = remap(original, beats, 480)
    before = tempo_map(original).to_seconds(original.notes.onset_ticks / 100)
    after = beats.to_seconds(moved.notes.onset_ticks / 480)
    np.testing.assert_allclose(after, before, atol=0.7 / 480)
    assert moved.markers == (Marker(int(moved.notes.onset_ticks[1]), "C:maj"),)
    assert moved.pedals.onset_ticks[0] == moved.notes.onset_ticks[0]
    assert moved.pedals.duration_ticks[0] == moved.notes.duration_ticks[0]
    assert moved.notes.duration_ticks[2] == 0
    assert not len(moved.meters)
    np.testing.assert_array_equal(moved.tempos.onset_ticks, [0, 480])
    np.testing.assert_allclose(moved.tempos.beats_per_minute, [120, 60 / 0.7])


def test_remapping_keeps_a_note_that_would_round_to_nothing():
    assert remap(score([0], [1]), tempo_map(score([], [])), 4).notes.duration_ticks[0] == 1


def test_an_upbeat_before_the_first_beat_is_not_lost():
    beats = BeatMap(np.array([2.0, 2.5, 3.0, 3.5]), np.arange(4))
    moved = remap(score([300, 400], [50, 50]), beats, 12)  # at 1.5 s and 2 s
    np.testing.assert_array_equal(moved.notes.onset_ticks, [3 * 12, 4 * 12])


def test_the_first_note_is_found_by_the_tempo():
    assert first_seconds(score([150, 50], [10, 10], tempos=tempos((0, 60.0)))) == 0.5
