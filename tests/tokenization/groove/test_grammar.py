"""The grammar allows what the rules allow: by token, over a sequence, in a batch, in words."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tokenization.grammar_cases import check_rows, damages, ids_of, stepwise_fault
from tests.tokenization.groove.cases import SlowRules, slow_fault, walk
from tests.tokenization.groove.strict import StrictGrammar
from tokenization.grammar import Grammar
from tokenization.groove.grammar import is_valid
from tokenization.groove.language import Groove
from tokenization.groove.spelling import KEYS, MOST_UNISONS, NOTE_ON, VOCABULARY

GROOVE = Groove()
SEEDS = st.integers(0, 2**32 - 1)


def after(text: str) -> Grammar:
    """Return the grammar after some tokens."""
    grammar = StrictGrammar()
    for token in ids_of(GROOVE, text):
        grammar.advance(np.array([token]))
    return grammar


def allowed_names(grammar: Grammar, start: str = "") -> list[str]:
    names = (VOCABULARY.names[i] for i in np.flatnonzero(grammar.allowed()[0]))
    return [name for name in names if name.startswith(start)]


@settings(deadline=None, max_examples=30)
@given(SEEDS, st.integers(1, 100))
def test_exactly_what_the_rules_admit_is_allowed_after_every_prefix(seed, length):
    grammar, rules = StrictGrammar(), SlowRules()
    for token in walk(seed, length):
        admitted = [rules.admit(name) for name in VOCABULARY.names]
        assert grammar.allowed()[0].tolist() == admitted
        grammar.advance(np.array([token]))
        rules.take(VOCABULARY.names[token])
        assert grammar.time_ticks.tolist() == [rules.time]
        assert grammar.bars.tolist() == [rules.time // 48 + 1]
    assert not grammar.allowed().any()


@settings(deadline=None, max_examples=200)
@given(SEEDS, st.integers(1, 120), st.data())
def test_the_first_fault_of_a_damaged_sequence_is_found(seed, length, data):
    ids = walk(seed, length).tolist()
    assert is_valid(np.array(ids))
    damaged = data.draw(damages(ids, VOCABULARY))
    expected = slow_fault(damaged)
    fault = GROOVE.validate(damaged)
    assert (fault.position if fault else None) == expected
    assert stepwise_fault(StrictGrammar(), damaged) == expected


def test_rows_of_a_batch_are_independent_and_can_be_selected():
    sequences = [walk(seed, 80)[:60] for seed in range(5)]
    check_rows(StrictGrammar(), sequences)


def test_off_the_beat_every_event_takes_a_shift_to_where_time_is():
    grammar = after("begin note_on_0_40 time_shift_0_5 note_off_0_40")
    assert allowed_names(grammar, "note") == []
    assert allowed_names(grammar, "time_shift_0")[0] == "time_shift_0_5"
    grammar.advance(ids_of(GROOVE, "time_shift_0_5"))
    assert len(allowed_names(grammar, "note_on")) == KEYS
    assert allowed_names(grammar, "time") == []


def test_after_the_last_note_that_fits_at_a_time_it_must_move_on():
    last = " ".join(["time_shift_0_3 note_on_2_127"] * MOST_UNISONS)
    grammar = after(f"begin {last}")
    assert allowed_names(grammar, "time_shift_0")[0] == "time_shift_0_4"
    fault = GROOVE.validate(ids_of(GROOVE, f"begin {last} time_shift_0_3"))
    assert fault is not None
    assert fault.reason == "time_shift_0_3 stays where time is, and no note-on may follow there"
    assert GROOVE.validate(ids_of(GROOVE, f"begin {last} time_shift_0_4")) is None


def test_there_is_a_way_on_when_every_key_sounds():
    grammar = StrictGrammar()
    grammar.advance(ids_of(GROOVE, "begin"))
    keys = np.arange(KEYS).reshape(3, 128).T.ravel()  # by pitch, then by track
    for key in np.repeat(keys, MOST_UNISONS):
        assert grammar.allowed()[0, NOTE_ON.start + key]
        grammar.advance(np.array([NOTE_ON.start + key]))
    assert {name[:10] for name in allowed_names(grammar)} == {"time_shift"}
    grammar.advance(ids_of(GROOVE, "time_shift_0_1"))
    assert len(allowed_names(grammar)) == KEYS  # to end any of them


CHORD = "begin note_on_0_40 note_on_2_60 time_shift_1_0"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("note_on_0_40", "a piece starts with begin, but note_on_0_40 does"),
        ("begin begin", "begin may not stand inside a piece"),
        ("begin end", "a piece has notes, but end follows begin"),
        ("begin note_on_0_40 end", "end may not come while notes sound: note_on_0_40"),
        (
            "begin note_on_0_40 note_on_0_41 note_on_0_42 note_on_0_43 time_shift_1_0 "
            "note_off_0_41 end",
            "end may not come while notes sound: note_on_0_40, note_on_0_42, note_on_0_43",
        ),
        (f"{CHORD} note_off_0_40 note_off_2_60 end end", "nothing may follow end, but end does"),
        (f"{CHORD} end", "a note-on or note-off must follow time_shift_1_0, but end does"),
        (
            f"{CHORD} time_shift_0_1",
            "a note-on or note-off must follow time_shift_1_0, but time_shift_0_1 does",
        ),
        (
            "begin time_shift_0_5 note_on_0_40 time_shift_0_4",
            "time_shift_0_4 steps back: time is at tick 5 of the beat already",
        ),
        (
            "begin time_shift_0_5 note_on_0_40 note_on_0_41",
            "note_on_0_41 lies off the beat and needs time_shift_0_5 before it, but follows no",
        ),
        ("begin note_off_0_40", "note_off_0_40 would end a note that does not sound"),
        (f"{CHORD} note_off_0_41", "note_off_0_41 would end a note that does not sound"),
        (
            "begin note_on_0_40 note_off_0_40",
            "the note-offs of one time come before its note-ons, but note_off_0_40 follows not",
        ),
        (
            f"{CHORD} note_off_2_60 note_off_0_40",
            "of the notes that end at one time the oldest ends first, but note_off_0_40 follows",
        ),
        (
            "begin note_on_2_60 note_on_0_60",
            "the note-ons of one time ascend by pitch, and within a pitch by track, but note_on_0",
        ),
        (
            "begin" + " note_on_0_60" * 9,
            "8 notes of note_on_0_60 sound already",
        ),
    ],
)
def test_a_fault_is_explained(text, reason):
    ids = ids_of(GROOVE, text)
    fault = GROOVE.validate(ids)
    assert fault is not None
    assert fault.position == len(ids) - 1
    assert re.match(reason, fault.reason), fault.reason


def test_an_id_outside_the_vocabulary_is_named():
    fault = GROOVE.validate([0, 2, 9999])
    assert fault is not None
    assert (fault.position, fault.reason) == (
        2,
        "9999 is not an id of this language, which has 794",
    )
    assert GROOVE.validate([-1]).position == 0  # type: ignore[union-attr]
    assert GROOVE.validate([]) is None
