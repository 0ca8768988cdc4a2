"""REMI says what the quantised score says, and has one spelling for it."""

import json
from functools import partial

import miditok
import numpy as np
import pytest
import symusic
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tokenization.grammar_cases import ids_of
from tests.tokenization.quantised import quantised
from tests.tokenization.remi.cases import (
    EVERY_METRE,
    REMI,
    VERSIONS,
    score_of,
    scores,
    slow_notes,
    walk,
)
from tokenization.language import language, language_from_spec
from tokenization.midi.reading import read_midi
from tokenization.midi.writing import write_midi
from tokenization.remi.spelling import MOST_BARS, level_velocity, volume_level
from tokenization.score import Marker, Meters, Score

VOCABULARY = REMI.vocabulary
BOTH = pytest.mark.parametrize("speaker", VERSIONS.values(), ids=VERSIONS)
SEEDS = st.integers(0, 2**32 - 1)


def spelled(score: Score) -> list[str]:
    return REMI.text(REMI.encode(score).ids).splitlines()


@BOTH
@settings(deadline=None, max_examples=200)
@given(scores())
def test_decoding_returns_the_quantised_score(speaker, score):
    encoded = speaker.encode(score)
    said = quantised(speaker, score)
    assert speaker.validate(encoded.ids) is None
    assert speaker.decode(encoded.ids) == said
    columns = (column.tolist() for column in said.notes.columns[:3])
    assert list(zip(*columns, strict=True)) == slow_notes(score, 2 * speaker.bar_subbeats)
    gone = encoded.losses.get("out of range", 0) + encoded.losses.get("merged", 0)
    assert encoded.notes == len(said.notes) == len(score.notes) - gone
    assert encoded.bars.tolist() == speaker.bars(encoded.ids).tolist()


@BOTH
@settings(deadline=None, max_examples=100)
@given(scores())
def test_a_quantised_score_is_spelled_without_loss(speaker, score):
    said = quantised(speaker, score)
    assert quantised(speaker, said) == said
    assert speaker.encode(said).losses == {}


@BOTH
@settings(deadline=None, max_examples=150)
@given(SEEDS, st.integers(1, 200))
def test_a_valid_sequence_is_the_only_spelling_of_its_score(speaker, seed, length):
    ids = walk(seed, length, speaker)
    encoded = speaker.encode(speaker.decode(ids))
    assert encoded.ids.tolist() == ids.tolist()
    assert encoded.ids.dtype == np.uint16
    assert encoded.losses == {}


@BOTH
@settings(deadline=None, max_examples=30)
@given(SEEDS)
def test_any_prefix_decodes_to_the_notes_that_are_complete(speaker, seed):
    ids = walk(seed, 60, speaker)
    durations = np.array([name.startswith("duration") for name in speaker.vocabulary.names])
    complete = speaker.decode(ids).notes
    for stop in range(len(ids)):
        notes = speaker.decode(ids[:stop]).notes
        assert notes == complete[: len(notes)]
        assert len(notes) == np.count_nonzero(durations[ids[:stop]])


def test_the_vocabulary_is_that_of_the_paper():
    sizes = {name: len(block) for name, block in VOCABULARY.blocks.items()}
    assert sizes == {
        "special": 3,
        "bar": 1,
        "subbeat": 16,
        "tempo": 65,
        "chord": 133,
        "pitch": 88,
        "volume": 24,
        "duration": 32,
    }
    assert VOCABULARY["tempo"].names[::64] == ("tempo_32", "tempo_224")
    assert VOCABULARY["duration"].names[::31] == ("duration_0.5", "duration_16")
    assert VOCABULARY["chord"].names[-1] == "chord_N_N"


def test_the_second_version_says_more_in_new_ids_only():
    more = EVERY_METRE.vocabulary
    assert more.names[: len(VOCABULARY)] == VOCABULARY.names
    assert more["metre"].names[:4] == ("metre_4/4", "metre_2/4", "metre_3/4", "metre_6/8")
    assert more["late_subbeat"].names == tuple(f"subbeat_{place}" for place in range(16, 24))
    assert more["long_duration"].names[::15] == ("duration_16.5", "duration_24")
    assert more["left"].names[::15] == ("left_1", "left_16")


def test_a_piece_in_other_metres_is_spelled_by_name():
    score = score_of(
        [(0, 4, 60, 64), (12, 2, 60, 64), (36, 22, 60, 64), (59, 1, 61, 64), (60, 1, 60, 64)],
        meters=[(0, 3, 4), (36, 12, 8), (60, 4, 4)],
    )
    assert EVERY_METRE.text(EVERY_METRE.encode(score).ids).splitlines() == [
        "begin",
        "bar metre_3/4 subbeat_0 pitch_60 volume_13 duration_4",
        "bar subbeat_0 pitch_60 volume_13 duration_2",
        "bar",
        "bar metre_12/8 subbeat_0 pitch_60 volume_13 duration_22 "
        "subbeat_23 pitch_61 volume_13 duration_1",
        "bar metre_4/4 subbeat_0 pitch_60 volume_13 duration_1 end",
    ]


def test_a_piece_in_four_four_is_spelled_alike_by_both():
    score = score_of([(0, 4, 64, 80), (40, 1, 60, 127)], meters=[(0, 4, 4)])
    assert EVERY_METRE.encode(score).ids.tolist() == REMI.encode(score).ids.tolist()


def test_time_goes_on_by_the_longest_bar_in_every_metre():
    clock = EVERY_METRE.clock()
    assert (clock["bar_ticks"], clock["step_ticks"], REMI.clock()["bar_ticks"]) == (24, 24, 16)
    moves = {token: move for token, *move in clock["moves"]}
    names = {EVERY_METRE.vocabulary.names[token]: move for token, move in moves.items()}
    assert names == {"bar": [1, 0]} | {f"subbeat_{place}": [0, place] for place in range(24)}


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
    ids = REMI.encode(score).ids
    assert ids_of(REMI, REMI.text(ids)).tolist() == ids.tolist()


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
        ([(0, 16, 60, 64), (16, 2, 60, 64)], "duration_16 bar .* duration_2", {}),
    ],
)
def test_every_note_that_changes_counts_under_one_reason(notes, text, losses):
    encoded = REMI.encode(score_of(notes))
    middle = " ".join(REMI.text(encoded.ids).split())
    expected = f"begin bar subbeat_0 pitch_60 volume_13 {text} end"
    if ".*" in text:
        assert middle.startswith(expected.split(".*")[0].strip())
    else:
        assert middle == expected
    assert encoded.losses == losses


def test_of_notes_merged_the_longest_and_the_loudest_count():
    said = quantised(REMI, score_of([(0, 8, 60, 10), (0, 2, 60, 120)]))
    assert said.notes.duration_ticks.tolist() == [16]
    assert volume_level(said.notes.velocity).tolist() == volume_level(np.array([120])).tolist()


def test_volume_levels_are_24_equal_parts_and_return_to_themselves():
    levels = volume_level(np.arange(1, 128))
    assert sorted(set(levels.tolist())) == list(range(24))
    assert set(np.bincount(levels)) == {5, 6}
    assert volume_level(level_velocity(np.arange(24))).tolist() == list(range(24))


def test_the_tempo_of_a_bar_is_its_beats_by_its_minutes():
    # Two beats at 60 and two at 120 take 3 seconds: 80 a minute.
    score = score_of([(0, 1, 60, 64), (16, 1, 60, 64)], tempos=[(0, 60), (8, 120)])
    assert "tempo_80" in spelled(score)[1]
    assert "tempo_119" in spelled(score)[2]


def test_a_tempo_waits_for_a_bar_with_notes_and_stands_at_its_start():
    score = score_of([(0, 1, 60, 64), (36, 1, 60, 64)], tempos=[(16, 90)])
    assert spelled(score)[1:] == [
        "bar subbeat_0 pitch_60 volume_13 duration_1",
        "bar",
        "bar subbeat_0 tempo_89 subbeat_4 pitch_60 volume_13 duration_1 end",
    ]


def test_a_steady_tempo_half_way_between_two_levels_does_not_flicker():
    notes = [(16 * bar, 1, 60, 64) for bar in range(200)]
    for tempo in (120.5, 66.5, 213.5):
        lines = spelled(score_of(notes, tempos=[(0, tempo)]))
        assert sum("tempo" in line for line in lines) == 1


def test_extreme_and_impossible_tempos():
    notes = [(0, 1, 60, 64), (16, 1, 60, 64)]
    assert "tempo_32" in spelled(score_of(notes, tempos=[(0, 1e-9)]))[1]
    assert "tempo_224" in spelled(score_of(notes, tempos=[(0, 1e300)]))[1]
    for tempo in (0.0, -3.0, float("nan")):
        assert not any("tempo" in line for line in spelled(score_of(notes, tempos=[(0, tempo)])))


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
    assert quantised(REMI, score).markers == (
        Marker(0, "C_M"),
        Marker(16, "E_m"),
        Marker(64, "G_7"),
    )
    late = score.replace(markers=(*score.markers, Marker(32, "A_m")))
    assert quantised(REMI, late).markers[-1] == Marker(64, "A_m")


def test_transposition_moves_pitches_and_roots():
    ids = ids_of(
        REMI,
        "begin bar subbeat_0 tempo_119 chord_A#_m7 pitch_60 volume_9 duration_4 "
        "pitch_107 volume_9 duration_4 subbeat_4 chord_N_N end",
    )
    up = REMI.transpose(ids, 1)
    assert up is not None
    assert REMI.text(up) == (
        "begin\nbar subbeat_0 tempo_119 chord_B_m7 pitch_61 volume_9 duration_4 "
        "pitch_108 volume_9 duration_4 subbeat_4 chord_N_N end"
    )
    assert REMI.transpose(ids, 2) is None
    assert REMI.transpose(ids, -40) is None
    down = REMI.transpose(up, -1)
    assert down is not None
    assert (down.tolist(), down.dtype) == (ids.tolist(), ids.dtype)


@BOTH
@settings(deadline=None, max_examples=40)
@given(SEEDS, st.integers(-6, 6))
def test_a_transposed_sequence_is_valid_and_its_score_is_transposed(speaker, seed, semitones):
    ids = walk(seed, 80, speaker)
    notes = speaker.decode(ids).notes
    moved = speaker.transpose(ids, semitones)
    pitch = notes.pitch + semitones
    assert (moved is None) == bool(((pitch < 21) | (pitch > 108)).any())
    if moved is not None:
        assert speaker.decode(moved).notes == notes.replace(pitch=pitch)


@pytest.mark.parametrize("pitches", [[], [20, 109]])
def test_a_score_without_notes_is_refused(pitches):
    score = score_of([(0, 1, pitch, 64) for pitch in pitches])
    for use in (REMI.encode, partial(quantised, REMI)):
        with pytest.raises(ValueError, match=f"nothing to spell: .* {len(pitches)} notes, none"):
            use(score)


def test_a_score_before_its_start_or_beyond_all_bounds_is_refused():
    with pytest.raises(ValueError, match="3 sub-beats before the first bar"):
        REMI.encode(score_of([(-3, 1, 60, 64)]))
    with pytest.raises(ValueError, match=f"lasts {MOST_BARS + 1} bars; at most {MOST_BARS} can"):
        REMI.encode(score_of([(MOST_BARS * 16, 1, 60, 64)]))
    quarters = score_of([(70_000 * 4, 1, 60, 64)]).replace(meters=Meters(*np.array([[0, 1, 4]]).T))
    with pytest.raises(ValueError, match=f"lasts 70001 bars; at most {MOST_BARS} can"):
        language("remi-2").encode(quarters)


def test_decoding_names_the_fault():
    with pytest.raises(ValueError, match="token 3 is wrong: volume_9 must follow a pitch"):
        REMI.decode(ids_of(REMI, "begin bar subbeat_0 volume_9"))


@BOTH
def test_the_spec_survives_json_and_leads_back(speaker):
    spec = json.loads(json.dumps(speaker.spec()))
    assert spec == speaker.spec()
    assert type(language_from_spec(spec)) is type(speaker)
    with pytest.raises(ValueError, match="differs from the one at hand in volume_levels"):
        language_from_spec({**spec, "volume_levels": 32})
    assert language(speaker.name).vocabulary is speaker.vocabulary


def test_onsets_and_pitches_agree_with_miditok():
    random = np.random.default_rng(5)
    onset = np.sort(random.integers(0, 480 * 64, 200))
    onset[onset % 120 == 60] += 1  # MidiTok rounds halves to even, we up
    rows = {(int(t), int(p)) for t, p in zip(onset, random.integers(21, 109, 200), strict=True)}
    notes = sorted((t, 240, p, 64) for t, p in rows)
    theirs = symusic.Score(480)
    theirs.tracks.append(symusic.Track("piano"))
    theirs.tracks[0].notes = symusic.core.NoteTickList([symusic.Note(*note) for note in notes])
    config = miditok.TokenizerConfig(pitch_range=(21, 109), beat_res={(0, 16): 4})
    (tokens,) = miditok.REMI(config).encode(theirs)
    found, bar, position = set(), -1, 0
    for family, value in (str(token).split("_") for token in tokens.tokens):
        if family == "Bar":
            bar += 1
        elif family == "Position":
            position = int(value)
        elif family == "Pitch":
            found.add((2 * (16 * bar + position), int(value)))
    ours = quantised(REMI, score_of(notes, 480)).notes
    assert found == set(zip(ours.onset_ticks.tolist(), ours.pitch.tolist(), strict=True))


@BOTH
@settings(deadline=None, max_examples=25)
@given(SEEDS)
def test_a_decoded_piece_survives_a_midi_file(speaker, seed):
    score = speaker.decode(walk(seed, 150, speaker))
    again = quantised(speaker, read_midi(write_midi(score)))
    assert again.notes == score.notes
    assert again.meters == score.meters
    assert again.markers == score.markers
    if len(score.tempos) and score.tempos.onset_ticks[0] == 0:
        assert again.tempos == score.tempos
