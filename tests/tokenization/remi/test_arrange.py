"""Any score becomes one piano on the 4/4 grid, and says what was done to it."""

import numpy as np
import pytest

from tests.tokenization.quantised import quantised
from tokenization.remi.language import Remi
from tokenization.remi.spelling import arrange
from tokenization.score import Marker, Meters, Notes, Pedals, Score, Tempos, Track


def band(**changes) -> Score:
    """Return two pitched tracks, drums and a sound effect, a note each; two tracks share a name."""
    lead, bass, kit = Track("Lead", 73), Track("Bass", 33), Track("Drums", is_drum=True)
    return Score(
        ticks_per_beat=4,
        notes=Notes([0] * 5, [4] * 5, [60, 40, 36, 50, 64], [80] * 5, range(5)),
        tracks=(lead, bass, kit, Track(program=127), Track("lead ")),
        tempos=Tempos([0], [100.0]),
        meters=Meters([0], [4], [4]),
        markers=(Marker(0, "C_M"),),
    ).replace(**changes)


def pitches(score: Score) -> list[int]:
    return score.notes.pitch.tolist()


def test_all_pitched_tracks_are_played_and_the_rest_is_named():
    score = arrange(band())
    assert pitches(score) == [40, 60, 64]
    assert score.tracks == (Track(name="Piano"),)
    assert score.remarks == (
        "3 tracks are played on one piano: Lead, Bass and lead.",
        "Left out: Drums and track 3.",
    )


@pytest.mark.parametrize(
    ("tracks", "expected"),
    [(1, [40]), ("LEAD", [60, 64]), (["Bass", 0], [40, 60]), (["Drums"], [36])],
)
def test_tracks_can_be_chosen_by_name_or_index(tracks, expected):
    assert pitches(arrange(band(), tracks)) == expected


def test_scores_without_anything_to_play_are_refused():
    score = band()
    with pytest.raises(ValueError, match="no notes to arrange"):
        arrange(score.replace(notes=Notes.empty()))
    drums = score.notes[np.isin(score.notes.track, [2, 3])]
    with pytest.raises(ValueError, match="all 2 notes are played by drums or sound effects"):
        arrange(score.replace(notes=drums))
    for tracks in (["Bass"], []):
        with pytest.raises(ValueError, match="hold no notes"):
            arrange(score.replace(notes=drums), tracks)


def test_the_pedal_sounds_and_only_that_of_the_tracks_played():
    score = arrange(band(pedals=Pedals([0, 0], [8, 12], [1, 2])))
    assert (pitches(score), score.notes.duration_ticks.tolist()) == ([40, 60, 64], [8, 4, 4])


def test_rest_in_front_goes_in_whole_bars_with_all_that_stands_in_it():
    score = band(
        notes=band().notes.replace(onset_ticks=[40] * 5),
        tempos=Tempos([0, 20, 50], [100.0, 90.0, 80.0]),
        markers=(Marker(0, "C_M"), Marker(36, "D_m"), Marker(44, "E_m")),
    )
    arranged = arrange(score)
    assert arranged.notes.onset_ticks.tolist() == [8, 8, 8]
    assert arranged.remarks[-1] == "2 bars of rest are left out at the start."
    assert arranged.tempos.onset_ticks.tolist() == [0, 0, 18]
    assert quantised(Remi(), arranged).tempos.beats_per_minute.tolist() == [89.0]
    assert arranged.markers == (Marker(0, "C_M"), Marker(4, "D_m"), Marker(12, "E_m"))


def test_a_tempo_beyond_the_range_is_remarked():
    for tempos, found in (([300.0], "is 300"), ([20.0, 300.0], "goes from 20 to 300")):
        score = arrange(band(tempos=Tempos(range(len(tempos)), tempos)))
        assert score.remarks[-1].startswith(f"The tempo {found} beats a minute; what lies outside")


def test_without_named_chords_they_are_recognised():
    notes = band().notes.replace(pitch=[60, 48, 36, 50, 67])
    for texts in ([], ["A", "B"]):
        markers = tuple(Marker(i, text) for i, text in enumerate(texts))
        arranged = arrange(band(notes=notes, markers=markers), [0, 1, 4])
        assert [marker.text for marker in arranged.markers] == ["C_M"]
        assert arranged.remarks[-1] == "No chords are named; they are recognised from the notes."
