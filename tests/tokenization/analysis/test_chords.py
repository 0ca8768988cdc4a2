"""Chord names in several notations."""

import pytest

from tokenization.analysis.chords import (
    CHORDS,
    LONGEST_NAME,
    QUALITIES,
    ROOTS,
    named,
    parse,
)
from tokenization.score import Marker, Score

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
