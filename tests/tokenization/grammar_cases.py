"""Helpers for the tests of all grammars: tokens by name, damaged sequences, and random walks."""

from functools import cache

import numpy as np
from hypothesis import strategies as st

from tokenization.grammar import Grammar
from tokenization.groove.language import band_of, grid
from tokenization.language import Language, Vocabulary
from tokenization.remi.language import Remi, to_grid
from tokenization.score import Score


def ids_of(language: Language, text: str) -> np.ndarray:
    """Return the tokens for a text in the format of `Language.text`."""
    return np.array([language.vocabulary.id(name) for name in text.split()], dtype=np.uint16)


@cache
def block_index(vocabulary: Vocabulary) -> np.ndarray:
    """Return the index of the block of each id: (V,)."""
    return np.repeat(np.arange(len(vocabulary.blocks)), [*map(len, vocabulary.blocks.values())])


@st.composite
def damages(draw, ids: list[int], tokens: int) -> list[int]:
    """Draw a sequence with a token replaced, inserted, removed or repeated, or with its end reversed."""
    position = draw(st.integers(0, len(ids) - 1))
    other = draw(st.one_of(st.integers(0, tokens - 1), st.sampled_from(ids)))
    near = min(max(ids[position] + draw(st.integers(-3, 3)), 0), tokens - 1)
    before, after = ids[:position], ids[position + 1 :]
    ways = [
        [*before, other, *after],
        [*before, near, *after],
        [*before, other, *ids[position:]],
        [*before, *after],
        [*ids[: position + 1], *ids[position:]],
        [*before, *ids[position:][::-1]],
    ]
    return draw(st.sampled_from(ways))


def advance(grammar: Grammar, ids: np.ndarray, *, checked: bool = True) -> None:
    """Advance a grammar of one row by tokens, which have to be allowed if `checked`."""
    for place, token in enumerate(np.asarray(ids, dtype=np.int64)):
        assert not checked or grammar.allowed()[0, token], (place, token)
        grammar.advance(np.array([token]))


def take(grammar: Grammar, ids: np.ndarray) -> None:
    """Advance a grammar by tokens that `instead` does not replace."""
    for place, token in enumerate(np.asarray(ids, dtype=np.int64)):
        assert grammar.instead(np.array([token]))[0] == token, (place, token)
        advance(grammar, np.array([token]))


def uniform(random: np.random.Generator, allowed: np.ndarray) -> int:
    return int(random.choice(allowed))


def written(grammar: Grammar, prompt, seed, end, choose=uniform, most=20_000, checked=True):
    """Return a prompt and a random continuation, up to the end or to `most` tokens.

    If `checked`, the tokens of the prompt have to be allowed.
    """
    random, ids = np.random.default_rng(seed), [int(token) for token in prompt]
    advance(grammar, prompt, checked=checked)
    while len(ids) < most and (not ids or ids[-1] != end):
        allowed = grammar.allowed()[0]
        assert allowed.any(), "the grammar has a dead end"
        token = grammar.instead(np.array([choose(random, np.flatnonzero(allowed))]))
        assert allowed[token[0]]
        grammar.advance(token)
        ids.append(int(token[0]))
    return np.array(ids)


def walk(grammar: Grammar, vocabulary: Vocabulary, seed, length, ways_out=(), most=20_000):
    """Return a valid sequence: a random walk, then to the end by the first allowed block of `ways_out`."""
    random, blocks = np.random.default_rng(seed), block_index(vocabulary)
    end = vocabulary.id("end")
    # Each walk prefers some blocks, and a few favourite keys lead to unisons and overlaps.
    taste = random.exponential(size=len(vocabulary.blocks))
    favourites = random.integers(384, size=random.integers(1, 7))
    favourite = np.isin(np.arange(len(vocabulary)) % 384, favourites)

    def choose(_: np.random.Generator, allowed: np.ndarray) -> int:
        nonlocal length
        length -= 1
        if length >= 0:
            allowed = allowed[allowed != end]
        elif end in allowed:
            return end
        else:
            for name in ways_out:
                if len(way := allowed[vocabulary[name].holds(allowed)]):
                    return uniform(random, way)
        families = np.unique(blocks[allowed])
        family = random.choice(families, p=taste[families] / taste[families].sum())
        choices = allowed[blocks[allowed] == family]
        if random.random() < 0.8 and favourite[choices].any():
            choices = choices[favourite[choices]]
        return uniform(random, choices)

    return written(grammar, np.array([], dtype=np.int64), seed, end, choose, most).astype(np.uint16)


def quantised(language: Language, score: Score) -> Score:
    """Return an arranged score rounded to the grid of a language, without its tokens."""
    if isinstance(language, Remi):
        return to_grid(score)[0].score()
    return band_of(score).score(grid(score)[0])
