"""Statistics of windows equal those of MusPy where both have them."""

import muspy
import numpy as np
import pytest

from evaluation.metrics.window import statistics
from tests.evaluation.scores import random_trio, trio
from tokenization.score import Score


def to_muspy(score: Score) -> muspy.Music:
    """Convert a score on the grid of steps to a MusPy object."""
    tracks = [muspy.Track(is_drum=track.is_drum) for track in score.tracks]
    for onset, duration, pitch, velocity, track in np.stack(score.notes.columns, 1).tolist():
        tracks[track].notes.append(muspy.Note(onset, pitch, duration, velocity))
    return muspy.Music(resolution=12, tracks=tracks)


@pytest.mark.parametrize("seed", [0, 2, 3])
def test_equal_to_muspy(seed: int):
    score = random_trio(seed, 150, beats=40)
    music, found = to_muspy(score), statistics(score, 0, 11)  # up to the end of the last note
    assert found is not None
    expected = {
        "class_entropy": muspy.pitch_class_entropy(music),
        "sounding": muspy.polyphony(music),
        "pitch_range": muspy.pitch_range(music),
        "length_mean": score.pitched.duration_ticks.mean() / 12,
        "notes_a_beat": 150 / 44,
    }
    assert {name: found[name] for name in expected} == pytest.approx(expected, abs=1e-12)


def test_drums_only_and_a_silent_window():
    drums = trio([(at, 1, 36, 1) for at in (0, 12, 24, 36, 48, 60)])
    found = statistics(drums, 0, 2)
    assert found is not None
    known = {name for name, value in found.items() if value is not None}
    assert {"notes_a_beat", "drum_share", "bars_repeated"} < known
    assert not known & {"class_entropy", "sounding", "pitch_range", "length_mean", "top_mean"}
    assert statistics(trio([]), 0, 2) is None
