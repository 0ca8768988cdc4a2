"""REMI's own: how pieces are spelled, what is lost, tempos and chords, and when a bar may close."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tokenization.grammar_cases import ids_of, take
from tests.tokenization.quantised import quantised
from tests.tokenization.remi.cases import REMI, score_of, walk
from tokenization.midi.reading import read_midi
from tokenization.midi.writing import write_midi
from tokenization.remi.spelling import MOST_BARS, level_velocity, volume_level
from tokenization.score import Marker, Score

VOCABULARY = REMI.vocabulary
SEEDS = st.integers(0, 2**32 - 1)


def spelled(score: Score) -> list[str]:
    return REMI.text(REMI.encode(score).ids).splitlines()


def test_the_vocabulary_is_that_of_the_paper():
    sizes = [len(block) for block in VOCABULARY.blocks.values()]
    names = ["special", "bar", "subbeat", "tempo", "chord", "pitch", "volume", "duration"]
    assert (list(VOCABULARY.blocks), sizes) == (names, [3, 1, 16, 65, 133, 88, 24, 32])
    assert VOCABULARY["tempo"].names[::64] == ("tempo_32", "tempo_224")
    assert VOCABULARY["duration"].names[::31] == ("duration_0.5", "duration_16")
    assert VOCABULARY["chord"].names[-1] == "chord_N_N"


def test_a_piece_is_spelled_by_name():
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
def test_every_note_that_changes_counts_under_one_reason(notes, text, losses):
    score = score_of(notes)
    assert spelled(score)[1:] == [f"bar subbeat_0 pitch_60 volume_13 {text} end"]
    assert REMI.encode(score).losses == losses


def test_of_notes_merged_the_longest_and_the_loudest_count():
    said = quantised(REMI, score_of([(0, 8, 60, 10), (0, 2, 60, 120)]))
    assert said.notes.duration_ticks.tolist() == [16]
    assert volume_level(said.notes.velocity).tolist() == volume_level(np.array([120])).tolist()


def test_volume_levels_are_24_equal_parts_and_return_to_themselves():
    levels = volume_level(np.arange(1, 128))
    assert sorted(set(levels.tolist())) == list(range(24))
    assert set(np.bincount(levels)) == {5, 6}
    assert volume_level(level_velocity(np.arange(24))).tolist() == list(range(24))


@pytest.mark.parametrize(
    ("onsets", "tempos", "found"),
    [
        # Two beats at 60 and two at 120 take 3 seconds: 80 a minute.
        ([0, 16], [(0, 60), (8, 120)], {0: 80, 1: 119}),
        # It waits for a bar with notes.
        ([0, 36], [(16, 90)], {2: 89}),
        ([0, 16], [(0, 1e-9)], {0: 32}),
        ([0, 16], [(0, 1e300)], {0: 224}),
        ([0], [(0, 0.0)], {}),
        ([0], [(0, float("nan"))], {}),
        # Half way between two levels it does not flicker.
        ([16 * bar for bar in range(200)], [(0, 120.5)], {0: 122}),
        ([16 * bar for bar in range(200)], [(0, 66.5)], {0: 68}),
        ([16 * bar for bar in range(200)], [(0, 213.5)], {0: 215}),
    ],
)
def test_the_tempo_of_a_bar_is_its_beats_by_its_minutes(onsets, tempos, found):
    lines = spelled(score_of([(onset, 1, 60, 64) for onset in onsets], tempos=tempos))[1:]
    said = {bar: line.split()[2] for bar, line in enumerate(lines) if "tempo" in line}
    assert said == {bar: f"tempo_{tempo}" for bar, tempo in found.items()}


def test_chords_stand_where_they_change():
    score = score_of(
        [(0, 1, 60, 64), (33, 1, 60, 64)],
        markers=[
            (0, "C_M"),
            (2, "Verse"),
            (4, "C_M"),  # no change
            (8, "D_m"),
            (8, "E_m"),  # the last on a sub-beat counts
            (17, "F_M"),  # in the empty bar: overtaken
            (20, "G_7"),  # in the empty bar: in force at the next
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
    down = REMI.transpose(ids, -1)
    assert down is not None
    assert REMI.text(down).split() == after.replace("pitch_60", "pitch_59").split()
    assert down.dtype == ids.dtype
    assert REMI.transpose(ids, 1) is REMI.transpose(ids, -40) is None


@pytest.mark.parametrize(
    ("score", "says"),
    [
        (score_of([]), "nothing to spell: .* 0 notes, none"),
        (score_of([(0, 1, 20, 64), (0, 1, 109, 64)]), "nothing to spell: .* 2 notes, none"),
        (score_of([(-3, 1, 60, 64)]), "3 sub-beats before the first bar"),
        (
            score_of([(MOST_BARS * 16, 1, 60, 64)]),
            f"lasts {MOST_BARS + 1} bars; at most {MOST_BARS} can",
        ),
    ],
)
def test_what_cannot_be_spelled_is_refused(score, says):
    with pytest.raises(ValueError, match=says):
        REMI.encode(score)


@settings(max_examples=15)
@given(SEEDS)
def test_a_decoded_piece_survives_a_midi_file(seed):
    score = REMI.decode(walk(seed, 150))
    again = quantised(REMI, read_midi(write_midi(score)))
    assert again.notes == score.notes
    assert again.meters == score.meters
    assert again.markers == score.markers
    if len(score.tempos) and score.tempos.onset_ticks[0] == 0:
        assert again.tempos == score.tempos


KEYS = " ".join(f"pitch_{p} volume_9 duration_16" for p in range(21, 109))


@pytest.mark.parametrize(
    ("text", "families"),
    [
        # There is a way on when every key sounds, and a last chance for a bar to get a note.
        (f"begin bar subbeat_15 {KEYS} bar subbeat_3", {"chord"}),
        (f"begin bar subbeat_15 {KEYS} bar subbeat_3 chord_C_M subbeat_15 chord_N_N", {"pitch"}),
        # A bar with notes may close after a chord.
        (
            "begin bar subbeat_0 pitch_60 volume_9 duration_1 subbeat_8 chord_C_M",
            {"bar", "end", "pitch", "subbeat"},
        ),
    ],
)
def test_there_is_always_a_way_on(text: str, families: set[str]):
    take(grammar := REMI.grammar(), ids_of(REMI, text))
    names = [REMI.vocabulary.names[i] for i in np.flatnonzero(grammar.allowed()[0])]
    assert {name.partition("_")[0] for name in names} == families
