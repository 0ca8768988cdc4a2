"""Any score becomes a trio on the 4/4 grid, and says who plays what."""

import pytest

from tests.tokenization.analysis.test_parts import BASS_LINE, CHORDS, KIT, TUNE, band
from tokenization.groove.language import arrange, trios
from tokenization.score import Meters, Notes, Pedals, Score, Tempos, Track

FRETLESS, CLAVINET, LEAD = Track("Fretless", 35), Track("Clavinet", 7), Track("Lead", 80)
DRUMS = Track("Kit", 25, is_drum=True)


def quartet(**changes) -> Score:
    score = band((LEAD, TUNE), (DRUMS, KIT), (CLAVINET, CHORDS), (FRETLESS, BASS_LINE))
    return score.replace(**changes)


def on(score: Score, track: int) -> Notes:
    return score.notes[score.notes.track == track]


def test_the_roles_are_found_and_explained():
    score = arrange(quartet())
    assert score.tracks == (Track("Bass", 35), Track("Drums", 25, True), Track("Other", 7))
    assert score.remarks == (
        "Bass: Fretless (a bass instrument, the lowest, low, one note at a time).",
        "Drums: Kit (on the drum channel).",
        "Other: Clavinet (the busiest of the rest).",
        "Left out: Lead.",
    )
    assert [len(on(score, track)) for track in range(3)] == [16, 32, 48]
    assert score.notes == score.notes.sorted()


def test_the_roles_can_be_chosen_by_name_index_or_none():
    score = arrange(quartet(), ("lead", None, [2, "Fretless"]))
    assert on(score, 0).pitch.min() == 72
    assert len(on(score, 1)) == 0
    assert len(on(score, 2)) == 64
    assert score.tracks[2].program == 7  # of the busier one
    assert score.remarks == (
        "Bass: Lead (as chosen).",
        "Drums: silent (as chosen).",
        "Other: Clavinet and Fretless (as chosen).",
        "Left out: Kit.",
    )


def test_meter_pedal_and_rest_are_dealt_with():
    rest, bar = Meters([0], [3], [4]), 4
    pedals = Pedals([2 * bar], [bar], [0])
    score = band((Track("Piano"), [(2 * bar, 1, 60, 80)])).replace(pedals=pedals, meters=rest)
    arranged = arrange(score.replace(tempos=Tempos([0, 8], [60, 90])))
    assert arranged.notes.duration_ticks.tolist() == [bar]
    assert arranged.notes.onset_ticks.tolist() == [0]
    assert arranged.tempos.beats_per_minute.tolist()[-1] == 90
    assert arranged.remarks[-1] == "2 bars of rest are left out at the start."
    assert any("The meter is 3/4" in remark for remark in arranged.remarks)


@pytest.mark.parametrize(
    ("tracks", "message"),
    [
        (("Lead", "Kit"), r"a trio takes three tracks, for bass, drums and other, .* got \('Lead'"),
        (("Lead", "Kit", "Lead"), "Lead can play only one of bass, drums and other"),
        ({"guitar": 0}, "a trio has bass, drums and other, but no guitar"),
    ],
)
def test_a_choice_that_cannot_be_is_refused(tracks, message):
    with pytest.raises(ValueError, match=message):
        arrange(quartet(), tracks)


@pytest.mark.parametrize("function", [arrange, trios])
def test_without_notes_or_with_sound_effects_alone_there_is_no_trio(function):
    with pytest.raises(ValueError, match="the score has no notes to arrange"):
        function(Score(ticks_per_beat=4))
    with pytest.raises(ValueError, match="all that plays is sound effects"):
        function(band((Track("Rain", 122), CHORDS)))


def test_every_other_part_makes_a_trio_with_bass_and_drums():
    lead, clavinet = trios(quartet())
    assert [len(on(lead, track)) for track in range(3)] == [16, 32, 16]
    assert [len(on(clavinet, track)) for track in range(3)] == [16, 32, 48]
    assert (lead.tracks[2].program, clavinet.tracks[2].program) == (80, 7)
    alone = trios(band((DRUMS, KIT), (Track("Rain", 122), CHORDS)))  # which is no other part
    assert [[len(on(score, track)) for track in range(3)] for score in alone] == [[0, 32, 0]]
