"""An untrained model keeps to a line of chords."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musicgen.continuation import continuing
from tests.tokenization.grammar_cases import ids_of, uniform
from tests.tokenization.grammar_cases import written as written_by
from tests.tokenization.remi.cases import REMI, walk
from tokenization.analysis.chords import read_chords, simplified
from tokenization.grammar import Grammar

SEEDS = st.integers(0, 2**32 - 1)
NAMES = REMI.vocabulary.names


def thrifty(share: float) -> Callable[[np.random.Generator, np.ndarray], int]:
    """Choose any token, but so often a bar or the end where they may come: bars are short."""

    def choose(random: np.random.Generator, allowed: np.ndarray) -> int:
        closes = np.intersect1d(allowed, [REMI.bar, REMI.end])
        return uniform(random, closes if len(closes) and random.random() < share else allowed)

    return choose


def written(grammar: Grammar, prompt: np.ndarray, seed: int, most: int = 4000, thrift: float = 0.2):
    return written_by(grammar, prompt, seed, REMI.end, thrifty(thrift), most)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("C | G/B | Am F | C", [["C_M"], ["G_M"], ["A_m", "F_M"], ["C_M"]]),
        ("| Bbmaj7 | |", [["A#_M7"], []]),
        ("|| C || G | | F |||", [["C_M"], ["G_M"], [], ["F_M"]]),
        ("N", [["N_N"]]),
    ],
)
def test_a_line_of_chords_is_read(text, line):
    assert read_chords(text) == line


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("C | H7 | F", "'H7' in bar 2 of the chords is no chord; C, Am7"),
        (" | | ", "the line of chords names none"),
        ("C D E F G", "bar 1 of the chords has 5; a bar takes 4 at most"),
    ],
)
def test_what_is_no_line_is_named(text, says):
    with pytest.raises(ValueError, match=says):
        read_chords(text)


def test_what_of_a_chord_is_not_kept_to_is_said():
    assert simplified("C | Dm7b5 E/o7 | N") == []
    assert simplified("C | G/B | C/E G/B | F:maj/3 C9") == [
        "Basses and extensions of chords are left out: G/B as G_M, C/E as C_M, F:maj/3 as F_M, "
        "C9 as C_7."
    ]


def chords_of(ids: np.ndarray) -> list[dict[int, str]]:
    """Return the chords named in each bar, by sub-beat."""
    found, place = [], 0
    for name in (NAMES[token] for token in ids):
        family, _, value = name.partition("_")
        if family == "bar":
            found.append({})
        elif family == "subbeat":
            place = int(value)
        elif family == "chord":
            found[-1][place] = value
    return found


LINES = st.lists(
    st.lists(st.sampled_from(["C_M", "G_M", "A_m", "F_M7", "N_N"]), max_size=4),
    min_size=1,
    max_size=4,
)


@settings(max_examples=12)
@given(SEEDS, st.integers(0, 100), LINES.filter(any))
def test_a_model_of_no_knowledge_keeps_to_the_line(seed, prompt_length, line):
    piece = walk(seed, prompt_length)
    starts = REMI.bars(piece)
    prompt, before = np.append(piece[: starts[-1]], REMI.bar), len(starts) - 1
    grammar = continuing(REMI, prompt, prompt_bars=before, chords=line)
    sequence = written(grammar, prompt, seed, most=len(prompt) + 250, thrift=0.3)
    assert REMI.validate(sequence) is None
    found = [[*bar.values()] for bar in chords_of(sequence)]
    sounding = [chord for bar in found[:before] for chord in bar][-1:]
    wanted = []
    for bar in range(len(found) - 1 - before):  # the last may be broken off
        asked = [*sounding, *line[bar % len(line)]]
        wanted.append([chord for last, chord in pairwise([None, *asked]) if chord != last])
        wanted[-1] = wanted[-1][len(sounding) :]
        sounding = asked[-1:]
    assert found[before:-1] == wanted


@pytest.mark.parametrize(
    ("line", "places"), [("C F", [0, 8]), ("C F G", [0, 4, 12]), ("C F G C", [0, 4, 8, 12])]
)
def test_chords_stand_on_their_shares_of_the_bar(line, places):
    grammar = REMI.on_chords(read_chords(line), 0)
    prompt = ids_of(REMI, "begin bar")
    sequence = written(grammar, prompt, 3, most=300, thrift=1.0)
    assert sorted(chords_of(sequence)[0]) == places
