"""What the tests of every grammar have in common: tokens by name, damaged sequences, walks, and the long way."""

from functools import cache

import numpy as np
from hypothesis import strategies as st

from tokenization.grammar import Grammar
from tokenization.groove.language import band_of, grid
from tokenization.language import Language, Vocabulary
from tokenization.remi.language import Remi
from tokenization.remi.spelling import to_grid
from tokenization.score import Score


def ids_of(language: Language, text: str) -> np.ndarray:
    """Return the tokens that a text names, as `Language.text` writes them."""
    return np.array([language.vocabulary.id(name) for name in text.split()], dtype=np.uint16)


@cache
def block_index(vocabulary: Vocabulary) -> np.ndarray:
    """Return the number of each id's block, in the order of the blocks: (V,)."""
    return np.repeat(np.arange(len(vocabulary.blocks)), [*map(len, vocabulary.blocks.values())])


@st.composite
def damages(draw, ids: list[int], tokens: int) -> list[int]:
    """Return a sequence with one of so many tokens exchanged, added, lost or said twice, or its end reversed."""
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
    """Let a grammar of one row take tokens, which it must allow if they are `checked`."""
    for place, token in enumerate(np.asarray(ids, dtype=np.int64)):
        assert not checked or grammar.allowed()[0, token], (place, token)
        grammar.advance(np.array([token]))


def take(grammar: Grammar, ids: np.ndarray) -> None:
    """Let it take tokens that it must also leave as they are."""
    for place, token in enumerate(np.asarray(ids, dtype=np.int64)):
        assert grammar.instead(np.array([token]))[0] == token, (place, token)
        advance(grammar, np.array([token]))


def uniform(random: np.random.Generator, allowed: np.ndarray) -> int:
    return int(random.choice(allowed))


def written(grammar: Grammar, prompt, seed, end, choose=uniform, most=20_000, checked=True):
    """Return a prompt and what a model of no knowledge writes after it, to the end or to so many tokens.

    A prompt that is `checked` consists of what may be written.
    """
    random, ids = np.random.default_rng(seed), [int(token) for token in prompt]
    advance(grammar, prompt, checked=checked)
    while len(ids) < most and (not ids or ids[-1] != end):
        allowed = grammar.allowed()[0]
        assert allowed.any(), "there is a way on"
        token = grammar.instead(np.array([choose(random, np.flatnonzero(allowed))]))
        assert allowed[token[0]]
        grammar.advance(token)
        ids.append(int(token[0]))
    return np.array(ids)


def walk(grammar: Grammar, vocabulary: Vocabulary, seed, length, ways_out=(), most=20_000):
    """Return a valid sequence: a random walk through a grammar, then a way out by the first blocks that may come."""
    random, blocks = np.random.default_rng(seed), block_index(vocabulary)
    end = vocabulary.id("end")
    # Some walks rush and some pile up notes; few favourite keys make unisons and overlaps.
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
    """Return an arranged score as a language's tokens can say it: decode(encode(score))."""
    if isinstance(language, Remi):
        return to_grid(score)[0].score()
    return band_of(score).score(grid(score)[0])
