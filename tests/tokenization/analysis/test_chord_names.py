import pytest

from tokenization.analysis.chords import CHORDS, LONGEST_NAME, QUALITIES, ROOTS, parse, says_more

READ = {
    "C_M7": "C_M7",
    "F#_/o7": "F#_/o7",
    "A#_sus2": "A#_sus2",
    "N_N": "N_N",
    "Chord-A_m7": "A_m7",
    "Chord_C:maj": "C_M",
    "chord: G7": "G_7",
    # POP909's own, with flats, inversions, extensions
    "Bb:min7": "A#_m7",
    "A:sus4(b7)": "A_sus4",
    "F:maj/3": "F_M",
    "D:hdim7": "D_/o7",
    "N": "N_N",
    "Cb:maj": "B_M",
    "E#:min": "F_m",
    "G:min/b3": "G_m",
    "D:maj7/7": "D_M7",
    "C:7/b7": "C_7",
    "E:maj6": "E_M",
    "E:min6": "E_m",
    "E:minmaj7": "E_m",
    "E:aug": "E_+",
    "E:dim": "E_o",
    "E:dim7": "E_o7",
    "C:maj(9)": "C_M",
    "C:1": "C_M",
    # lead sheets
    "G": "G_M",
    "Am": "A_m",
    "G/B": "G_M",
    "F#m7b5": "F#_/o7",
    "Bbsus4": "A#_sus4",
    "E7sus4": "E_sus4",
    "C°7": "C_o7",
    "CΔ": "C_M7",
    "D♭maj9": "C#_M7",
    "Dm7(b5)": "D_/o7",
    "C13": "C_7",
    " Ebm9 ": "D#_m7",
    "N.C.": "N_N",
}


@pytest.mark.parametrize(("name", "chord"), READ.items())
def test_a_name_becomes_the_closest_chord(name, chord):
    assert chord in CHORDS
    assert parse(name) == chord


def test_what_is_left_out_of_a_name_is_known():
    basses = {"F:maj/3", "G:min/b3", "D:maj7/7", "C:7/b7", "G/B"}
    richer = {
        "A:sus4(b7)",
        "E:maj6",
        "E:min6",
        "E:minmaj7",
        "C:maj(9)",
        "D♭maj9",
        "C13",
        " Ebm9 ",
        "E7sus4",
    }
    assert {name for name in READ if says_more(name)} == basses | richer
    assert not any(says_more(chord) for chord in CHORDS)


@pytest.mark.parametrize("chord", CHORDS)
def test_our_own_names_stay(chord):
    assert parse(chord) == chord
    assert parse(f"Chord-{chord}") == chord


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Verse",
        "Chorus",
        "Bridge",
        "Coda",
        "bar 3",
        "A1",
        "B2",
        "H",
        "X",
        "c",
        "C:maj7#",
        "C\x00",
        "AB",  # sections of a piece
        "BB",
        "EBm",
        "CHORD-c",
    ],
)
def test_other_texts_are_no_chords(text):
    assert parse(text) is None


def test_a_long_text_is_not_looked_at():
    assert parse("C(" + LONGEST_NAME * "9") is None


def test_there_are_133_chords():
    assert (len(ROOTS), len(QUALITIES), len(CHORDS), len(set(CHORDS))) == (12, 11, 133, 133)
