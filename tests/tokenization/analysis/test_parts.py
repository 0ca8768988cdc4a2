"""Drums and bass are recognised by channel, name, instrument, register and playing; tracks are found by name."""

import numpy as np
import pytest

from tokenization.analysis.parts import (
    find_bass,
    find_drums,
    find_tracks,
    label,
    note_counts,
    parts_of,
)
from tokenization.score import Notes, Score, Track

BASS_LINE = [(beat, 1, 36 + beat % 5, 90) for beat in range(16)]
CHORDS = [(beat, 1, pitch, 70) for beat in range(16) for pitch in (60, 64, 67)]
TUNE = [(beat, 1, 72 + beat % 7, 80) for beat in range(16)]
KIT = [(beat, 0, pitch, 80) for beat in range(16) for pitch in (42, 36 if beat % 2 else 38)]


def band(*tracks: tuple[Track, list]) -> Score:
    rows = [(*note, index) for index, (_, notes) in enumerate(tracks) for note in notes]
    listed = tuple(track for track, _ in tracks)
    return Score(ticks_per_beat=1, notes=Notes(*np.array(rows).T).sorted(), tracks=listed)


def labels(found) -> list[str]:
    return [part.label for part in found]


def test_tracks_with_the_same_name_and_family_form_one_part():
    one = [(Track("BB Guitar", 24), CHORDS), (Track("bb guitar ", 26), TUNE)]
    more = [(Track("BB Guitar", 48), TUNE), *[(Track("", 24), TUNE)] * 2, (Track("-", 24), [])]
    parts = parts_of(band(*one, *more))
    assert [part.tracks for part in parts] == [(0, 1), (2,), (3,), (4,)]
    assert parts[0].notes == len(CHORDS) + len(TUNE)
    assert [part.label for part in parts[2:]] == ["track 3", "track 4"]


@pytest.mark.parametrize(
    ("tracks", "drums"),
    [
        # By the drum channel, else by name.
        (
            [(Track("Snare", 0, True), KIT), (Track("Drums"), TUNE), (Track("Hats", 0, True), KIT)],
            ["Snare", "Hats"],
        ),
        (
            [(Track("Steel drums", 114), TUNE), (Track("Drum Kit"), TUNE), (Track("x"), KIT)],
            ["Drum Kit"],
        ),
        ([(Track("Steel drums", 114), TUNE), (Track("x"), KIT)], []),
    ],
)
def test_drums_are_found(tracks, drums):
    assert labels(find_drums(parts_of(band(*tracks)))) == drums


@pytest.mark.parametrize(
    ("track", "line"),
    [
        (Track("Bass"), TUNE),
        (Track("Walking", 32), CHORDS),
        (Track("x", 58), BASS_LINE),
        (Track(), BASS_LINE),
    ],
)
def test_a_bass_is_recognised_by_name_instrument_or_register(track, line):
    found = find_bass(parts_of(band((track, line), (Track("a", 4), CHORDS), (Track("b"), TUNE))))
    assert [part.tracks for part in found] == [(0,)]


@pytest.mark.parametrize("track", [Track("Piano"), Track("Bassoon", 70), Track("Bass Drum")])
def test_high_or_percussive_parts_are_not_a_bass(track):
    assert labels(find_bass(parts_of(band((track, TUNE))))) == []
    assert labels(find_bass([])) == []


SCORE = band((Track("Lead "), TUNE), (Track(), []), (Track("1"), KIT), (Track("LEAD"), []))


@pytest.mark.parametrize(
    ("wanted", "found"),
    [("lead", [0, 3]), (" Lead", [0, 3]), (3, [3]), ("3", [3]), (1, [1]), ("1", [2])],
)
def test_tracks_are_found_by_name_or_index(wanted, found):
    assert find_tracks(SCORE, wanted) == found
    assert [label(SCORE, index) for index in range(2)] == ["Lead", "track 1"]
    assert note_counts(SCORE) == [16, 0, 32, 0]


@pytest.mark.parametrize("wanted", ["Cello", 4, -1, "", "²"])
def test_the_error_for_an_unknown_track_lists_the_tracks(wanted):
    with pytest.raises(ValueError, match=r"no track .* has 0 \(Lead\), 1 \(track 1\), 2 \(1\)"):
        find_tracks(SCORE, wanted)
