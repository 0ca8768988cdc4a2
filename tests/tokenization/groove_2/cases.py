"""Makers for the tests of the second groove language: music, valid sequences, and a chatty model."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from hypothesis import strategies as st

from tests.tokenization import grammar_cases
from tests.tokenization.grammar_cases import uniform
from tests.tokenization.groove.cases import trio_of
from tests.tokenization.groove.strict import StrictBarGrammar
from tokenization.groove.spelling import BAR_TICKS, NOTE_ON, PITCHES
from tokenization.groove_2.language import Groove2
from tokenization.groove_2.spelling import GIVEN, VOCABULARY, WRITE
from tokenization.score import Notes

GROOVE = Groove2()
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
    """Return a valid sequence."""
    return grammar_cases.walk(StrictBarGrammar(), VOCABULARY, seed, length)


def given_in(ids: np.ndarray) -> list[int]:
    """Return the runs of tokens from which parts are given to where the others are to be written."""
    begins = np.diff(GIVEN.holds(ids).astype(int), prepend=0) == 1
    return ids[np.cumsum(begins) > np.cumsum(np.append(0, ids[:-1] == WRITE))].tolist()


def chatty(share: float) -> Callable[[np.random.Generator, np.ndarray], int]:
    """Choose as a model would: note-ons of a few keys together have a chance of their own."""

    def choose(random: np.random.Generator, allowed: np.ndarray) -> int:
        ons, others = allowed[FEW[allowed]], allowed[~IS_ON[allowed]]
        if not len(ons) + len(others):
            return uniform(random, allowed)
        first = not len(others) or (len(ons) > 0 and random.random() < share)
        return uniform(random, ons if first else others)

    return choose


def rows_of(notes: Notes) -> list[tuple[int, ...]]:
    """Return notes as (onset, duration, pitch, track), in order."""
    columns = notes.onset_ticks, notes.duration_ticks, notes.pitch, notes.track
    return sorted(zip(*(c.tolist() for c in columns), strict=True))
