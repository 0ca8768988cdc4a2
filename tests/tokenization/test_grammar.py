"""Grammars of several prompts joined to one: each row as in its own."""

import numpy as np
import pytest

from tests.tokenization.test_continuing import PROMPT_BARS, prompt_of
from tokenization.continuing import continuing
from tokenization.grammar import Grammar
from tokenization.language import language

NAMES = ("remi", "remi-2", "groove", "groove-2")


def after(name: str, tokens: int, **wanted: int) -> Grammar:
    """Return a grammar that has taken so many tokens of a prompt."""
    speaker = language(name)
    prompt = prompt_of(speaker)[:tokens]
    grammar = continuing(speaker, prompt, prompt_bars=PROMPT_BARS, **wanted)
    for token in prompt:
        grammar.advance(np.array([token]))
    return grammar


@pytest.mark.parametrize("name", NAMES)
def test_a_row_of_a_joined_grammar_is_as_it_is_alone(name: str):
    random = np.random.default_rng(0)
    alone = [after(name, tokens) for tokens in (8, 14, 25)]
    assert len({grammar.shared for grammar in alone}) == 1
    joined = alone[0].joined(alone[1:])
    for step in range(300):
        allowed = joined.allowed()
        np.testing.assert_array_equal(allowed, np.concatenate([g.allowed() for g in alone]))
        drawn = np.array([random.choice(np.flatnonzero(row)) for row in allowed])
        taken = joined.instead(drawn)
        joined.advance(taken)
        for grammar, token, expected in zip(alone, drawn, taken, strict=True):
            assert grammar.instead(np.array([token])) == expected
            grammar.advance(np.array([expected]))
        assert joined.bars.tolist() == [grammar.bars[0] for grammar in alone]
        if step % 100 == 50:  # a row leaves, and comes back
            rest, row = joined.select(np.array([0, 2])), joined.select(np.array([1]))
            joined, alone = rest.joined([row]), [alone[0], alone[2], alone[1]]


@pytest.mark.parametrize("name", ["remi-2", "groove-2"])
def test_only_grammars_that_differ_in_their_rows_alone_are_joined(name: str):
    free, counted, other = after(name, 9), after(name, 9, end_in=2), after(name, 9, end_in=2)
    assert free.shared != counted.shared
    assert counted.shared != other.shared  # the script of each is its own
    rows = counted.select(np.zeros(3, dtype=np.int64))
    assert counted.shared == rows.shared
    assert len(counted.joined([rows]).bars) == 4
    assert after("remi", 9).shared != after("remi-2", 9).shared
