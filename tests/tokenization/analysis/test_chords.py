"""Chord names in several notations."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenization.analysis.chords import (
    CHORDS,
    LONGEST_NAME,
    QUALITIES,
    ROOTS,
    are_sections,
    named,
    parse,
    read_chords,
    read_key,
    read_signature,
    symbol_of,
    taken_as,
)
from tokenization.midi.reading import read_midi
from tokenization.midi.writing import write_midi
from tokenization.score import Marker, Notes, Score, Track

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


def test_richer_names_keep_their_symbol():
    said = "F7#9=F7#9 Bb13=B♭13 F7/A=F7/A C7alt=C7alt C_M/E=C/E A#_m7/F=A♯m7/F C6/9=C6/9 A_m7b5/G=Am7b5/G"
    for name, symbol in (pair.split("=") for pair in said.split()):
        assert symbol_of(name) == symbol
        assert (parse(symbol), symbol_of(symbol)) == (parse(name), symbol)
    for name in ("C", "Am", "F#m7b5", "G/G", "Bb:min7", "F:maj/3", "N", "Verse", *CHORDS):
        assert symbol_of(name) == ""
    line = read_chords("F7#9 | Bb13 F7/A | Am")
    assert taken_as(line).startswith("The model takes F7#9 as F7, Bb13 as Bb7 and F7/A as F7;")
    assert taken_as(read_chords("C | G7 | N")) == ""
    with pytest.raises(ValueError, match="'H7' in bar 6 is not a chord"):
        read_chords("C | H7", first=5)


def test_names_of_sections_are_bare_letters_in_order():
    for texts in ("A", "A B A C", "A A B A", "B C D", ""):
        assert are_sections(texts.split())
    for texts in ("C F G C", "A D", "Am B", "G C"):
        assert not are_sections(texts.split())


def test_keys_are_read_as_musicians_write_them():
    names = "Am=21 a_minor=21 F♯m=18 F#_minor=18 Bb=10 Eb_major=3 CM=0 Cm=12 g=7 C-=12 Gmaj=7"
    for name, key in (pair.split("=") for pair in names.split()):
        assert read_key(name.replace("_", " ")) == int(key)
    for name in ("H", "Ammaj", "", "minor", "A♯♯"):
        with pytest.raises(ValueError, match="there is no key"):
            read_key(name)


def test_keys_have_signatures_of_seven_accidentals_at_most():
    names = "Cb=-7 F#=6 Fb=4 Am=0 G#m=5 Dbm=4 D#m=6 bbm=-5"
    for name, sharps in (pair.split("=") for pair in names.split()):
        assert read_signature(name) == (int(sharps), name.endswith("m"))


@given(st.lists(st.tuples(st.sampled_from(CHORDS), st.booleans()), min_size=1, max_size=6))
def test_chords_are_readable_in_midi_files_and_read_back(chords: list[tuple[str, bool]]):
    notes = Notes([0], [4 * len(chords)], [60], [80], [0])
    markers = tuple(Marker(4 * at, *chord) for at, chord in enumerate(chords))
    score = Score(ticks_per_beat=4, notes=notes, tracks=(Track(),), markers=markers)
    read = read_midi(write_midi(score))
    assert not any({"_", "?"} & {*marker.text} for marker in read.markers)
    found = named(read)
    assert [(m.text, m.is_guess, m.symbol) for m in found] == [(*one, "") for one in chords]
