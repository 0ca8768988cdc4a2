"""Groove says what the quantised trio says, has one spelling for it, and it is the authors' own."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tokenization.grammar_cases import ids_of
from tests.tokenization.groove.cases import (
    TRIO,
    golden_cases,
    golden_tokens,
    golden_trio,
    slow_notes,
    trio_of,
    trios,
    walk,
)
from tests.tokenization.quantised import quantised
from tokenization.groove.language import MOST_BEATS, Band, Groove
from tokenization.groove.spelling import BAR_TICKS, NOTE_OFF, VOCABULARY
from tokenization.language import language, language_from_spec
from tokenization.score import Notes, Track

GROOVE = Groove()
SEEDS = st.integers(0, 2**32 - 1)


def rows(notes: Notes) -> list[tuple[int, int, int, int]]:
    columns = (notes.onset_ticks, notes.track, notes.pitch, notes.duration_ticks)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def spelled(notes) -> str:
    return " ".join(GROOVE.text(GROOVE.encode(trio_of(notes)).ids).split())


@pytest.mark.parametrize("case", golden_cases())
def test_the_authors_tokens_are_reproduced(case):
    encoded = GROOVE.encode(golden_trio(case["notes"]))
    assert [VOCABULARY.names[i] for i in encoded.ids] == golden_tokens(case)
    decoded = GROOVE.decode(encoded.ids, encoded.setting)
    assert decoded.notes == golden_trio(case["decoded"]).notes.sorted()
    assert encoded.losses == {}


@settings(deadline=None, max_examples=200)
@given(trios())
def test_decoding_returns_the_quantised_score(score):
    encoded = GROOVE.encode(score)
    said = quantised(GROOVE, score)
    assert GROOVE.validate(encoded.ids) is None
    assert GROOVE.decode(encoded.ids, encoded.setting) == said
    assert rows(said.notes) == slow_notes(score)
    gone = encoded.losses.get("struck more than 8 times at once", 0)
    assert encoded.notes == len(said.notes) == len(score.notes) - gone
    assert encoded.bars.tolist() == GROOVE.bars(encoded.ids).tolist()


@settings(deadline=None, max_examples=100)
@given(trios())
def test_a_quantised_score_is_spelled_without_loss(score):
    said = quantised(GROOVE, score)
    assert quantised(GROOVE, said) == said
    assert GROOVE.encode(said).losses == {}


@settings(deadline=None, max_examples=150)
@given(SEEDS, st.integers(1, 200))
def test_a_valid_sequence_is_the_only_spelling_of_its_score(seed, length):
    ids = walk(seed, length)
    encoded = GROOVE.encode(GROOVE.decode(ids))
    assert encoded.ids.tolist() == ids.tolist()
    assert encoded.ids.dtype == np.uint16
    assert encoded.losses == {}


@settings(deadline=None, max_examples=30)
@given(SEEDS)
def test_any_prefix_decodes_to_the_notes_that_are_complete(seed):
    ids = walk(seed, 60)
    complete = rows(GROOVE.decode(ids).notes)
    for stop in range(len(ids)):
        notes = rows(GROOVE.decode(ids[:stop]).notes)
        assert len(notes) == np.count_nonzero(NOTE_OFF.holds(ids[:stop]))
        assert set(notes) <= set(complete)


def test_the_vocabulary_is_that_of_the_paper():
    sizes = {name: len(block) for name, block in VOCABULARY.blocks.items()}
    assert sizes == {"special": 2, "note_on": 384, "note_off": 384, "time_shift": 24}
    assert len(VOCABULARY) == 794
    assert VOCABULARY["note_off"].names[200] == "note_off_1_72"
    assert VOCABULARY["time_shift"].names[::23] == ("time_shift_0_1", "time_shift_2_0")


def test_a_piece_is_spelled_by_name():
    text = (
        "begin\n"
        "note_on_0_40 note_on_1_40 note_on_2_60 time_shift_0_1 note_off_1_40 "
        "time_shift_2_0 note_off_2_60\n"
        "time_shift_2_0 time_shift_0_6 note_off_0_40 time_shift_2_0\n"
        "time_shift_2_0 note_on_2_60 time_shift_1_11 note_off_2_60 end"
    )
    notes = [(0, 54, 40, 90, 0), (0, 1, 40, 90, 1), (0, 24, 60, 70, 2), (96, 23, 60, 70, 2)]
    ids = GROOVE.encode(trio_of(notes)).ids
    assert GROOVE.text(ids) == text
    assert ids_of(GROOVE, text).tolist() == ids.tolist()


@pytest.mark.parametrize(
    ("notes", "tokens", "losses"),
    [
        ([(0, 0, 60, 64, 2)], "note_on_2_60 time_shift_0_1 note_off_2_60", {}),
        (
            [(0, 24, 60, 64, 2), (12, 6, 60, 64, 2)],
            "note_on_2_60 time_shift_1_0 note_on_2_60 time_shift_0_6 note_off_2_60 "
            "time_shift_1_0 note_off_2_60",
            {"overlapping on one pitch, closed first-in first-out": 2},
        ),
        (
            [(0, 12, 60, 64, 2)] * 9,
            "note_on_2_60 " * 8 + "time_shift_1_0" + " note_off_2_60" * 8,
            {"struck more than 8 times at once": 1},
        ),
        (
            [*[(0, 24, 36, 64, 1)] * 8, (12, 24, 36, 64, 1)],
            "note_on_1_36 " * 8 + "time_shift_1_0 note_off_1_36 note_on_1_36 time_shift_1_0"
            " note_off_1_36" + " note_off_1_36" * 6 + " time_shift_1_0 note_off_1_36",
            {"cut where the 8th note after it is struck": 1},
        ),
    ],
)
def test_what_changes_beyond_rounding_is_counted(notes, tokens, losses):
    encoded = GROOVE.encode(trio_of(notes))
    assert spelled(notes) == f"begin {tokens} end"
    assert encoded.losses == losses


def test_time_rounds_to_the_nearest_of_twelve_ticks_a_beat():
    score = trio_of([(8, 8, 40, 90, 0), (7, 1, 36, 90, 1), (200, 184, 60, 80, 2)], 192)
    assert rows(quantised(GROOVE, score).notes) == [(0, 1, 36, 1), (1, 0, 40, 1), (13, 2, 60, 11)]


def test_instruments_loudness_and_tempo_are_kept_beside_the_tokens():
    score = trio_of(
        [(0, 12, 40, 90, 0), (0, 12, 36, 71, 1), (0, 48, 38, 80, 1), (24, 12, 60, 1, 2)],
        tempos=[(0, 60), (24, 120)],
    ).replace(tracks=(Track("Fretless", 35), Track("Kit", 8, True), Track("Organ", 16)))
    encoded = GROOVE.encode(score)
    # Two beats of a second each and two of half a second are four beats in three seconds.
    assert encoded.setting == Band(
        programs=(35, 8, 16), velocities=(90, 76, 1), beats_per_minute=80.0
    )
    decoded = GROOVE.decode(encoded.ids, encoded.setting)
    assert decoded.tracks == (Track("Bass", 35), Track("Drums", 8, True), Track("Other", 16))
    assert decoded.notes.velocity.tolist() == [90, 76, 76, 1]
    assert decoded.tempos.beats_per_minute.tolist() == [80.0]
    assert GROOVE.decode(encoded.ids).notes.velocity.tolist() == [90, 90, 90, 75]


@pytest.mark.parametrize(
    "wrong",
    [
        {"programs": (128, 0, 0)},
        {"velocities": (64, 0, 64)},
        {"beats_per_minute": 0.0},
        {"beats_per_minute": float("nan")},
    ],
)
def test_a_band_that_nobody_can_play_is_refused(wrong):
    with pytest.raises(ValueError, match="a band has programs of 0 to 127"):
        Band(**wrong)


def test_a_silent_track_has_the_usual_loudness():
    silent = GROOVE.encode(trio_of([(0, 12, 40, 64, 0)])).setting
    assert silent == Band(programs=(33, 0, 0), velocities=(64, 90, 75))


@settings(deadline=None, max_examples=60)
@given(SEEDS, st.integers(1, 150))
def test_tokens_up_to_a_bar_say_what_lies_before_its_line(seed, length):
    ids = walk(seed, length)
    notes, bars = GROOVE.decode(ids).notes, GROOVE.bars(ids)
    assert len(bars) == -(-notes.end_ticks.max() // BAR_TICKS)
    for bar, offset in enumerate(bars):
        before = [VOCABULARY.names[i] for i in ids[:offset]]
        ons = [name for name in before if name.startswith("note_on")]
        assert len(ons) == np.count_nonzero(notes.onset_ticks < bar * BAR_TICKS)
        grammar = GROOVE.grammar()
        for token in ids[:offset]:
            grammar.advance(np.array([token]))
        assert bar == 0 or grammar.time_ticks[0] < bar * BAR_TICKS


def test_bars_of_a_rest_start_where_time_passes_them():
    ids = GROOVE.encode(trio_of([(0, 12, 40, 90, 0), (150, 6, 40, 90, 0)])).ids
    # begin on shift off, then shifts to beats 3, 5, 7, 9, 11 and 12 and a half
    assert GROOVE.bars(ids).tolist() == [1, 5, 7, 9]
    assert GROOVE.bars(ids[:1]).tolist() == [1]
    assert GROOVE.bars(ids[:0]).tolist() == []
    assert GROOVE.bars(
        ids_of(GROOVE, "begin time_shift_2_0 time_shift_2_0 note_on_0_40")
    ).tolist() == [1, 2]


def test_a_broken_off_piece_is_closed_at_its_bar_line():
    prefix = "begin note_on_0_40 note_on_2_60 time_shift_1_6 note_off_2_60 time_shift_2_0"
    closed = GROOVE.close(ids_of(GROOVE, prefix))
    assert GROOVE.validate(closed) is None
    assert rows(GROOVE.decode(closed).notes) == [(0, 0, 40, 48), (0, 2, 60, 18)]
    assert GROOVE.close(closed).tolist() == closed.tolist()


def test_a_piece_is_cut_to_some_bars():
    ids = GROOVE.encode(trio_of([(0, 60, 40, 90, 0), (36, 30, 60, 80, 2), (48, 9, 60, 80, 2)])).ids
    cut = GROOVE.close(ids, bars=1)
    assert rows(GROOVE.decode(cut).notes) == [(0, 0, 40, 48), (36, 2, 60, 12)]
    assert GROOVE.close(ids, bars=9).tolist() == ids.tolist()


def test_what_sounds_where_a_piece_breaks_off_ends_with_that_bar_however_far_it_was_to_go():
    """As music does that somebody stops, or looks at while it is written."""
    begun = (
        "begin note_on_0_40 time_shift_2_0 time_shift_2_0 note_on_1_36 time_shift_1_0 note_off_1_36"
    )
    for prefix, end in (
        (begun, 96),
        (f"{begun} time_shift_2_0 time_shift_1_0", 144),  # it has come to the third bar
    ):
        closed = GROOVE.close(ids_of(GROOVE, prefix), bars=16)
        assert rows(GROOVE.decode(closed).notes) == [(0, 0, 40, end), (48, 1, 36, 12)]
    assert rows(GROOVE.decode(GROOVE.close(ids_of(GROOVE, begun), bars=1)).notes) == [
        (0, 0, 40, 48)
    ]


@settings(deadline=None, max_examples=60)
@given(SEEDS, st.integers(1, 100), st.integers(1, 4))
def test_closing_any_prefix_makes_a_whole_piece(seed, length, bars):
    ids = walk(seed, length)
    ids = ids[: max(np.flatnonzero(VOCABULARY["note_on"].holds(ids))[0] + 1, length // 2)]
    for closed in (GROOVE.close(ids), GROOVE.close(ids, bars)):
        if len(closed) > 2:  # the first note may lie after the last bar asked for
            assert closed[-1] == GROOVE.end
            assert GROOVE.validate(closed) is None
    assert GROOVE.decode(GROOVE.close(ids)).notes.end_ticks.max() <= BAR_TICKS * len(
        GROOVE.bars(ids)
    )


def test_notes_of_a_piece_can_be_chosen_and_spelled_anew():
    ids = GROOVE.encode(trio_of([(0, 60, 40, 90, 0), (36, 1, 36, 80, 1), (48, 9, 60, 80, 2)])).ids
    notes = GROOVE.notes(ids)
    later = notes[notes.onset_ticks >= BAR_TICKS]
    ids = GROOVE.spell(later.replace(onset_ticks=later.onset_ticks - BAR_TICKS))
    text = "begin note_on_2_60 time_shift_0_9 note_off_2_60 end"
    assert ids.tolist() == ids_of(GROOVE, text).tolist()
    assert ids.dtype == np.uint16


def test_what_cannot_be_spelled_is_refused():
    with pytest.raises(ValueError, match="the score has no notes"):
        GROOVE.encode(trio_of([]))
    with pytest.raises(ValueError, match=r"needs the three tracks Bass, Drums, Other, .* has 2"):
        GROOVE.encode(trio_of([(0, 1, 60, 90, 0)]).replace(tracks=TRIO[:2]))
    with pytest.raises(ValueError, match=r"pitches go from 0 to 127, .* from 60 to 128"):
        GROOVE.encode(trio_of([(0, 1, 60, 90, 0), (0, 1, 128, 90, 0)]))
    with pytest.raises(ValueError, match="the first note lies 3 ticks before the first bar"):
        GROOVE.encode(trio_of([(-3, 1, 60, 90, 0)]))
    with pytest.raises(ValueError, match=f"lasts {MOST_BEATS + 1} beats; at most {MOST_BEATS}"):
        quantised(GROOVE, trio_of([(MOST_BEATS, 1, 60, 90, 0)], 1))


def test_what_cannot_be_read_is_refused():
    with pytest.raises(ValueError, match="token 1 is wrong: a piece has notes, but end follows"):
        GROOVE.decode(ids_of(GROOVE, "begin end"))


def test_the_language_is_found_by_name_and_by_its_spec():
    assert isinstance(language("groove"), Groove)
    spec = json.loads(json.dumps(GROOVE.spec()))
    assert isinstance(language_from_spec(spec), Groove)
    with pytest.raises(ValueError, match="differs from the one at hand in ticks_per_beat"):
        language_from_spec({**spec, "ticks_per_beat": 24})


def test_begin_and_end_are_those_of_the_vocabulary():
    assert (VOCABULARY.names[GROOVE.begin], VOCABULARY.names[GROOVE.end]) == ("begin", "end")
