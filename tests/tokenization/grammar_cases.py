"""What the tests of every grammar have in common: tokens by name, damaged sequences, batches, and the long way."""

from collections.abc import Sequence
from functools import cache

import numpy as np
from hypothesis import strategies as st

from tokenization.grammar import Grammar
from tokenization.language import Language, Vocabulary


def ids_of(language: Language, text: str) -> np.ndarray:
    """Return the tokens that a text names, as `Language.text` writes them."""
    return np.array([language.vocabulary.id(name) for name in text.split()], dtype=np.uint16)


@cache
def block_index(vocabulary: Vocabulary) -> np.ndarray:
    """Return the number of each id's block, in the order of the blocks: (V,)."""
    return np.repeat(np.arange(len(vocabulary.blocks)), [*map(len, vocabulary.blocks.values())])


@st.composite
def damages(draw, ids: list[int], vocabulary: Vocabulary) -> list[int]:
    """Return a sequence with a token exchanged, added, lost or said twice, or its end reversed."""
    position = draw(st.integers(0, len(ids) - 1))
    other = draw(st.one_of(st.integers(0, len(vocabulary) - 1), st.sampled_from(ids)))
    near = min(max(ids[position] + draw(st.integers(-3, 3)), 0), len(vocabulary) - 1)
    before, after = ids[:position], ids[position + 1 :]
    return draw(
        st.sampled_from(
            [
                [*before, other, *after],
                [*before, near, *after],
                [*before, other, *ids[position:]],
                [*before, *after],
                [*ids[: position + 1], *ids[position:]],
                [*before, *ids[position:][::-1]],
            ]
        )
    )


def stepwise_fault(grammar: Grammar, ids: Sequence[int]) -> int | None:
    """Return the first position that a grammar at its start forbids, step by step."""
    for position, token in enumerate(ids):
        if not grammar.allowed()[0, token]:
            return position
        grammar.advance(np.array([token]))
    return None


def check_rows(grammar: Grammar, sequences: Sequence[np.ndarray]) -> None:
    """Assert that rows of a grammar at its start do not touch each other, and that selected ones are copies."""
    together = grammar.select(np.zeros(len(sequences), dtype=np.int64))
    alone = [grammar.select(np.zeros(1, dtype=np.int64)) for _ in sequences]
    for column in np.stack(sequences, axis=1):
        expected = np.concatenate([grammar.allowed() for grammar in alone])
        assert np.array_equal(together.allowed(), expected)
        together.advance(column)
        for grammar, token in zip(alone, column, strict=True):
            grammar.advance(np.array([token]))
    rows = np.array([len(sequences) - 2, len(sequences) - 2, 0])
    chosen, before = together.select(rows), together.allowed()
    assert np.array_equal(chosen.allowed(), before[rows])
    assert chosen.bars.tolist() == together.bars[rows].tolist()
    chosen.advance(np.array([np.flatnonzero(row)[0] for row in chosen.allowed()]))
    assert np.array_equal(together.allowed(), before)
