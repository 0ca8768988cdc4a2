"""What the tests of every grammar have in common: damaged sequences, batches, and the long way."""

from collections.abc import Sequence
from functools import cache

import numpy as np
from hypothesis import strategies as st

from tokenization.language import Language
from tokenization.vocabulary import Vocabulary


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


def stepwise_fault(language: Language, ids: Sequence[int]) -> int | None:
    """Return the first position that the grammar forbids, step by step."""
    grammar = language.grammar()
    for position, token in enumerate(ids):
        if not grammar.allowed()[0, token]:
            return position
        grammar.advance(np.array([token]))
    return None


def check_rows(language: Language, sequences: Sequence[np.ndarray]) -> None:
    """Assert that rows of a batch do not touch each other, and that selected ones are copies."""
    together = language.grammar(len(sequences))
    alone = [language.grammar() for _ in sequences]
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
