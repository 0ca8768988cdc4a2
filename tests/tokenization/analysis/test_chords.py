"""Chord names in several notations, and the recognition of chords from notes."""

import numpy as np
import pytest

from tests.tokenization.remi.cases import score_of
from tokenization.analysis import chords
from tokenization.analysis.chords import (
    CHORDS,
    LONGEST_NAME,
    NO_CHORD,
    QUALITIES,
    ROOTS,
    named,
    parse,
    recognise,
)
from tokenization.score import Marker, Notes, Score, Track

BAR = 4 * 480
# Names of the vocabulary, of POP909 with flats, inversions and extensions, and of lead sheets.
EXACT_NAMES = """
C_M7=C_M7 F#_/o7=F#_/o7 N_N=N_N Chord-A_m7=A_m7 Chord_C:maj=C_M Bb:min7=A#_m7 D:hdim7=D_/o7 N=N_N
Cb:maj=B_M E#:min=F_m E:aug=E_+ E:dim=E_o E:dim7=E_o7 C:1=C_M G=G_M Am=A_m F#m7b5=F#_/o7
Bbsus4=A#_sus4 C°7=C_o7 CΔ=C_M7 Dm7(b5)=D_/o7 N.C.=N_N
"""
RICHER_NAMES = """
F:maj/3=F_M G:min/b3=G_m D:maj7/7=D_M7 C:7/b7=C_7 G/B=G_M A:sus4(b7)=A_sus4 E:maj6=E_M E:min6=E_m
E:minmaj7=E_m C:maj(9)=C_M D♭maj9=C#_M7 C13=C_7 Ebm9=D#_m7 E7sus4=E_sus4
"""


@pytest.mark.parametrize("names", [EXACT_NAMES, RICHER_NAMES])
def test_names_are_reduced_to_chords_of_the_vocabulary(names: str):
    for name, chord in (pair.split("=") for pair in names.split()):
        assert parse(f" {name} ") == chord
    assert parse("chord: G7") == "G_7"


def test_names_of_the_vocabulary_are_unchanged():
    assert (len(ROOTS), len(QUALITIES), len(CHORDS), len({*CHORDS})) == (12, 11, 133, 133)
    for chord in CHORDS:
        assert parse(chord) == parse(f"Chord-{chord}") == chord


def test_other_texts_are_not_chords():
    for text in ("Verse", "Coda", "A1", "H", "X", "c", "C:maj7#", "C\0", "AB", "EBm", "CHORD-c"):
        assert parse(text) is None
    assert parse("") is parse("bar 3") is parse("C(" + LONGEST_NAME * "9") is None


def test_chord_markers_are_used_and_section_names_are_not():
    def marked(*texts: str) -> list[str]:
        markers = tuple(Marker(index, text) for index, text in enumerate(texts))
        return [m.text for m in named(Score(ticks_per_beat=4, markers=markers))]

    assert marked("Verse", "Bb:min7", "A", "outro") == ["A#_m7", "A_M"]
    assert marked("A", "B", "A", "C") == []
    assert marked() == []


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
    monkeypatch.setattr(chords, "BLOCK_BEATS", 5)
    assert recognise(score) == whole
    assert len(whole) == 24
    # A very late note needs no extra memory.
    late = score.notes.replace(onset_ticks=score.notes.onset_ticks + (1 << 40) * BAR)
    both = recognise(score.replace(notes=Notes.concatenate([score.notes, late])))
    assert [m.text for m in both] == [m.text for m in whole] + [NO_CHORD] + [m.text for m in whole]
