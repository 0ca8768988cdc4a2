"""What is specific to REMI: its tokens, the arrangement for one piano, and chord progressions."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.tokenization.grammar_cases import ids_of, quantised
from tests.tokenization.remi.cases import REMI, score_of
from tokenization.analysis.chords import read_chords
from tokenization.language import transposed
from tokenization.remi.language import MOST_BARS, arrange, level_velocity, volume_level
from tokenization.score import Marker, Meters, Notes, Score, Tempos, Track

VOCABULARY = REMI.vocabulary


def spelled(score: Score) -> list[str]:
    return REMI.text(REMI.encode(score).ids).splitlines()


def test_the_vocabulary_matches_the_paper():
    sizes = [len(block) for block in VOCABULARY.blocks.values()]
    names = ["special", "bar", "subbeat", "tempo", "chord", "pitch", "volume", "duration"]
    assert (list(VOCABULARY.blocks), sizes) == (names, [3, 1, 16, 65, 133, 88, 24, 32])
    assert VOCABULARY["tempo"].names[::64] == ("tempo_32", "tempo_224")
    assert VOCABULARY["duration"].names[::31] == ("duration_0.5", "duration_16")
    assert VOCABULARY["chord"].names[-1] == "chord_N_N"


def test_tokens_of_a_piece():
    score = score_of(
        [(0, 4, 64, 80), (0, 4, 60, 80), (6, 2, 67, 1), (40, 1, 60, 127)],
        tempos=[(0, 119.4)],
        markers=[(0, "C_M"), (4, "A_m7")],
    )
    assert spelled(score) == [
        "begin",
        "bar subbeat_0 tempo_119 chord_C_M pitch_60 volume_16 duration_4 "
        "pitch_64 volume_16 duration_4 subbeat_4 chord_A_m7 subbeat_6 pitch_67 volume_1 duration_2",
        "bar",
        "bar subbeat_8 pitch_60 volume_24 duration_1 end",
    ]


@pytest.mark.parametrize(
    ("notes", "text", "losses"),
    [
        ([(0, 4, 20, 64), (0, 4, 60, 64), (0, 4, 109, 64)], "duration_4", {"out of range": 2}),
        ([(0, 2, 60, 64), (0, 4, 60, 64)], "duration_4", {"merged": 1}),
        ([(0, 16, 60, 64)], "duration_16", {}),
        ([(0, 17, 60, 64)], "duration_16", {"cut to a bar": 1}),
        ([(0, 0, 60, 64)], "duration_0.5", {}),
        (
            [(0, 99, 60, 64), (3, 2, 60, 64)],
            "duration_3 subbeat_3 pitch_60 volume_13 duration_2",
            {"cut where struck again": 1},
        ),
    ],
)
def test_each_changed_note_is_counted_once(notes, text, losses):
    score = score_of(notes)
    assert spelled(score)[1:] == [f"bar subbeat_0 pitch_60 volume_13 {text} end"]
    assert REMI.encode(score).losses == losses


def test_merged_notes_take_the_greatest_length_and_loudness():
    merged = quantised(REMI, score_of([(0, 8, 60, 10), (0, 2, 60, 120)]))
    assert merged.notes.duration_ticks.tolist() == [16]
    assert volume_level(merged.notes.velocity).tolist() == volume_level(np.array([120])).tolist()


def test_volume_levels_divide_velocities_evenly():
    levels = volume_level(np.arange(1, 128))
    assert sorted(set(levels.tolist())) == list(range(24))
    assert set(np.bincount(levels)) == {5, 6}
    assert volume_level(level_velocity(np.arange(24))).tolist() == list(range(24))


@pytest.mark.parametrize(
    ("onsets", "tempos", "found"),
    [
        # Two beats at 60 and two at 120 take 3 seconds: 80 beats per minute.
        ([0, 16], [(0, 60), (8, 120)], {0: 80, 1: 119}),
        # A change moves to the next bar with notes.
        ([0, 36], [(16, 90)], {2: 89}),
        ([0, 16], [(0, 1e-9)], {0: 32}),
        ([0, 16], [(0, 1e300)], {0: 224}),
        ([0], [(0, 0.0)], {}),
        ([0], [(0, float("nan"))], {}),
        # A tempo between two levels keeps its level.
        ([16 * bar for bar in range(200)], [(0, 120.5)], {0: 122}),
        ([16 * bar for bar in range(200)], [(0, 66.5)], {0: 68}),
        ([16 * bar for bar in range(200)], [(0, 213.5)], {0: 215}),
    ],
)
def test_the_tempo_of_a_bar(onsets, tempos, found):
    lines = spelled(score_of([(onset, 1, 60, 64) for onset in onsets], tempos=tempos))[1:]
    tempo_tokens = {bar: line.split()[2] for bar, line in enumerate(lines) if "tempo" in line}
    assert tempo_tokens == {bar: f"tempo_{tempo}" for bar, tempo in found.items()}


def test_chords_are_encoded_when_they_change():
    score = score_of(
        [(0, 1, 60, 64), (33, 1, 60, 64)],
        markers=[
            (0, "C_M"),
            (2, "Verse"),
            (4, "C_M"),  # no change
            (8, "D_m"),
            (8, "E_m"),  # the last on a sub-beat counts
            (17, "F_M"),  # in the empty bar: replaced
            (20, "G_7"),  # in the empty bar: moves to the next bar
            (50, "C_M"),  # after the last note
        ],
    )
    chords = (Marker(0, "C_M"), Marker(16, "E_m"), Marker(64, "G_7"))
    assert quantised(REMI, score).markers == chords
    late = score.replace(markers=(*score.markers, Marker(32, "A_m")))
    assert quantised(REMI, late).markers[-1] == Marker(64, "A_m")


def test_transposition_moves_pitches_and_roots():
    before, after = (
        f"begin bar subbeat_0 tempo_119 chord_{chord} pitch_60 volume_9 duration_4 "
        f"pitch_{pitch} volume_9 duration_4 subbeat_4 chord_N_N end"
        for chord, pitch in (("A#_m7", 108), ("A_m7", 107))
    )
    ids = ids_of(REMI, before)
    down = transposed(VOCABULARY, ids, -1)
    assert REMI.text(down).split() == after.replace("pitch_60", "pitch_59").split()
    assert down.dtype == ids.dtype
    assert transposed(VOCABULARY, ids, 1) is transposed(VOCABULARY, ids, -40) is None


def band(**changes) -> Score:
    """Return a score of pitched tracks, drums and a sound effect with one note each; two share a name."""
    lead, bass, kit = Track("Lead", 73), Track("Bass", 33), Track("Drums", is_drum=True)
    return Score(
        ticks_per_beat=4,
        notes=Notes([0] * 5, [4] * 5, [60, 40, 36, 50, 64], [80] * 5, range(5)),
        tracks=(lead, bass, kit, Track(program=127), Track("lead ")),
        tempos=Tempos([0], [100.0]),
        meters=Meters([0], [4], [4]),
        markers=(Marker(0, "C_M"),),
    ).replace(**changes)


def test_all_pitched_tracks_are_played_and_others_are_remarked():
    score = arrange(band())
    assert score.notes.pitch.tolist() == [40, 60, 64]
    assert arrange(band(), ["Bass", 0]).notes.pitch.tolist() == [40, 60]
    assert score.tracks == (Track(name="Piano"),)
    assert score.remarks == (
        "3 tracks are played on one piano: Lead, Bass and lead.",
        "Left out: Drums and track 3.",
    )


def playing(tracks: list | None, kept: tuple[int, ...] = (2, 3)) -> Score:
    """Arrange some tracks of the band, of which only the `kept` ones have notes."""
    notes = band().notes
    return arrange(band(notes=notes[np.isin(notes.track, kept)]), tracks)


@pytest.mark.parametrize(
    ("ask", "given", "message"),
    [
        (REMI.encode, score_of([]), "has 0 notes, but none within the range"),
        (REMI.encode, score_of([(0, 1, 20, 64), (0, 1, 109, 64)]), "has 2 notes, but none within"),
        (REMI.encode, score_of([(-3, 1, 60, 64)]), "before the first bar"),
        (
            REMI.encode,
            score_of([(MOST_BARS * 16, 1, 60, 64)]),
            f"{MOST_BARS + 1} bars; the limit is {MOST_BARS}",
        ),
        (partial(playing, kept=()), None, "no notes to arrange"),
        (playing, None, "all 2 notes are played by drums or sound effects"),
        (playing, ["Bass"], "have no notes"),
        (playing, [], "have no notes"),
        (read_chords, "C | H7 | F", "'H7' in bar 2 is not a chord; examples are C, Am7"),
        (read_chords, " | | ", "the progression has no chords"),
        (read_chords, "C D E F G", "bar 1 has 5 chords; the limit is 4"),
    ],
)
def test_invalid_input_raises_an_error(ask: Callable[[Any], object], given: Any, message: str):
    with pytest.raises(ValueError, match=message):
        ask(given)


def test_chords_are_recognised_if_none_are_named():
    notes = band().notes.replace(pitch=[60, 48, 36, 50, 67])
    for texts in ([], ["A", "B"]):
        markers = tuple(Marker(i, text) for i, text in enumerate(texts))
        arranged = arrange(band(notes=notes, markers=markers), [0, 1, 4])
        assert [marker.text for marker in arranged.markers] == ["C_M"]
        assert (
            arranged.remarks[-1]
            == "The file has no chord symbols; chords were recognised from the notes."
        )


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("C | G/B | Am F | C", [["C"], ["G/B"], ["Am", "F"], ["C"]]),
        ("| Bbmaj7 | |", [["Bbmaj7"], []]),
        ("|| C || G | | F |||", [["C"], ["G"], [], ["F"]]),
        ("N", [["N"]]),
    ],
)
def test_a_progression_is_parsed(text, line):
    assert read_chords(text) == line
