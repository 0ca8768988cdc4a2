import numpy as np
import pytest

from tokenization.analysis.beats import DEFAULT_BEATS_PER_MINUTE
from tokenization.analysis.grid import FEWEST_ONSETS, estimated, has_beats
from tokenization.score import Marker, Notes, Score, Track

# A bar of accompaniment: bass on one and three, chords on the eighths between; (beat, length, pitch)
PATTERN = [(0, 2, 36), (2, 1, 43), *((eighth / 2, 0.5, 64) for eighth in range(1, 8))]


def score(seconds: np.ndarray, lengths: np.ndarray, pitches: np.ndarray, **parts: object) -> Score:
    """A recording: its ticks count time at the default tempo, and say nothing of the beat."""
    ticks_per_second = 480 * DEFAULT_BEATS_PER_MINUTE / 60
    onset, duration = (np.rint(t * ticks_per_second).astype(np.int64) for t in (seconds, lengths))
    same = np.ones_like(onset)
    notes = Notes(onset, duration, pitches, 64 * same, 0 * same).sorted()
    return Score(ticks_per_beat=480, tracks=(Track(),), notes=notes).replace(**parts)


def recording(beat_seconds: np.ndarray, spread_seconds: float = 0.01) -> Score:
    """The pattern over beats at the given times, as a hand would play it."""
    bars = len(beat_seconds) // 4
    rows = np.array(
        [(4 * bar + at, long, pitch) for bar in range(bars) for at, long, pitch in PATTERN]
    )
    seconds = np.interp(rows[:, 0], np.arange(len(beat_seconds)), beat_seconds)
    seconds += np.random.default_rng(0).normal(0, spread_seconds, len(seconds))
    return score(np.maximum(seconds, 0), rows[:, 1] * 0.4, rows[:, 2].astype(np.int64))


@pytest.mark.parametrize("tempo", [66, 75, 92, 108])
def test_the_beats_and_bars_of_a_steady_recording_are_found(tempo):
    beats = 1.3 + 60 / tempo * np.arange(80)
    beat_map = estimated(recording(beats))
    np.testing.assert_allclose(np.median(beat_map.beats_per_minute), tempo, rtol=0.02)
    found = beat_map.to_beats(beats[8:72])
    np.testing.assert_allclose(found - np.rint(found), 0, atol=0.06)
    np.testing.assert_array_equal(np.rint(found[::4]) % 4, 0)


def test_the_beats_follow_a_tempo_that_drifts():
    beats = 0.5 + np.cumsum(np.linspace(0.75, 0.6, 100))
    found = estimated(recording(beats)).to_beats(beats[8:90])
    np.testing.assert_allclose(np.diff(found), 1, atol=0.15)


def test_a_recording_has_no_beats_of_its_own_and_the_same_on_its_beats_has():
    played = recording(0.3 + 0.683 * np.arange(80), spread_seconds=0.015)
    assert not has_beats(played)
    assert has_beats(recording(0.5 * np.arange(80), spread_seconds=0.015))


def test_triplets_and_fine_but_written_divisions_are_beats():
    def at(beats: np.ndarray) -> bool:
        seconds = beats * 60 / DEFAULT_BEATS_PER_MINUTE
        return has_beats(score(seconds, 0 * seconds + 0.1, 0 * seconds.astype(np.int64) + 60))

    assert at(np.arange(60) / 3)
    assert at(np.arange(60) * 5 / 16)
    assert not at(np.arange(60) * 0.3137)


def test_chords_marked_on_beats_prove_the_grid():
    played = recording(0.3 + 0.683 * np.arange(80))
    marks = tuple(Marker(480 * beat, name) for beat, name in enumerate(["C:maj", "A:min"] * 3))
    assert has_beats(played.replace(markers=marks))
    assert not has_beats(
        played.replace(markers=tuple(Marker(m.onset_ticks + 7, m.text) for m in marks))
    )
    assert not has_beats(
        played.replace(markers=tuple(Marker(m.onset_ticks, "Verse") for m in marks))
    )


def test_few_notes_are_believed():
    seconds = np.random.default_rng(0).uniform(0, 20, FEWEST_ONSETS - 1)
    assert has_beats(score(seconds, seconds, np.full(len(seconds), 60)))
    assert has_beats(Score(ticks_per_beat=480))


def test_sparse_notes_are_believed():
    played = recording(0.3 + 0.683 * np.arange(80))
    apart = played.notes.replace(onset_ticks=10 * played.notes.onset_ticks)
    assert not has_beats(played)
    assert has_beats(played.replace(notes=apart))


@pytest.mark.parametrize("seconds", [[0.0], [5.0], [1.0, 1.0], [0.0, 3600.0], [0.0, 0.001, 0.002]])
def test_an_estimate_can_be_had_from_any_notes(seconds):
    seconds = np.array(seconds)
    beat_map = estimated(score(seconds, 0 * seconds + 0.1, np.full(len(seconds), 60)))
    assert 20 < np.median(beat_map.beats_per_minute) < 450
