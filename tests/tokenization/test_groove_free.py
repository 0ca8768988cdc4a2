"""Generation may say events of one time in any order: what comes out is still music, and spelled in the valid way."""

import numpy as np
import pytest

from tokenization.groove import Groove
from tokenization.groove_tokens import BEGIN, END, NOTE_OFF, NOTE_ON, TIME_SHIFT

GROOVE = Groove()


def drawn(seed: int, length: int) -> np.ndarray:
    """Return random tokens that the free grammar allows, few pitches so that much happens on each."""
    random = np.random.default_rng(seed)
    grammar, ids = GROOVE.free_grammar(), [BEGIN]
    grammar.advance(np.array([BEGIN]))
    keys = [*range(5), *range(128, 133)]
    wanted = np.isin(np.arange(len(GROOVE.vocabulary)), [NOTE_ON.start + k for k in keys])
    wanted |= NOTE_OFF.holds(np.arange(len(wanted))) | TIME_SHIFT.holds(np.arange(len(wanted)))
    for _ in range(length):
        choice = random.choice(np.flatnonzero(grammar.allowed()[0] & wanted))
        ids.append(int(choice))
        grammar.advance(np.array([choice]))
    return np.array(ids)


@pytest.mark.parametrize("seed", range(40))
def test_whatever_is_generated_closes_to_a_valid_spelling_of_its_notes(seed: int):
    ids = drawn(seed, 150)
    closed = GROOVE.close(ids)
    assert GROOVE.validate(closed) is None
    assert closed[-1] == END
    begun, kept = NOTE_ON.holds(ids).sum(), NOTE_ON.holds(closed).sum()
    assert kept == begun
    assert (GROOVE.notes(closed).duration_ticks >= 1).all()
    said = GROOVE.notes(ids)  # those that ended by themselves
    ours = {tuple(row) for row in np.array(said.columns).T.tolist()}
    assert ours <= {tuple(row) for row in np.array(GROOVE.notes(closed).columns).T.tolist()}


def test_order_is_free_and_the_rest_is_not():
    names = GROOVE.vocabulary.id
    before = ["begin", "note_on_1_40", "note_on_0_60", "time_shift_0_3", "note_on_2_70"]
    grammar = GROOVE.free_grammar()
    for name in before:
        assert grammar.allowed()[0, names(name)]
        grammar.advance(np.array([names(name)]))
    grammar.advance(np.array([names("time_shift_0_3")]))
    allowed = grammar.allowed()[0]
    assert allowed[names("note_off_0_60")]  # behind a note-on of the same time
    assert allowed[names("note_on_0_30")]  # lower than the last
    assert not allowed[names("note_off_2_70")]  # it would last no time
    assert not allowed[names("note_off_0_61")]  # silent
    strict = GROOVE.grammar()
    for name in [*before, "time_shift_0_3"]:
        strict.advance(np.array([names(name)]))
    assert not strict.allowed()[0, names("note_off_0_60")]


def test_every_valid_sequence_is_free_too():
    ids = GROOVE.close(drawn(7, 200))
    grammar = GROOVE.free_grammar()
    for token in ids:
        assert grammar.allowed()[0, token]
        grammar.advance(np.array([token]))
