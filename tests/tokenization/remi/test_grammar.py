"""The grammar allows what the rules allow: by token, over a sequence, in a batch, in words."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tokenization.grammar_cases import check_rows, damages, ids_of, stepwise_fault
from tests.tokenization.remi.cases import EVERY_METRE, REMI, VERSIONS, SlowRules, slow_fault, walk
from tokenization.remi.grammar import Reading, RemiGrammar
from tokenization.remi.spelling import PITCH

VOCABULARY = REMI.vocabulary
BOTH = pytest.mark.parametrize("speaker", VERSIONS.values(), ids=VERSIONS)
SEEDS = st.integers(0, 2**32 - 1)


def after(text: str, batch: int = 1, speaker=REMI) -> RemiGrammar:
    """Return the grammar after some tokens."""
    grammar = speaker.grammar().select(np.zeros(batch, dtype=np.int64))
    for token in ids_of(speaker, text):
        grammar.advance(np.full(batch, token))
    return grammar


def allowed_families(grammar: RemiGrammar) -> set[str]:
    return {
        EVERY_METRE.vocabulary.names[i].partition("_")[0]
        for i in np.flatnonzero(grammar.allowed()[0])
    }


@BOTH
@settings(deadline=None, max_examples=30)
@given(SEEDS, st.integers(1, 120))
def test_exactly_what_the_rules_admit_is_allowed_after_every_prefix(speaker, seed, length):
    grammar, rules = speaker.grammar(), SlowRules()
    names = speaker.vocabulary.names
    for token in walk(seed, length, speaker):
        admitted = [rules.admit(name) for name in names]
        assert grammar.allowed()[0].tolist() == admitted
        grammar.advance(np.array([token]))
        rules.take(names[token])
    assert not grammar.allowed().any()
    assert grammar.bars.tolist() == [rules.bar]


@BOTH
@settings(deadline=None, max_examples=150)
@given(SEEDS, st.integers(1, 150), st.data())
def test_the_first_fault_of_a_damaged_sequence_is_found(speaker, seed, length, data):
    ids = walk(seed, length, speaker).tolist()
    assert Reading(np.array(ids)).fault() is None
    damaged = data.draw(damages(ids, speaker.vocabulary))
    expected = slow_fault(damaged, speaker)
    fault = speaker.validate(damaged)
    assert (fault.position if fault else None) == expected
    assert stepwise_fault(speaker.grammar(), damaged) == expected


@BOTH
def test_rows_of_a_batch_are_independent_and_can_be_selected(speaker):
    sequences = [walk(seed, 80, speaker)[:60] for seed in range(5)]
    check_rows(speaker.grammar(), sequences)


KEYS = " ".join(f"pitch_{p} volume_9 duration_16" for p in range(21, 109))


def test_a_bar_that_every_key_sounds_through_stays_empty():
    text = f"begin bar metre_2/4 subbeat_7 {KEYS} bar"
    grammar = after(text, speaker=EVERY_METRE)
    assert allowed_families(grammar) == {"bar", "metre"}
    fault = EVERY_METRE.validate(ids_of(EVERY_METRE, f"{text} subbeat_2"))
    assert fault is not None
    assert fault.reason == "every key sounds through bar 2, so subbeat_2 could get no note"
    assert "subbeat" in allowed_families(after(f"{text} bar", speaker=EVERY_METRE))
    # In a longer bar some key falls silent in time.
    assert "subbeat" in allowed_families(after(f"{text} metre_3/2", speaker=EVERY_METRE))


def test_a_first_version_s_sequence_means_the_same_in_the_second():
    for seed in range(20):
        ids = walk(seed, 150)
        assert EVERY_METRE.text(ids) == REMI.text(ids)
        assert EVERY_METRE.decode(ids) == REMI.decode(ids)
        later = EVERY_METRE.grammar()
        earlier = REMI.grammar()
        for token in ids:
            assert later.allowed()[0][: len(VOCABULARY)].tolist() == earlier.allowed()[0].tolist()
            later.advance(np.array([token]))
            earlier.advance(np.array([token]))


def test_there_is_a_way_on_when_every_key_sounds():
    grammar = after(f"begin bar subbeat_15 {KEYS} bar subbeat_3")
    assert allowed_families(grammar) == {"chord"}
    grammar.advance(ids_of(REMI, "chord_C_M"))
    assert allowed_families(grammar) == {"subbeat"}
    grammar.advance(ids_of(REMI, "subbeat_15"))
    assert grammar.allowed()[0, PITCH.start : PITCH.stop].all()
    grammar.advance(ids_of(REMI, "chord_N_N"))
    assert allowed_families(grammar) == {"pitch"}  # the last chance of this bar to get a note


def test_a_bar_with_notes_may_close_after_a_chord():
    grammar = after("begin bar subbeat_0 pitch_60 volume_9 duration_1 subbeat_8 chord_C_M")
    assert allowed_families(grammar) == {"bar", "end", "pitch", "subbeat"}


NOTE = "volume_9 duration_1"
START = "begin bar subbeat_0"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            f"{START} pitch_60 {NOTE} metre_3/4",
            "metre_3/4 may stand only directly after a bar, not",
        ),
        ("begin bar metre_4/4", "the metre is metre_4/4 already"),
        ("begin bar metre_3/4 bar metre_3/4", "the metre is metre_3/4 already"),
        ("begin bar metre_3/4 metre_2/4", "metre_2/4 may stand only directly after a bar, not"),
        ("begin metre_3/4", "bar must follow begin, but metre_3/4 does"),
        ("begin bar metre_3/4 end", "the last bar of a piece has notes, but end follows an empty"),
        ("begin bar metre_3/4 pitch_60", "pitch_60 needs a sub-beat before it, but follows metre"),
        ("begin bar metre_3/4 subbeat_12", "subbeat_12 lies outside bar 1, which is in 3/4"),
        ("begin bar subbeat_16", "subbeat_16 lies outside bar 1, which is in 4/4"),
        (
            "begin bar metre_2/4 subbeat_4 pitch_60 volume_9 duration_24 bar bar subbeat_4 pitch_60",
            "pitch_60 still sounds until sub-beat 4 of bar 4",
        ),
        ("begin bar left_3", "left_3 belongs to a goal, and not into a piece"),
    ],
)
def test_a_fault_in_metres_is_explained(text, reason):
    check_explained(EVERY_METRE, text, reason)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("bar", "a piece starts with begin, but bar does"),
        ("begin subbeat_0", "bar must follow begin, but subbeat_0 does"),
        (f"{START} pitch_60 {NOTE} end bar", "nothing may follow end, but bar does"),
        (f"{START} pitch_60 duration_2", "volume must follow pitch_60, but duration_2 does"),
        (f"{START} pitch_60 volume_9 bar", "duration must follow volume_9, but bar does"),
        ("begin bar padding", "padding may not stand inside a piece"),
        ("begin bar begin", "begin may not stand inside a piece"),
        (f"{START} volume_9", "volume_9 must follow a pitch, not subbeat_0"),
        (f"{START} duration_9", "duration_9 must follow a volume, not subbeat_0"),
        ("begin bar end", "the last bar of a piece has notes, but end follows an empty one"),
        (f"{START} bar", "subbeat_0 is empty: a chord, a note or a tempo must follow, not bar"),
        (f"{START} subbeat_4", "subbeat_0 is empty: .* must follow, not subbeat_4"),
        (f"{START} chord_C_M bar", "bar 1 has no note yet, so bar may not follow chord_C_M"),
        (f"{START} tempo_119 end", "bar 1 has no note yet, so end may not follow tempo_119"),
        (
            f"begin bar subbeat_4 pitch_60 {NOTE} subbeat_4",
            "subbeat_4 must lie after subbeat_4, where the bar already is",
        ),
        ("begin bar pitch_60", "pitch_60 needs a sub-beat before it, but follows bar"),
        (
            f"{START} pitch_64 {NOTE} pitch_60",
            "the notes of a sub-beat stand in ascending order, but pitch_60 follows pitch_64",
        ),
        (
            "begin bar subbeat_12 pitch_60 volume_9 duration_7.5 bar subbeat_3 pitch_60",
            "pitch_60 still sounds until sub-beat 4 of bar 2",
        ),
        (
            f"{START} tempo_119 pitch_60 {NOTE} bar subbeat_0 tempo_119",
            "the tempo is tempo_119 already",
        ),
        (f"{START} chord_N_N subbeat_4 chord_N_N", "the chord is chord_N_N already"),
        (
            "begin bar subbeat_4 tempo_119",
            "tempo_119 may stand only directly after subbeat_0, not after subbeat_4",
        ),
        (
            f"{START} pitch_60 {NOTE} chord_C_M",
            "chord_C_M may stand only directly after a sub-beat or its tempo, not after dur",
        ),
        ("begin bar tempo_119", "tempo_119 may stand only directly after subbeat_0, not .* bar"),
    ],
)
def test_a_fault_is_explained(text, reason):
    for speaker in VERSIONS.values():
        check_explained(speaker, text, reason)


def check_explained(speaker, text: str, reason: str) -> None:
    ids = ids_of(speaker, text)
    fault = speaker.validate(ids)
    assert fault is not None
    assert fault.position == len(ids) - 1
    assert re.match(reason, fault.reason), fault.reason


def test_an_id_outside_the_vocabulary_is_named():
    fault = REMI.validate([1, 3, 9999])
    assert fault is not None
    assert (fault.position, fault.reason) == (
        2,
        "9999 is not an id of this language, which has 362",
    )
    assert REMI.validate([-1]).position == 0  # type: ignore[union-attr]
    assert REMI.validate([]) is None
