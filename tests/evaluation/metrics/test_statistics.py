"""Music statistics, checked by hand and against MusPy."""

import warnings

import numpy as np
import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # MusPy uses deprecated imports
    import muspy

from evaluation.metrics.statistics import STATISTICS, bars_of, statistics
from tests.evaluation.scores import BASS, DRUMS, OTHER, random_trio, trio
from tokenization.score import Score

BAR = 48


def to_muspy(score: Score) -> muspy.Music:
    """Convert a score on the grid of steps to a MusPy object."""
    tracks = [muspy.Track(is_drum=track.is_drum) for track in score.tracks]
    for onset, duration, pitch, velocity, track in np.stack(score.notes.columns, 1).tolist():
        tracks[track].notes.append(muspy.Note(onset, pitch, duration, velocity))
    return muspy.Music(resolution=12, tracks=tracks)


@pytest.mark.parametrize("seed", [0, 2, 3])
def test_equal_to_muspy(seed: int):
    score = random_trio(seed, 150, beats=40)
    assert score.end_ticks % 12, "MusPy adds no bar or beat"
    music, found = to_muspy(score), statistics(score)
    expected = {
        "pitch_class_entropy": muspy.pitch_class_entropy(music),
        "scale_consistency": muspy.scale_consistency(music),
        "groove_consistency": muspy.groove_consistency(music, BAR),
        "polyphony": muspy.polyphony(music),
        "polyphony_rate": muspy.polyphony_rate(music, threshold=1),  # MusPy compares strictly
        "pitch_range": muspy.pitch_range(music),
        "note_length": score.pitched.duration_ticks.mean() / 12,
        "notes_a_bar": 150 / -(-score.end_ticks // BAR),
    }
    assert {name: found[name] for name in expected} == pytest.approx(expected, abs=1e-12)
    assert statistics(score.rescaled(480)) == pytest.approx(found)


def test_empty_beats_equal_muspys_unless_a_note_ends_on_a_beat():
    rows = [(0, 5, 60, OTHER), (14, 20, 64, BASS), (80, 3, 36, DRUMS), (125, 6, 60, OTHER)]
    score = trio(rows)
    rate = statistics(score)["empty_beat_rate"]
    assert rate == pytest.approx(muspy.empty_beat_rate(to_muspy(score)))
    assert rate == pytest.approx(6 / 11)  # beats 0, 1, 2, 6 and 10 of 11 sound
    ends_with_a_beat = trio([(0, 12, 60, OTHER), (36, 12, 60, OTHER)])
    assert statistics(ends_with_a_beat)["empty_beat_rate"] == pytest.approx(2 / 4)


def test_drums_only_and_an_empty_score():
    found = statistics(trio([(at, 1, 36, DRUMS) for at in (0, 12, 24, 36, 48, 60)]))
    assert {name: value for name, value in found.items() if value is not None} == {
        "groove_consistency": pytest.approx(1 - 2 / BAR),
        "empty_beat_rate": 0.0,
        "notes_a_bar": 3.0,
        "repeated_bar_share": 0.0,
    }
    assert statistics(trio([])) == dict.fromkeys(STATISTICS)


def test_repeated_bars():
    def bar(number: int, pitch: int, duration: int = 6) -> list[tuple[int, int, int, int]]:
        start = BAR * number
        return [(start, duration, pitch, OTHER), (start + 24, 1, 36, DRUMS)]

    same = trio([*bar(0, 60), *bar(2, 60, 12), *bar(3, 62), *bar(4, 62), *bar(5, 60)])
    assert statistics(same)["repeated_bar_share"] == pytest.approx(3 / 4)  # bar 1 is empty
    assert statistics(trio(bar(0, 60)))["repeated_bar_share"] is None
    moved = trio([(0, 6, 60, OTHER), (BAR, 6, 60, BASS)])
    assert statistics(moved)["repeated_bar_share"] == 0.0
    notes = random_trio(5, 60, beats=16).notes
    shuffled = notes[np.random.default_rng(0).permutation(len(notes))]
    assert bars_of(notes, BAR) == bars_of(shuffled, BAR)
