"""Groove's own: the authors' tokens, what is lost, bars without a token, and closing what breaks off."""

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
    rows_of,
    trio_of,
)
from tests.tokenization.groove.cases import walk as random_piece
from tokenization.groove.language import MOST_BEATS, Band, Groove
from tokenization.groove.spelling import BAR_TICKS, VOCABULARY
from tokenization.score import Notes, Track

GROOVE = Groove()
SEEDS = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize("case", golden_cases())
def test_the_authors_tokens_are_reproduced(case):
    encoded = GROOVE.encode(golden_trio(case["notes"]))
    assert [VOCABULARY.names[i] for i in encoded.ids] == golden_tokens(case)
    decoded = GROOVE.decode(encoded.ids, encoded.setting)
    assert decoded.notes == golden_trio(case["decoded"]).notes.sorted()
    assert encoded.losses == {}


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
    assert GROOVE.spell(GROOVE.notes(ids)).tolist() == ids.tolist()


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
    assert " ".join(GROOVE.text(encoded.ids).split()) == f"begin {tokens} end"
    assert encoded.losses == losses


def test_instruments_loudness_and_tempo_are_kept_beside_the_tokens():
    score = trio_of(
        [(0, 12, 40, 90, 0), (0, 12, 36, 71, 1), (0, 48, 38, 80, 1), (24, 12, 60, 1, 2)],
        tempos=[(0, 60), (24, 120)],
    ).replace(tracks=(Track("Fretless", 35), Track("Kit", 8, True), Track("Organ", 16)))
    encoded = GROOVE.encode(score)
    # Two beats of a second each and two of half a second are four beats in three seconds.
    band = Band(programs=(35, 8, 16), velocities=(90, 76, 1), beats_per_minute=80.0)
    assert encoded.setting == band
    decoded = GROOVE.decode(encoded.ids, encoded.setting)
    assert decoded.tracks == (Track("Bass", 35), Track("Drums", 8, True), Track("Other", 16))
    assert decoded.notes.velocity.tolist() == [90, 76, 76, 1]
    assert decoded.tempos.beats_per_minute.tolist() == [80.0]
    assert GROOVE.decode(encoded.ids).notes.velocity.tolist() == [90, 90, 90, 75]
    silent = GROOVE.encode(trio_of([(0, 12, 40, 64, 0)])).setting  # has the usual loudness
    assert silent == Band(programs=(33, 0, 0), velocities=(64, 90, 75))


@settings(max_examples=30)
@given(SEEDS, st.integers(1, 150))
def test_tokens_up_to_a_bar_say_what_lies_before_its_line(seed, length):
    ids = random_piece(seed, length)
    notes, bars = GROOVE.decode(ids).notes, GROOVE.bars(ids)
    assert len(bars) == -(-notes.end_ticks.max() // BAR_TICKS)
    grammar, taken = GROOVE.grammar(), 0
    for bar, offset in enumerate(bars):
        for token in ids[taken:offset]:
            grammar.advance(np.array([token]))
        taken = offset
        ons = np.count_nonzero(VOCABULARY["note_on"].holds(ids[:offset]))
        assert ons == np.count_nonzero(notes.onset_ticks < bar * BAR_TICKS)
        assert bar == 0 or grammar.time_ticks[0] < bar * BAR_TICKS


def test_bars_of_a_rest_start_where_time_passes_them():
    ids = GROOVE.encode(trio_of([(0, 12, 40, 90, 0), (150, 6, 40, 90, 0)])).ids
    # begin on shift off, then shifts to beats 3, 5, 7, 9, 11 and 12 and a half
    assert GROOVE.bars(ids).tolist() == [1, 5, 7, 9]
    assert [GROOVE.bars(ids[:stop]).tolist() for stop in (1, 0)] == [[1], []]
    waiting = ids_of(GROOVE, "begin time_shift_2_0 time_shift_2_0 note_on_0_40")
    assert GROOVE.bars(waiting).tolist() == [1, 2]


BEGUN = "begin note_on_0_40 time_shift_2_0 time_shift_2_0 note_on_1_36 time_shift_1_0 note_off_1_36"


@pytest.mark.parametrize(
    ("prefix", "bars", "notes"),
    [
        (
            "begin note_on_0_40 note_on_2_60 time_shift_1_6 note_off_2_60 time_shift_2_0",
            None,
            [(0, 48, 40, 0), (0, 18, 60, 2)],
        ),
        # However far it was to go, the rest ends with the bar that it has come to, as of music that somebody stops.
        (BEGUN, 16, [(0, 96, 40, 0), (48, 12, 36, 1)]),
        (f"{BEGUN} time_shift_2_0 time_shift_1_0", 16, [(0, 144, 40, 0), (48, 12, 36, 1)]),
        (BEGUN, 1, [(0, 48, 40, 0)]),
        (f"{BEGUN} note_off_0_40 end", 1, [(0, 48, 40, 0)]),
    ],
)
def test_a_broken_off_piece_is_closed_at_a_bar_line(prefix: str, bars: int | None, notes):
    closed = GROOVE.close(ids_of(GROOVE, prefix), bars)
    assert GROOVE.validate(closed) is None
    assert rows_of(GROOVE.decode(closed).notes) == sorted(notes)
    assert GROOVE.close(closed, 9).tolist() == closed.tolist()


@settings(max_examples=40)
@given(SEEDS, st.integers(1, 100), st.sampled_from([None, 1, 4]))
def test_closing_any_prefix_makes_a_whole_piece(seed, length, bars):
    ids = random_piece(seed, length)
    ids = ids[: max(np.flatnonzero(VOCABULARY["note_on"].holds(ids))[0] + 1, length // 2)]
    closed = GROOVE.close(ids, bars)
    if len(closed) > 2:  # the first note may lie after the last bar asked for
        assert closed[-1] == GROOVE.end
        assert GROOVE.validate(closed) is None
        last = GROOVE.decode(closed).notes.end_ticks.max()
        assert last <= BAR_TICKS * (bars or len(GROOVE.bars(ids)))


@pytest.mark.parametrize(
    ("score", "says"),
    [
        (trio_of([]), "the score has no notes"),
        (trio_of([(0, 1, 60, 90, 0)]).replace(tracks=TRIO[:2]), "needs the three tracks .* has 2"),
        (trio_of([(0, 1, 60, 90, 0), (0, 1, 128, 90, 0)]), "from 0 to 127, .* from 60 to 128"),
        (trio_of([(-3, 1, 60, 90, 0)]), "the first note lies 3 ticks before the first bar"),
        (
            trio_of([(MOST_BEATS, 1, 60, 90, 0)], 1),
            f"lasts {MOST_BEATS + 1} beats; at most {MOST_BEATS}",
        ),
    ],
)
def test_what_cannot_be_spelled_is_refused(score, says):
    with pytest.raises(ValueError, match=says):
        GROOVE.encode(score)


def test_the_longest_notes_are_those_of_the_pieces_by_track():
    def piece(track: int, ticks: int, notes: int = 1) -> np.ndarray:
        same = np.ones(notes, dtype=np.int64)
        onset = 24 * np.arange(notes)
        return GROOVE.spell(Notes(onset, ticks * same, 40 * same, 0 * same, track * same))

    bass, drums, long = piece(0, 9), piece(1, 1), piece(0, 14)
    assert GROOVE.longest([bass, drums]) == [9, 1, 9]  # what was not seen is not bounded tighter
    assert GROOVE.longest([bass, drums, long]) == [14, 1, 14]
    assert GROOVE.longest([piece(0, 9, notes=20_000), drums, long]) == [9, 1, 9]  # rarer than 1e-4
    for wrong in ((1, 2), (1, 0, 2)):
        with pytest.raises(ValueError, match="a tick or more for each of Bass, Drums, Other"):
            GROOVE.grammar(longest_ticks=wrong)
