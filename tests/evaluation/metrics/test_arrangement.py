"""Arrangements of lead sheets: chords, structure, and how parts go with each other, on bands made by hand."""

import numpy as np
import pytest

from evaluation.metrics.arrangement import (
    BAR,
    chord_tones,
    chords_of,
    difference_of_parts,
    measures,
    melody_of,
    roll,
    semitone_time,
    structure,
)
from tests.evaluation.scores import trio
from tokenization.analysis.chords import CHORDS, NONE
from tokenization.score import Notes, Score, Track, notes_in_steps

MELODY, BASS, GUITAR, KIT = range(4)
TRACKS = (Track("Melody", 80), Track("Bass", 33), Track("Guitar", 26), Track("Kit", 0, True))
C, G = (60, 64, 67), (55, 59, 62)
AABB = [("A", 2), ("A", 2), ("B", 2), ("B", 2)]


def band(*rows: tuple[int, int, int, int]) -> Score:
    """Return a score of (onset, duration, pitch, track) rows in sixteenths."""
    return trio(rows, ticks_per_beat=4, tracks=TRACKS)


def sixteenths(score: Score) -> Notes:
    return notes_in_steps(score, 4, 4)


def chord(
    bar: int, pitches: tuple[int, ...], track: int = GUITAR
) -> list[tuple[int, int, int, int]]:
    return [(BAR * bar, BAR, pitch, track) for pitch in pitches]


def test_pitches_sound_from_their_onset_to_their_end_and_not_past_the_last_bar():
    sounding = roll(sixteenths(band((0, 4, 60, 0), (2, 4, 60, 1), (14, 9, 61, 0))), 1)
    assert np.flatnonzero(sounding[:, 60]).tolist() == [0, 1, 2, 3, 4, 5]
    assert np.flatnonzero(sounding[:, 61]).tolist() == [14, 15]
    assert sounding.sum() == 8


def test_structure_is_above_one_where_like_phrases_are_alike():
    def of(*bars: tuple[int, ...]) -> float | None:
        rows = [row for bar, pitches in enumerate(bars) for row in chord(bar, pitches)]
        return structure(roll(sixteenths(band(*rows)), len(bars)), AABB)

    # Two of six pairs of segments are alike: their similarity is 1, the mean of all is 1/3.
    assert of(C, C, C, C, G, G, G, G) == pytest.approx(3)
    assert of(C, C, C, C, C, C, C, C) == pytest.approx(1)
    assert of(C, C, G, G, C, C, G, G) == 0
    assert structure(roll(sixteenths(band(*chord(0, C))), 4), [("A", 2), ("B", 2)]) is None


def test_the_last_bar_of_an_odd_phrase_counts_twice():
    rows = [row for bar in range(6) for row in chord(bar, C if bar in (0, 1, 3, 4) else G)]
    assert structure(roll(sixteenths(band(*rows)), 6), [("A", 3), ("A", 3)]) == pytest.approx(1)


def test_parts_differ_if_one_has_few_tones_and_another_all():
    full = [row for bar in range(2) for row in chord(bar, C)]
    root = [row for bar in range(2) for row in chord(bar, (36,), BASS)]
    notes = sixteenths(band(*full, *root))
    # Of all onsets a half is C: the bass is ln 2 from the whole, the guitar Σ ⅓ ln(⅓ / share).
    guitar = (np.log(1 / 3 / 0.5) + 2 * np.log(1 / 3 / 0.25)) / 3
    assert difference_of_parts(notes, 2) == pytest.approx((np.log(2) - guitar) / 2)
    assert difference_of_parts(sixteenths(band(*full)), 2) is None
    one = (0, 4, 61, MELODY)  # a part of one note does not count
    assert difference_of_parts(sixteenths(band(*full, one)), 2) is None


def test_a_semitone_in_any_octave_against_the_melody_counts_by_time():
    melody = sixteenths(band((0, 8, 60, MELODY)))
    other = roll(sixteenths(band((0, 2, 71, GUITAR), (4, 2, 37, GUITAR), (6, 2, 72, GUITAR))), 1)
    assert semitone_time(melody, other) == pytest.approx(4 / 8)
    assert semitone_time(melody, roll(Notes.empty(), 1)) == 0
    assert semitone_time(Notes.empty(), other) is None


def test_chord_tones_are_those_of_the_beat():
    chords = np.array([CHORDS.index("C_M"), CHORDS.index("G_M"), NONE, NONE])
    notes = sixteenths(band((0, 4, 36, BASS), (4, 4, 36, BASS), (5, 1, 35, BASS), (9, 1, 42, BASS)))
    assert chord_tones(notes, chords) == pytest.approx(2 / 3)
    assert chord_tones(notes[-1:], chords) is None


def sheet() -> Score:
    """Return a melody over C and G, with the chords in the second track."""
    rows = [row for bar in range(8) for row in chord(bar, C if bar % 2 else G, BASS)]
    tune = [(4 * beat, 4, 72 if (beat // 4) % 2 else 74, MELODY) for beat in range(32)]
    return trio([*rows, *tune], ticks_per_beat=4, tracks=TRACKS)


def test_an_arrangement_that_is_the_sheet_is_exact_and_drums_do_not_count():
    given = sheet()
    found = measures(given, AABB, given, MELODY)
    assert found["chords"] == 1
    assert found["semitone"] == 0
    assert found["at_once"] == 3
    assert found["bass"] == 1
    assert found["others"] is None
    kit = trio([(n, 1, 38, KIT) for n in range(64)], ticks_per_beat=4, tracks=TRACKS).notes
    drummed = given.replace(notes=Notes.concatenate([given.notes, kit]).sorted())
    assert measures(given, AABB, drummed, MELODY) == found


def test_wrong_chords_lower_the_accuracy():
    given = sheet()
    notes = given.notes
    moved = np.where(
        (notes.track == BASS) & (notes.onset_ticks >= 64), notes.pitch + 1, notes.pitch
    )
    found = measures(given, AABB, given.replace(notes=notes.replace(pitch=moved)), MELODY)
    assert found["chords"] is not None
    assert found["chords"] <= 0.6
    assert found["semitone"] == pytest.approx(1 / 2)
    assert (chords_of(given, 8)[:4] == CHORDS.index("G_M")).all()


def test_the_melody_is_found_by_its_notes():
    given = sheet()
    order = np.array([2, 1, 0, 3])
    tracks = tuple(given.tracks[track] for track in order)
    moved = given.replace(notes=given.notes.replace(track=order[given.notes.track]), tracks=tracks)
    assert melody_of(moved, given) == 2
