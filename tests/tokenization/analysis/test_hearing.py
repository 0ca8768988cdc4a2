"""Chords heard in notes."""

import numpy as np
import pytest

from tests.tokenization.remi.cases import score_of
from tokenization.analysis import hearing
from tokenization.analysis.chords import CHORDS, NO_CHORD, QUALITIES, ROOTS
from tokenization.analysis.hearing import recognise
from tokenization.score import Notes, Score, Track

BAR = 4 * 480


def played(progression: list[str | None], ticks: int = BAR, is_drum: bool = False) -> Score:
    """Return a score with a bass note and a chord every `ticks`; None is a rest."""
    rows = []
    for index, chord in enumerate(progression):
        if chord is not None:
            root, quality = chord.split("_")
            pitches = [ROOTS.index(root) + tone for tone in QUALITIES[quality]]
            for pitch in [36 + pitches[0], *(60 + pitch for pitch in pitches)]:
                rows.append((index * ticks, ticks, pitch, 80, 0))
    notes = Notes(*np.array(rows, dtype=np.int64).reshape(-1, 5).T)
    return Score(ticks_per_beat=480, notes=notes, tracks=(Track(is_drum=is_drum),))


def found(score: Score) -> list[tuple[float, str]]:
    """Return the recognised chords with their beats."""
    return [(m.onset_ticks / score.ticks_per_beat, m.text) for m in recognise(score)]


def test_every_chord_is_recognised():
    for chord in CHORDS[:-1]:
        assert found(played([chord])) == [(0, chord)]


@pytest.mark.parametrize("beats", [4, 2])
def test_a_progression_is_recognised_with_its_changes(beats):
    progression = ["C_M", "A_m", "D_m7", "G_7", "C_M7", "F_sus2", "B_/o7", "E_m"]
    changes = [(index * beats, chord) for index, chord in enumerate(progression)]
    assert found(played(progression, beats * 480)) == changes


@pytest.mark.parametrize(
    ("score", "expected"),
    [
        (played(["C_M", "C_M", "G_M"]), [(0, "C_M"), (8, "G_M")]),
        # Bars of rest are N_N, and a beat of rest is bridged.
        (
            played([None, None, "C_M", None, None, None, "C_M"]),
            [(0, NO_CHORD), (8, "C_M"), (12, NO_CHORD), (24, "C_M")],
        ),
        (played(["C_M", "C_M", None, "C_M"], 480), [(0, "C_M")]),
        (played(["C_M"], is_drum=True), [(0, NO_CHORD)]),
        (played([]), [(0, NO_CHORD)]),
    ],
)
def test_repeated_chords_rests_and_drums(score: Score, expected):
    assert found(score) == expected


def test_a_passing_note_does_not_change_the_chord():
    score = played(["C_M", "G_M"])
    passing = Notes([3 * 480 + 240], [240], [74], [80], [0])
    both = Notes.concatenate([score.notes, passing]).sorted()
    assert found(score.replace(notes=both)) == [(0, "C_M"), (4, "G_M")]


def test_chords_change_at_bar_lines_in_other_metres():
    triads = {"C_M": (48, 64, 67), "F_M": (41, 57, 60), "G_7": (43, 59, 65)}
    for meter, bar in ((3, 4), 12), ((6, 8), 12), ((9, 8), 18):
        names = [*enumerate(["C_M", "F_M", "G_7", "C_M"])]
        notes = [(bar * number, bar, pitch, 80) for number, name in names for pitch in triads[name]]
        expected = [(bar * number / 4, name) for number, name in names]
        assert found(score_of(notes, 4, meters=[(0, *meter)])) == expected


def test_long_pieces_are_processed_in_blocks(monkeypatch):
    score = played(["C_M", "G_M", "A_m", "F_M"] * 6, 960)
    whole = recognise(score)
    monkeypatch.setattr(hearing, "BLOCK_BEATS", 5)
    assert recognise(score) == whole
    assert len(whole) == 24
    # A very late note needs no extra memory.
    late = score.notes.replace(onset_ticks=score.notes.onset_ticks + (1 << 40) * BAR)
    both = recognise(score.replace(notes=Notes.concatenate([score.notes, late])))
    assert [m.text for m in both] == [m.text for m in whole] + [NO_CHORD] + [m.text for m in whole]
