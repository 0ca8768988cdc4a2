"""The second groove language: one spelling of each piece, the music of the first, and a clock that reads its time."""

import json
import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from musicgen.metre.clock import Clock, Timekeeper
from tests.tokenization.grammar_cases import check_rows, damages, ids_of, stepwise_fault
from tests.tokenization.groove.cases import golden_cases, golden_trio, trios
from tests.tokenization.groove.strict import StrictBarGrammar
from tests.tokenization.groove_2.cases import GROOVE, SEEDS, walk
from tests.tokenization.quantised import quantised
from tokenization.groove.spelling import BAR_TICKS
from tokenization.groove.spelling import VOCABULARY as FIRST_VOCABULARY
from tokenization.groove_2.spelling import AT, BAR, VOCABULARY, WITHOUT_CHORDS
from tokenization.language import language, language_from_spec
from tokenization.records import from_plain

FIRST = language("groove")


@settings(deadline=None, max_examples=100)
@given(trios())
def test_a_piece_is_read_as_the_grid_has_it_and_as_the_first_language_does(score):
    encoded = GROOVE.encode(score)
    assert GROOVE.validate(encoded.ids) is None
    heard = GROOVE.decode(encoded.ids, encoded.setting)
    assert heard.notes == quantised(GROOVE, score).notes
    first = FIRST.encode(score)
    assert heard.notes == FIRST.decode(first.ids, first.setting).notes
    assert encoded.losses == first.losses
    assert len(encoded.bars) == len(first.bars)
    assert GROOVE.encode(heard).ids.tolist() == encoded.ids.tolist()


def test_the_notes_of_the_published_code_are_read_back():
    for case in golden_cases():
        score = golden_trio(case["notes"])
        assert (
            GROOVE.decode(GROOVE.encode(score).ids).notes
            == FIRST.decode(FIRST.encode(score).ids).notes
        )


@settings(deadline=None, max_examples=100)
@given(SEEDS, st.integers(1, 150))
def test_every_valid_sequence_is_the_spelling_of_what_it_says(seed, length):
    ids = walk(seed, length)
    assert GROOVE.validate(ids) is None
    assert GROOVE.encode(GROOVE.decode(ids)).ids.tolist() == ids.tolist()
    assert GROOVE.bars(ids).tolist() == np.flatnonzero(ids == BAR).tolist()
    assert ids_of(GROOVE, GROOVE.text(ids)).tolist() == ids.tolist()


@settings(deadline=None, max_examples=150)
@given(SEEDS, st.integers(1, 100), st.data())
def test_the_grammar_and_the_look_at_the_whole_find_the_same_fault(seed, length, data):
    damaged = data.draw(damages(walk(seed, length).tolist(), VOCABULARY))
    fault = GROOVE.validate(damaged)
    assert (fault.position if fault else None) == stepwise_fault(StrictBarGrammar(), damaged)


def test_rows_of_a_batch_are_independent_and_can_be_selected():
    check_rows(StrictBarGrammar(), [walk(seed, 80)[:60] for seed in range(5)])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("bar", "a piece starts with begin, but bar does"),
        ("begin note_on_0_40", "a bar must follow begin, but note_on_0_40 does"),
        ("begin bar begin", "begin may not stand inside a piece"),
        ("begin bar left_3", "left_3 may not stand inside a piece"),
        ("begin bar end", "the last bar has something in it, but end follows an empty one"),
        ("begin bar note_on_0_40 bar note_off_0_40 end", "the last bar has something in it, but"),
        ("begin bar note_on_0_40 end end", "nothing may follow end, but end does"),
        ("begin bar at_5 at_7", "a note-on or note-off must follow at_5, but at_7 does"),
        ("begin bar at_5 bar", "a note-on or note-off must follow at_5, but bar does"),
        ("begin bar at_5 note_on_0_40 at_5", "places in a bar ascend, but tick 5 follows tick 5"),
        ("begin bar note_off_0_40", "note_off_0_40 would end a note that does not sound"),
        ("begin bar note_on_0_60 note_on_0_59", "the note-ons of one time ascend by pitch"),
        ("begin bar note_on_0_60 note_off_0_60", "the note-offs of one time come before its"),
        (
            "begin bar note_on_0_60 note_on_0_61 at_3 note_off_0_61 note_off_0_60",
            "of the notes that end at one time the oldest ends first, but note_off_0_60 follows",
        ),
        ("begin bar" + " note_on_0_60" * 9, "8 notes of note_on_0_60 sound already"),
    ],
)
def test_a_fault_is_explained(text, reason):
    ids = ids_of(GROOVE, text)
    fault = GROOVE.validate(ids)
    assert fault is not None
    assert fault.position == len(ids) - 1
    assert re.match(reason, fault.reason), fault.reason


def test_a_note_that_ends_on_a_line_costs_no_bar():
    ids = ids_of(GROOVE, "begin bar note_on_0_40 at_24 note_off_0_40 note_on_0_41 end")
    notes = GROOVE.notes(ids)
    assert notes.end_ticks.tolist() == [24, BAR_TICKS]
    assert GROOVE.spell(notes).tolist() == ids.tolist()


@pytest.mark.parametrize("seed", range(5))
def test_a_models_clock_reads_the_time_of_the_tokens(seed):
    ids = walk(seed, 200)
    clock = from_plain(Clock, GROOVE.clock(), "the clock")
    time = Timekeeper(clock, len(VOCABULARY))
    read = time.after(torch.from_numpy(ids.astype(np.int64))[None], torch.zeros(1).long())[0]
    bar, tick, times = 0, 0, []
    for token in ids.tolist():
        bar, tick = (bar + 1, 0) if token == BAR else (bar, tick)
        tick = token - AT.start + 1 if AT.start <= token < AT.stop else tick
        times.append(bar * BAR_TICKS + tick)
    assert read.tolist() == times


def test_its_configuration_says_which_version_it_is():
    spec = json.loads(json.dumps(GROOVE.spec()))
    assert (spec["language"], GROOVE.family) == ("groove-2", "groove")
    assert type(language_from_spec(spec)) is type(GROOVE)
    assert type(language_from_spec(FIRST.spec())) is type(FIRST)
    with pytest.raises(ValueError, match="differs from the one at hand in tokens"):
        language_from_spec({**spec, "tokens": 7})


def test_notes_keep_the_ids_of_the_first_language():
    known = FIRST_VOCABULARY["note_off"].stop
    assert VOCABULARY.names[:known] == FIRST_VOCABULARY.names[:known]
    assert VOCABULARY.names[:856] == WITHOUT_CHORDS.names  # so that weights of both go together
    assert (len(WITHOUT_CHORDS), len(VOCABULARY)) == (856, 1001)
