"""The statistics of windows, and the classifier that separates them, cross-validated over songs."""

import numpy as np
import pytest

from evaluation.metrics.window import LOUDNESS, cut, statistics
from evaluation.study import realism
from tests.evaluation.scores import BASS, DRUMS, OTHER, trio
from tokenization.score import Meters, Score

BAR = 48
CHORD_AND_DRUM = [(0, 12, 60, OTHER), (0, 24, 64, OTHER), (24, 12, 64, OTHER), (24, 1, 36, DRUMS)]
BARS = [
    (0, 96, 30, BASS),  # before the window; rings into it
    *((BAR * bar + at, *rest) for bar in (1, 2) for at, *rest in CHORD_AND_DRUM),  # two equal bars
    (BAR * 3 + 36, 48, 72, OTHER),  # rings past the end of the window
    (BAR * 4, 12, 90, OTHER),  # after the window
]


def music(rows: list[tuple[int, ...]] = BARS) -> Score:
    """Return a score whose drums are loud."""
    score = trio(rows)
    velocity = np.where(score.on_drums, 100, 80)
    return score.replace(notes=score.notes.replace(velocity=velocity))


def test_statistics_of_a_window_match_a_count_by_hand():
    found = statistics(music(), 1, 4)
    expected = {
        "notes_a_beat": 9 / 12,
        "onsets_a_beat": 5 / 12,
        "notes_at_onset": 7 / 5,
        "loudness_commonest": 7 / 9,
        "loudness_deviation": 20 * np.sqrt(7 / 9 * 2 / 9),
        "loudnesses": 2,
        "pitches": 3,
        "pitch_range": 12,
        "class_entropy": -(3 / 7 * np.log2(3 / 7) + 4 / 7 * np.log2(4 / 7)),
        "top_mean": (4 * 64 + 72) / 5,
        "top_deviation": np.std([64, 64, 64, 64, 72]),
        "top_repeated": 3 / 4,
        "top_step": 8 / 4,
        "length_mean": (5 * 12 + 2 * 24) / 7 / 12,  # the last is cut to a beat
        "length_commonest": 5 / 7,
        "length_entropy": -(5 / 7 * np.log2(5 / 7) + 2 / 7 * np.log2(2 / 7)),
        "place_entropy": -(2 * 4 / 9 * np.log2(4 / 9) + 1 / 9 * np.log2(1 / 9)),
        "bar_deviation": np.std([4, 4, 1]),
        "bars_repeated": 1 / 2,
        "sounding": (2 * (12 * 2 + 12 + 12) + 12) / (2 * 36 + 12),
        "parts": 2,
        "drum_share": 2 / 9,
        "drums": 1,
    }
    assert {name: found[name] for name in expected} == pytest.approx(expected)
    assert {*found} - {*expected} == {"chord_changes"}
    assert {*LOUDNESS} < {*found}


def test_drums_only_and_a_silent_window():
    drums = trio([(at, 1, 36, 1) for at in (0, 12, 24, 36, 48, 60)])
    found = statistics(drums, 0, 2)
    assert found is not None
    known = {name for name, value in found.items() if value is not None}
    assert {"notes_a_beat", "drum_share", "bars_repeated"} < known
    assert not known & {"class_entropy", "sounding", "pitch_range", "length_mean", "top_mean"}
    assert statistics(trio([]), 0, 2) is None


def test_windows_follow_the_metre():
    score = music().replace(meters=Meters(*np.array([[0, 3, 4]]).T))
    found, lines = cut(score, 1, 3)
    assert lines.tolist() == [0, 36, 72]
    assert found.notes.onset_ticks.min() == BAR - 36


def test_the_auc_counts_pairs():
    kind = np.array([False, False, True, True])
    assert realism.auc(np.array([1, 2, 3, 4]), kind) == 1
    assert realism.auc(np.array([4, 3, 2, 1]), kind) == 0
    assert realism.auc(np.array([1, 1, 1, 1]), kind) == 0.5
    assert realism.auc(np.array([1, 3, 2, 3]), kind) == (1 + 0 + 1 + 0.5) / 4
    assert realism.auc(np.array([1, 2]), np.array([True, True])) is None


@pytest.fixture
def songs() -> np.ndarray:
    return np.repeat([f"song {number}" for number in range(20)], 6)


def test_no_song_is_in_both_training_and_test_rows(songs: np.ndarray):
    for trained, tested in realism.folds(songs):
        assert not {*songs[trained]} & {*songs[tested]}
    assert [len(realism.folds(songs[:windows])) for windows in (120, 12, 6)] == [5, 2, 0]


def test_only_kinds_that_differ_are_separated(songs: np.ndarray, monkeypatch):
    monkeypatch.setattr(realism, "TREES", 60)
    random = np.random.default_rng(0)
    values = random.normal(size=(len(songs), 4))
    kind = np.tile([True, False], len(songs) // 2)
    blind = realism.separability(values, kind, songs)
    assert blind["auc"] == pytest.approx(0.5, abs=0.12)
    assert (blind["songs"], blind["windows"]) == (20, 120)
    assert blind["low"] < blind["auc"] < blind["high"]
    values[:, 2] += 10 * kind
    values[::7, 2] = np.nan  # replaced by the median
    values[:, 3] = np.nan
    seen = realism.scored(values, kind, songs)
    known = ~np.isnan(values[:, 2])
    assert realism.auc(seen[known], kind[known]) == 1
    # Deterministic, and independent of the names of songs.
    other = np.char.add("z", songs[::-1])
    assert np.array_equal(seen, realism.scored(values, kind, other))
    assert realism.interval(seen, kind, songs) == realism.interval(seen, kind, other)
    # A feature that identifies the song does not help with other songs.
    known_song = np.repeat(random.normal(size=20), 6)[:, None]
    own = np.repeat(np.tile([True, False], 10), 6)
    identified = realism.separability(known_song, own, songs)
    assert identified["auc"] < 0.8
    assert realism.separability(values[:6], kind[:6], songs[:6])["auc"] is None  # one song


def test_the_control_pairs_songs_of_two_halves(songs: np.ndarray):
    pair, half = realism.pairs(songs[:-6])  # 19 songs
    assert [int((pair == number).sum()) for number in range(-1, 9)] == [6] + [12] * 9
    for number in range(9):
        own = pair == number
        assert {*songs[:-6][own & half]}.isdisjoint(songs[:-6][own & ~half])
        assert half[own].sum() == 6


def test_the_overlap_of_equal_distributions_is_near_1_and_of_distant_ones_near_0(songs):
    values = np.random.default_rng(1).normal(size=len(songs))
    written = np.tile([True, False], len(songs) // 2)
    far = realism.overlap(values + 20 * written, written, songs)
    assert realism.overlap(values, written, songs) > 0.9 > 0.05 > far
    assert realism.overlap(np.ones(len(songs)), written, songs) is None
    assert realism.overlap(np.full(len(songs), np.nan), written, songs) is None
