"""Style profiles, checked against reference vectors and their definition; copying and diversity."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.metrics.style import (
    copied_share,
    cosine,
    diversity,
    onset_duration,
    profiles,
    quarters,
    similarities,
    time_pitch,
)
from tests.evaluation.scores import BASS, DRUMS, OTHER, piano_of, trio
from tokenization.score import Meters, Notes, Track, excerpt

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "style_profiles.json").read_text())


def cells(histogram: np.ndarray) -> dict[tuple[int, int], int]:
    """Return the non-empty bins."""
    return {(int(i), int(j)): int(histogram[i, j]) for i, j in np.argwhere(histogram)}


def test_profiles_and_similarities_match_the_golden_file():
    pieces = [trio([(*note, OTHER) for note in piece]).notes for piece in GOLDEN["pieces"]]
    durations = [onset_duration(notes, GOLDEN["resolution"]) for notes in pieces]
    pitches = [time_pitch(notes, GOLDEN["resolution"]) for notes in pieces]
    np.testing.assert_array_equal(durations, GOLDEN["onset_duration"])
    assert [int(histogram.sum()) for histogram in pitches] == GOLDEN["time_pitch_sum"]
    for pair in GOLDEN["similarity"]:
        for metric, found in (("onset_duration", durations), ("time_pitch", pitches)):
            similarity = cosine(found[pair["a"]], found[pair["b"]])
            if pair[metric] is None:
                assert similarity is None
            else:
                assert similarity == pytest.approx(pair[metric], abs=1e-9)


@st.composite
def pieces(draw):
    """Draw arbitrary notes and a resolution."""
    ticks_per_beat = draw(st.sampled_from([1, 5, 12, 480]))
    onset = st.integers(0, draw(st.sampled_from([1, 6, 40])) * ticks_per_beat)
    duration = st.integers(0, 3 * ticks_per_beat)
    pitch = draw(st.sampled_from([st.integers(0, 127), st.integers(60, 62)]))
    rows = draw(st.lists(st.tuples(onset, duration, pitch, st.just(OTHER)), max_size=40))
    return trio(rows, ticks_per_beat).notes, ticks_per_beat


# The profiles from their definition, by note and by pair of notes.
Cells = dict[tuple[int, int], int]


def slow_onset_duration(notes: Notes, ticks_per_beat: int) -> Cells:
    """Return the non-empty bins."""
    cells: Cells = {}
    for onset, duration in zip(*(column.tolist() for column in notes.columns[:2]), strict=True):
        position = Fraction(onset, ticks_per_beat) % 4
        beats = Fraction(duration, ticks_per_beat)
        if beats < 2:
            cell = (int(position * 6), int(beats * 6))
            cells[cell] = cells.get(cell, 0) + 1
    return cells


def slow_time_pitch(notes: Notes, ticks_per_beat: int) -> Cells:
    """Return the non-empty bins; interval bin 0 is −20 semitones."""
    rows = list(zip(notes.onset_ticks.tolist(), notes.pitch.tolist(), strict=True))
    cells: Cells = {}
    for a, (onset_a, pitch_a) in enumerate(rows):
        for b, (onset_b, pitch_b) in enumerate(rows):
            if (
                a != b
                and 0 <= onset_b - onset_a < 4 * ticks_per_beat
                and abs(pitch_b - pitch_a) <= 20
            ):
                cell = ((onset_b - onset_a) * 6 // ticks_per_beat, pitch_b - pitch_a + 20)
                cells[cell] = cells.get(cell, 0) + 1
    return cells


@given(pieces())
def test_profiles_equal_their_definition(piece):
    assert cells(time_pitch(*piece)) == slow_time_pitch(*piece)
    assert cells(onset_duration(*piece)) == slow_onset_duration(*piece)


def test_many_simultaneous_notes_need_little_memory():
    """40,000 notes make 1.6 billion pairs; equal ones are counted together."""
    pitch = np.random.default_rng(0).integers(128, size=40_000)
    zero = np.zeros_like(pitch)
    found = time_pitch(Notes(zero, zero + 1, pitch, zero, zero), 12)
    counted = np.bincount(pitch, minlength=128)
    near = np.abs(np.subtract.outer(np.arange(128), np.arange(128))) <= 20
    assert found.sum() == found[0].sum() == (np.outer(counted, counted) * near).sum() - len(pitch)


def test_onsets_are_positions_in_the_bar_in_any_metre():
    waltz = [(36 * bar + at, 6, 60 + at % 5) for bar in range(8) for at in (0, 12, 24, 30)]
    score = piano_of(waltz).replace(meters=Meters(*np.array([[0, 3, 4]]).T))
    found = profiles(score)["onset_duration"]
    assert cells(found) == {(beat, 3): 8 for beat in (0, 6, 12, 15)}
    for part in (excerpt(score, 0, 72), excerpt(score, 108), *quarters(score)):
        assert cosine(found, profiles(part)["onset_duration"]) == pytest.approx(1)
    # A first bar of one beat shifts the bars of four.
    upbeat = Meters(*np.array([[0, 1, 4], [12, 4, 4]]).T)
    moved = piano_of([(0, 6, 60), *[(12 + 48 * bar, 6, 62) for bar in range(3)]])
    assert cells(profiles(moved.replace(meters=upbeat))["onset_duration"]) == {(0, 3): 4}


def test_profiles_of_pitched_tracks_and_of_all_tracks():
    tracks = (Track("Bass", 33), Track("Drums", 0, True), Track("Keys"))
    drums = [(0, 1, 36, DRUMS), (48, 1, 36, DRUMS), (6, 1, 42, DRUMS)]
    score = trio([(0, 6, 40, 0), (12, 6, 60, 2), (12, 6, 64, 2), *drums], tracks=tracks)
    pitched, everything = profiles(score), profiles(score, "all")
    sums = {name: found.sum() for name, found in pitched.items()}
    assert sums == {"onset_duration": 3, "time_pitch": 3, "onset_drum": 3}
    for found in (pitched, everything):
        assert cells(found["onset_drum"]) == {(0, 36): 2, (3, 42): 1}
    assert everything["onset_duration"].sum() == 6
    alike = similarities(pitched, profiles(trio([(0, 6, 40, BASS)])))
    assert [metric for metric in alike if alike[metric] is not None] == ["onset_duration"]


def test_quarters_have_equal_duration_and_keep_onsets():
    score = trio([(at, 3, 60, OTHER) for at in (0, 50, 100, 149, 150, 299, 300, 597)])
    parts = quarters(score)  # 600 ticks
    assert [part.notes.onset_ticks.tolist() for part in parts] == [
        [0, 50, 100, 149], [150, 299], [300], [597],
    ]  # fmt: skip
    assert [len(part.notes) for part in quarters(trio([]))] == [0, 0, 0, 0]


def test_copied_share_and_diversity():
    prompt = np.arange(10)
    output = np.array([90, 91, 2, 3, 4, 5, 92, 93, 0, 1])
    for run, share in ((4, 4 / 10), (2, 6 / 10), (5, 0)):
        assert copied_share(output, prompt, run) == pytest.approx(share)
    assert copied_share(np.tile(prompt, 3), prompt, 4) == 1  # runs overlap
    assert copied_share(np.arange(4), prompt, 4) == 1
    assert copied_share(np.arange(3), prompt, 4) is copied_share(prompt, np.arange(3), 4) is None
    a, b = np.arange(20), np.arange(100, 120)
    assert diversity([a, a], run=4) == 0
    assert diversity([a, a, b], run=4) == pytest.approx(2 / 3)
    assert diversity([np.arange(6), np.arange(2, 8)], run=4) == pytest.approx(1 - 1 / 5)
    assert diversity([np.zeros(4), np.zeros(8)], run=4) == pytest.approx(1 - 1 / 5)
    assert diversity([a, np.arange(2)], run=4) is None
