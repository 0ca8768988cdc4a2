"""Chords heard in notes."""

from pathlib import Path

import numpy as np
import pytest

from tests.tokenization.remi.cases import score_of
from tests.tools.measure.chords import measured
from tokenization.analysis import hearing
from tokenization.analysis.chords import CHORDS, NO_CHORD, QUALITIES, ROOTS, TONES
from tokenization.analysis.hearing import recognise
from tokenization.midi.reading import read_midi
from tokenization.score import KeyChanges, Marker, Notes, Score, Track

BAR = 4 * 480
SEEDS = Path(__file__).parents[2] / "seeds"


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


BLUES = ["F_7", "A#_7", "F_7", "F_7", "A#_7", "A#_7", "F_7", "D_7", "G_m7", "C_7", "F_7", "C_7"]


def with_walking_bass(chords: list[str], approach: int) -> Score:
    """Return a combo in which each bar's last bass note approaches the next root; guitar on the backbeats, in eighths.

    The guitar plays the chord without its root and fifth, with the ninth: E♭ G A for F7.
    """
    rows = []
    for bar, chord in enumerate(chords):
        root, quality = chord.split("_")
        low = 28 + (ROOTS.index(root) - 28) % 12
        after = 28 + (ROOTS.index(chords[(bar + 1) % len(chords)].split("_")[0]) - 28) % 12
        third, seventh = QUALITIES[quality][1], QUALITIES[quality][3]
        for beat, pitch in enumerate([low, low + third, low + 7, after + approach]):
            rows.append((BAR * bar + 480 * beat, 440, pitch, 90, 0))
        for beat in (1, 3):
            for tone in (third, seventh, 14):
                rows.append((BAR * bar + 480 * beat, 240, 55 + (low + tone - 55) % 12, 70, 1))
    notes = Notes(*np.array(rows, dtype=np.int64).T).sorted()
    return Score(ticks_per_beat=480, notes=notes, tracks=(Track("Bass", 32), Track("Guitar", 26)))


@pytest.mark.parametrize("approach", [-1, 1, -2, 2])
def test_approaching_notes_of_a_walking_bass_are_not_chords(approach):
    expected = [
        (4 * bar, chord) for bar, chord in enumerate(BLUES) if not bar or chord != BLUES[bar - 1]
    ]
    assert found(with_walking_bass(BLUES, approach)) == expected


def test_a_seventh_in_one_beat_counts_for_the_bar():
    score = played(["C_M", "G_M", "C_M"])
    seventh = Notes([BAR + 960], [480], [65], [80], [0])
    both = Notes.concatenate([score.notes, seventh]).sorted()
    assert found(score.replace(notes=both)) == [(0, "C_M"), (4, "G_7"), (8, "C_M")]


@pytest.mark.parametrize(("track", "second"), [(0, "G_7"), (1, "G_M")])
def test_a_melody_counts_less_than_chords(track, second):
    score = played(["C_M", "G_M", "C_M"])
    melody = Notes([BAR], [BAR], [77], [80], [track])  # the seventh of G
    both = Notes.concatenate([score.notes, melody]).sorted()
    chords = found(score.replace(notes=both, tracks=(Track(), Track())))
    assert chords == [(0, "C_M"), (4, second), (8, "C_M")]


def test_suspensions_do_not_change_the_root():
    # In the chord: G with a fourth for half a bar, then with its third.
    sus = [(0, 4, 36), (0, 4, 60), (0, 4, 64), (0, 4, 67), (4, 4, 43), (4, 4, 62), (4, 4, 67)]
    sus += [(4, 2, 60), (6, 2, 59), (8, 4, 36), (8, 4, 60), (8, 4, 64), (8, 4, 67)]
    names = [chord for _, chord in found(score_of([(*one, 80) for one in sus], 1))]
    assert [name.split("_")[0] for name in names] in (["C", "G", "C"], ["C", "G", "G", "C"])
    # In the melody: each bar starts with the note above, on the beat.
    rows = [
        (4 * bar, 4, pitch) for bar in range(3) for pitch in ((43, 62, 67), (36, 60, 64))[bar % 2]
    ]
    melody = [(0, 1, 72), (1, 3, 71), (4, 1, 77), (5, 3, 76), (8, 1, 76), (9, 3, 74)]
    score = score_of([(*one, 80) for one in rows + melody], 1)
    assert [chord.split("_")[0] for _, chord in found(score)] == ["G", "C", "G"]


def test_passing_notes_in_eighths_do_not_change_the_chords():
    score = played(["C_M", "F_M", "C_M"])
    scale = [
        72,
        74,
        76,
        77,
        79,
        77,
        76,
        74,
        72,
        74,
        77,
        79,
        81,
        79,
        77,
        74,
        76,
        77,
        79,
        77,
        76,
        74,
        72,
        71,
    ]
    run = Notes(240 * np.arange(24), np.full(24, 240), scale, np.full(24, 80), np.zeros(24))
    both = Notes.concatenate([score.notes, run]).sorted()
    assert found(score.replace(notes=both)) == [(0, "C_M"), (4, "F_M"), (8, "C_M")]


# A jig in D major: the pitch and the eighths of each note, from the pickup on.
JIG = (
    "69:1 74:2 76:1 78:2 76:1 74:2 73:1 71:3 69:2 71:1 73:2 76:1 74:5 "
    "69:1 74:2 76:1 78:2 81:1 79:2 78:1 76:3 78:1 76:1 74:1 73:2 71:1 74:5"
)


def melody(line: str, eighth: int = 240, shift: int = 0, meter: tuple[int, int] = (6, 8)) -> Score:
    """Return a melody in one voice, whose first note is a pickup of an eighth."""
    notes, at = [], meter[0] * eighth * 8 // meter[1] - eighth
    for note in line.split():
        pitch, eighths = map(int, note.split(":"))
        notes.append((at, eighths * eighth, pitch + shift, 80))
        at += eighths * eighth
    return score_of(notes, 2 * eighth, meters=[(0, *meter)])


def outside_major(score: Score, tonic: int, start: float = 0) -> set[str]:
    """Return the chords from a beat on with tones outside a major scale."""
    scale = {(tonic + step) % 12 for step in (0, 2, 4, 5, 7, 9, 11)}
    chords = {name for at, name in found(score) if at >= start and name != NO_CHORD}
    return {name for name in chords if not {*np.flatnonzero(TONES[CHORDS.index(name)])} <= scale}


@pytest.mark.parametrize("signature", [(2, False), None])
def test_a_melody_alone_has_chords_of_its_key(signature):
    jig = melody(JIG).replace(key_signature=signature)
    assert outside_major(jig, 2) == set()
    assert {"D_M", "A_M"} <= {name for _, name in found(jig)}


def test_the_key_of_a_melody_may_change():
    half = f"{JIG} " * 4
    first, second = melody(half), melody(half, shift=1)
    length = 32 * 6 * 240
    later = second.notes.replace(onset_ticks=second.notes.onset_ticks + length)
    both = first.replace(notes=Notes.concatenate([first.notes, later]))
    assert outside_major(both, 3, length / 480 + 3) == set()
    changes = KeyChanges([length], [-3], [0])
    signed = both.replace(key_signature=(2, False), key_changes=changes)
    assert outside_major(signed, 3, length / 480 + 3) == set()


def test_a_melody_in_minor_keeps_its_dominant():
    line = "69:2 72:2 76:2 72:2 76:2 80:2 83:2 80:2 81:2 77:2 74:2 77:2 80:2 83:2 76:2 71:2 69:8"
    chords = [name for _, name in found(melody(f"76:1 {line}", meter=(4, 4)))]
    assert chords[1:] == ["A_m", "E_M", "D_m", "E_M", "A_m"]


def test_full_chords_outside_the_key_are_heard():
    progression = ["C_M", "E_7", "A_m", "F_m", "C#_M7", "F#_M", "G_7", "C_M"]
    expected = [(4 * bar, chord) for bar, chord in enumerate(progression)]
    score = played(progression)
    assert found(score) == found(score.replace(key_signature=(0, False))) == expected


def test_chords_of_a_song_are_those_of_its_annotation():
    # The chords of POP909's annotation of song 001, with their beats.
    annotation = (
        "4 B, 6 C#, 8 A#m, 10 D#m, 12 B, 14 C#, 16 F#, 20 B, 21 F#M7, 22 C#, 24 A#m, 25 A#sus4, 26 D#m, 28 B, "
        "29 F#M7, 30 C#, 32 F#, 36 B, 38 C#, 40 A#m, 42 D#m, 44 B, 46 C#"
    )
    changes = [change.split() for change in annotation.split(",")]
    markers = [Marker(480 * int(beat), name) for beat, name in changes]
    song = read_midi(SEEDS / "pop909_001.mid").replace(markers=tuple(markers))
    agreement = measured(song)
    assert agreement["root"] >= 0.9
    assert agreement["third"] >= 0.85
