"""Makers for the tests of the second groove language: music, valid sequences, and walks by a grammar."""

from itertools import pairwise

import numpy as np
from hypothesis import strategies as st

from tests.tokenization.grammar_cases import block_index
from tests.tokenization.groove.cases import trio_of
from tests.tokenization.groove.strict import StrictBarGrammar
from tokenization.grammar import Grammar
from tokenization.groove.spelling import BAR_TICKS, END, NOTE_ON, PITCHES
from tokenization.groove_2.language import Groove2
from tokenization.groove_2.spelling import GIVEN, VOCABULARY, WRITE
from tokenization.score import Notes

GROOVE = Groove2()
ENOUGH = 20_000  # tokens of a walk, more than which none needs
SEEDS = st.integers(0, 2**32 - 1)
_ON = np.arange(len(VOCABULARY))
IS_ON = NOTE_ON.holds(_ON)
FEW = IS_ON & np.isin(_ON % PITCHES - NOTE_ON.start, range(58, 65))  # so that much happens on each


@st.composite
def grooves(draw, tracks=(0, 1, 2)) -> Notes:
    """Return notes on the grid, of which no two of one key sound at once."""
    lines = st.integers(0, 11).map(lambda bar: bar * BAR_TICKS)
    onset = st.one_of(st.integers(0, draw(st.sampled_from([60, 600]))), lines)
    duration = st.one_of(st.integers(1, 12), st.integers(1, 300), st.sampled_from([48, 96]))
    note = st.tuples(onset, duration, st.integers(60, 63), st.sampled_from(tracks))
    rows = sorted(draw(st.lists(note, min_size=1, max_size=60)))
    apart: list[tuple[int, int, int, int]] = []
    for key in sorted({row[2:] for row in rows}):
        own = sorted({row[0]: row for row in rows if row[2:] == key}.values())
        follow = [b[0] for _, b in pairwise(own)] + [10**9]
        apart += [
            (r[0], min(r[1], next_ - r[0]), *key) for r, next_ in zip(own, follow, strict=True)
        ]
    rows_of = [(onset, duration, pitch, 0, track) for onset, duration, pitch, track in apart]
    return trio_of(rows_of).notes.sorted()


def sounding(notes: Notes) -> np.ndarray:
    """Return the most notes of each track that sound at once: (3,)."""
    ends = notes.onset_ticks + notes.duration_ticks
    here = (notes.onset_ticks <= notes.onset_ticks[:, None]) & (ends > notes.onset_ticks[:, None])
    return np.array([(here & (notes.track == track)).sum(1).max(initial=0) for track in range(3)])


def walk(seed: int, length: int) -> np.ndarray:
    """Return a valid sequence: a random walk through the grammar, then a way out."""
    random = np.random.default_rng(seed)
    taste = random.exponential(size=len(VOCABULARY.blocks))
    favourites = np.isin(_ON % 384, random.integers(384, size=random.integers(1, 7)))
    grammar, ids = StrictBarGrammar(), []
    while not ids or ids[-1] != END:
        allowed = grammar.allowed()[0].copy()
        if len(ids) < length:
            allowed[END] = False
        elif allowed[END]:
            allowed = _ON == END
        families = np.unique(block_index(VOCABULARY)[allowed])
        family = random.choice(families, p=taste[families] / taste[families].sum())
        choices = allowed & (block_index(VOCABULARY) == family)
        if random.random() < 0.8 and (choices & favourites).any():
            choices &= favourites
        ids.append(int(random.choice(np.flatnonzero(choices))))
        grammar.advance(np.array(ids[-1:]))
    return np.array(ids, dtype=np.uint16)


def take(grammar: Grammar, ids: np.ndarray) -> None:
    """Let a grammar of one row take tokens that it must allow and leave as they are."""
    for place, token in enumerate(np.asarray(ids, dtype=np.int64)):
        assert grammar.allowed()[0, token], (place, VOCABULARY.names[token])
        one = np.array([token])
        assert grammar.instead(one)[0] == token, (place, VOCABULARY.names[token])
        grammar.advance(one)


def given_in(ids: np.ndarray) -> list[int]:
    """Return the runs of tokens from which parts are given to where the others are to be written."""
    begins = np.diff(GIVEN.holds(ids).astype(int), prepend=0) == 1
    return ids[np.cumsum(begins) > np.cumsum(np.append(0, ids[:-1] == WRITE))].tolist()


def written(
    grammar: Grammar, prompt: np.ndarray, seeds: list[int], chatty: float
) -> list[np.ndarray]:
    """Return random sequences after a prompt, rows of a batch, each by a seed, up to the end token.

    As a model's would, the tokens are drawn from what is allowed; note-ons together have the chance `chatty`.
    """
    take(grammar, prompt)
    rows = grammar.select(np.zeros(len(seeds), dtype=np.int64))
    randoms = [np.random.default_rng(seed) for seed in seeds]
    said: list[list[int]] = [prompt.tolist() for _ in seeds]
    live = np.arange(len(seeds))
    for _ in range(ENOUGH):
        allowed = rows.allowed()
        assert allowed.any(axis=1).all()
        tokens = rows.instead(
            np.array([_drawn(a, randoms[i], chatty) for i, a in zip(live, allowed, strict=True)])
        )
        rows.advance(tokens)
        for row, token in zip(live, tokens, strict=True):
            said[row].append(int(token))
        goes_on = np.flatnonzero(tokens != END)
        if not len(goes_on):
            return [np.array(one) for one in said]
        rows, live = rows.select(goes_on), live[goes_on]
    raise AssertionError("a walk has no end")


def _drawn(allowed: np.ndarray, random: np.random.Generator, chatty: float) -> int:
    ons, others = (
        np.flatnonzero(allowed & FEW[: len(allowed)]),
        np.flatnonzero(allowed & ~IS_ON[: len(allowed)]),
    )
    if not len(others) + len(ons):
        ons = np.flatnonzero(allowed)
    first = not len(others) or (len(ons) > 0 and random.random() < chatty)
    return int(random.choice(ons if first else others))


def rows_of(notes: Notes) -> list[tuple[int, ...]]:
    """Return notes as (onset, duration, pitch, track), in order."""
    columns = notes.onset_ticks, notes.duration_ticks, notes.pitch, notes.track
    return sorted(zip(*(c.tolist() for c in columns), strict=True))
