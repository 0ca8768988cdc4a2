import numpy as np
import pytest

from tests.tools.measure.chords import agreement, by_beat
from tokenization.analysis import chords
from tokenization.analysis.chords import CHORDS, NO_CHORD, QUALITIES, ROOTS, named, recognise
from tokenization.score import Marker, Notes, Score, Track

BAR = 4 * 480


def played(progression: list[str | None], ticks: int = BAR, is_drum: bool = False) -> Score:
    """A root in the bass and the chord struck on it, every `ticks`; None is a rest."""
    rows = []
    for index, chord in enumerate(progression):
        if chord is None:
            continue
        root, quality = chord.split("_")
        pitches = [ROOTS.index(root) + tone for tone in QUALITIES[quality]]
        for pitch in [36 + pitches[0], *(60 + pitch for pitch in pitches)]:
            rows.append((index * ticks, ticks, pitch, 80, 0))
    notes = Notes(*np.array(rows, dtype=np.int64).reshape(-1, 5).T)
    return Score(ticks_per_beat=480, notes=notes, tracks=(Track(is_drum=is_drum),))


@pytest.mark.parametrize("chord", CHORDS[:-1])
def test_a_plain_chord_is_recognised(chord):
    assert recognise(played([chord])) == (Marker(0, chord),)


@pytest.mark.parametrize("ticks", [BAR, BAR // 2])
def test_a_progression_is_recognised_with_its_changes(ticks):
    progression = ["C_M", "A_m", "D_m7", "G_7", "C_M7", "F_sus2", "B_/o7", "E_m"]
    assert recognise(played(progression, ticks)) == tuple(
        Marker(index * ticks, chord) for index, chord in enumerate(progression)
    )


def test_a_repeated_chord_is_one_marker():
    assert recognise(played(["C_M", "C_M", "G_M"])) == (Marker(0, "C_M"), Marker(2 * BAR, "G_M"))


def test_bars_of_rest_are_no_chord_and_a_beat_of_rest_is_bridged():
    found = recognise(played([None, None, "C_M", None, None, None, "C_M"]))
    assert [(m.onset_ticks, m.text) for m in found] == [
        (0, NO_CHORD),
        (2 * BAR, "C_M"),
        (3 * BAR, NO_CHORD),
        (6 * BAR, "C_M"),
    ]
    assert recognise(played(["C_M", "C_M", None, "C_M"], 480)) == (Marker(0, "C_M"),)


def test_a_passing_note_changes_nothing():
    score = played(["C_M", "G_M"])
    passing = Notes(*(np.array([value]) for value in (3 * 480 + 240, 240, 74, 80, 0)))
    assert recognise(score.replace(notes=Notes.concatenate([score.notes, passing]).sorted())) == (
        Marker(0, "C_M"),
        Marker(BAR, "G_M"),
    )


def test_drums_and_silence_have_no_chords():
    nothing = (Marker(0, NO_CHORD),)
    assert recognise(played(["C_M"], is_drum=True)) == nothing
    assert recognise(played([])) == nothing


def test_long_pieces_are_worked_on_in_blocks(monkeypatch):
    score = played(["C_M", "G_M", "A_m", "F_M"] * 6, 960)
    whole = recognise(score)
    monkeypatch.setattr(chords, "BLOCK_BEATS", 5)
    assert recognise(score) == whole
    assert len(whole) == 24


def test_a_note_a_lifetime_later_costs_no_memory():
    score = played(["C_M"])
    late = score.notes.replace(onset_ticks=score.notes.onset_ticks + (1 << 40) * BAR)
    found = recognise(score.replace(notes=Notes.concatenate([score.notes, late])))
    assert [marker.text for marker in found] == ["C_M", NO_CHORD, "C_M"]


def test_markers_that_name_chords_are_taken_and_sections_are_not():
    def marked(*texts: str) -> list[str]:
        markers = tuple(Marker(index, text) for index, text in enumerate(texts))
        return [m.text for m in named(Score(ticks_per_beat=4, markers=markers))]

    assert marked("Verse", "Bb:min7", "A", "outro") == ["A#_m7", "A_M"]
    assert marked("A", "B", "A", "C") == []
    assert marked() == []


def test_agreement_counts_beats():
    annotated = (Marker(0, "C_M7"), Marker(960, "A_m"), Marker(1920, "D_sus4"))
    found = (Marker(0, "C_M"), Marker(1440, "A_m"))
    share = agreement(by_beat(found, 5, 480), by_beat(annotated, 5, 480))
    # C M7 as C M, twice; A m as C M, then right; D sus4 as A m is not judged as major or minor.
    np.testing.assert_allclose(share, [3 / 5, 1 / 5, 3 / 4])
    assert by_beat((Marker(480, "C_M"),), 2, 480).tolist() == [CHORDS.index(NO_CHORD), 0]
