"""Musical statistics, by hand and against MusPy where it keeps to its formulas."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # MusPy imports what is deprecated
    import muspy

from evaluation.metrics.statistics import STATISTICS, bars_of, music_of, statistics
from tests.evaluation.scores import BASS, DRUMS, OTHER, random_trio, trio
from tokenization.score import Score

BAR = 48


def by_muspy(score: Score) -> muspy.Music:
    """Return a score, which is on the grid of steps, as MusPy's music."""
    tracks = [
        muspy.Track(
            is_drum=track.is_drum,
            notes=[
                muspy.Note(int(n[0]), int(n[2]), int(n[1]), int(n[3]))
                for n in np.stack(score.notes.columns, axis=1)
                if n[4] == index
            ],
        )
        for index, track in enumerate(score.tracks)
    ]
    return muspy.Music(resolution=12, tracks=tracks)


def not_ending_on_a_line(seed: int) -> Score:
    """Return a piece after which MusPy does not add a bar or a beat."""
    score = random_trio(seed, 150, beats=40)
    assert score.end_ticks % 12
    return score


PIECES = [not_ending_on_a_line(seed) for seed in (0, 2, 3, 4)]


@pytest.mark.parametrize("score", PIECES)
def test_equal_to_muspy(score: Score):
    music, found = by_muspy(score), statistics(score)
    expected = {
        "pitch_class_entropy": muspy.pitch_class_entropy(music),
        "scale_consistency": muspy.scale_consistency(music),
        "groove_consistency": muspy.groove_consistency(music, BAR),
        "polyphony": muspy.polyphony(music),
        "polyphony_rate": muspy.polyphony_rate(music, threshold=1),  # which it compares strictly
        "pitch_range": muspy.pitch_range(music),
    }
    assert {name: found[name] for name in expected} == pytest.approx(expected, abs=1e-12)


def test_empty_beats_are_muspys_where_no_note_ends_on_a_beat():
    rows = [(0, 5, 60, OTHER), (14, 20, 64, BASS), (80, 3, 36, DRUMS), (125, 6, 60, OTHER)]
    score = trio(rows)
    rate = statistics(score)["empty_beat_rate"]
    assert rate == pytest.approx(muspy.empty_beat_rate(by_muspy(score)))
    assert rate == pytest.approx(6 / 11)  # of the beats 0 … 10, these sound: 0, 1, 2, 6, 10


def test_a_note_does_not_sound_in_the_beat_that_it_ends_with():
    score = trio([(0, 12, 60, OTHER), (36, 12, 60, OTHER)])
    assert statistics(score)["empty_beat_rate"] == pytest.approx(2 / 4)


def test_two_voices_are_polyphonic():
    score = trio([(0, 12, 60, OTHER), (0, 6, 64, BASS), (0, 1, 36, DRUMS)])
    found = statistics(score)
    assert found["polyphony"] == pytest.approx(1.5)
    assert found["polyphony_rate"] == pytest.approx(0.5)


def test_a_unison_is_one_pitch():
    assert statistics(trio([(0, 12, 60, OTHER), (0, 12, 60, BASS)]))["polyphony"] == 1.0


def test_drums_alone():
    found = statistics(trio([(at, 1, 36, DRUMS) for at in (0, 12, 24, 36, 48, 60)]))
    assert found == {
        "pitch_class_entropy": None,
        "scale_consistency": None,
        "groove_consistency": pytest.approx(1 - 2 / BAR),
        "polyphony": None,
        "polyphony_rate": None,
        "empty_beat_rate": 0.0,
        "notes_a_bar": 3.0,
        "pitch_range": None,
        "note_length": None,
        "repeated_bar_share": 0.0,
    }


def test_nothing():
    assert statistics(trio([])) == dict.fromkeys(STATISTICS)


def test_pitch_classes():
    scale = [(12 * i, 6, pitch, OTHER) for i, pitch in enumerate((60, 62, 64, 65, 67, 69, 71, 72))]
    found = statistics(trio(scale))
    assert found["scale_consistency"] == 1.0
    assert found["pitch_class_entropy"] == pytest.approx(2 / 8 * 2 + 6 / 8 * 3)
    assert statistics(trio([(0, 6, 60, OTHER)]))["pitch_class_entropy"] == 0.0
    assert statistics(trio([*scale, (96, 6, 61, OTHER)]))["scale_consistency"] == pytest.approx(
        8 / 9
    )


def test_repeated_bars():
    def bar(number: int, pitch: int, duration: int = 6) -> list[tuple[int, int, int, int]]:
        start = BAR * number
        return [(start, duration, pitch, OTHER), (start + 24, 1, 36, DRUMS)]

    same = trio([*bar(0, 60), *bar(2, 60, 12), *bar(3, 62), *bar(4, 62), *bar(5, 60)])
    assert statistics(same)["repeated_bar_share"] == pytest.approx(3 / 4)  # bar 1 is empty
    assert statistics(trio(bar(0, 60)))["repeated_bar_share"] is None
    moved = trio([(0, 6, 60, OTHER), (BAR, 6, 60, BASS)])
    assert statistics(moved)["repeated_bar_share"] == 0.0


def test_bars_do_not_depend_on_the_order_of_notes():
    notes = random_trio(5, 60, beats=16).notes
    shuffled = notes[np.random.default_rng(0).permutation(len(notes))]
    assert bars_of(notes, BAR) == bars_of(shuffled, BAR)
    assert len(bars_of(notes, BAR)) == 4


def test_other_resolutions_are_brought_to_the_grid():
    coarse, fine = random_trio(7, 80, beats=20), random_trio(7, 80, beats=20).rescaled(480)
    assert statistics(fine) == pytest.approx(statistics(coarse))
    assert music_of(fine).bars == 6
