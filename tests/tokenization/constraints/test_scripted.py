"""A script around the bars of a toy language: any walk says it, and ends after so many bars."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenization.continuing import Script, Scripted
from tokenization.grammar import Grammar
from tokenization.language import COUNTED, GOAL_FAMILIES, LEFT, SEAM, Language, Vocabulary

VOCABULARY = Vocabulary([("special", ["begin", "end", "bar", "a", "b"]), *GOAL_FAMILIES])
BEGIN, END, BAR, A, B = range(5)


class ToyGrammar(Grammar):
    """Bars of any number of a and b; no end after an empty one; hears nothing but these."""

    def __init__(self, batch: int) -> None:
        self._last, self._bars = np.full(batch, -1), np.zeros(batch, dtype=np.int64)

    @property
    def bars(self) -> np.ndarray:
        return self._bars

    def allowed(self) -> np.ndarray:
        mask = np.zeros((len(self._last), len(VOCABULARY)), dtype=bool)
        mask[self._last == -1, BEGIN] = True
        mask[(self._last >= 0) & (self._last != END), BAR] = True
        mask[np.isin(self._last, [BAR, A, B]), A : B + 1] = True
        mask[np.isin(self._last, [A, B]), END] = True
        return mask

    def instead(self, tokens: np.ndarray) -> np.ndarray:
        return np.where(tokens == B, A, tokens)

    def advance(self, tokens: np.ndarray) -> None:
        heard = tokens <= B
        self._last = np.where(heard, tokens, self._last)
        self._bars = self._bars + (tokens == BAR)


class Toy(Language):
    """A language of which a script needs only some ids."""

    name, vocabulary, begin, end, bar = "toy", VOCABULARY, BEGIN, END, BAR
    idle = VOCABULARY.id("left_1")


Toy.__abstractmethods__ = frozenset()  # type: ignore[attr-defined]
WORDS = st.lists(st.integers(B + 1, len(VOCABULARY) - 1), max_size=3)
PARTS = st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=5)


@settings(deadline=None)
@given(PARTS, st.booleans(), st.integers(0, 2**32 - 1))
def test_a_walk_says_the_script_word_for_word_and_then_ends(parts, silent, seed):
    before, after = ([list(part[i]) for part in parts] for i in range(2))
    script = Script.around(Toy(), before, after)
    grammar = Scripted(ToyGrammar(3), Toy(), script, may_end_silent=silent)
    random = np.random.default_rng(seed)
    said: list[list[int]] = [[], [], []]
    for _ in range(400):
        live = [row for row in range(3) if END not in said[row][-1:]]
        allowed = grammar.allowed()
        assert allowed[live].any(axis=1).all()
        drawn = np.array([random.choice(np.flatnonzero(a)) if a.any() else A for a in allowed])
        taken = grammar.instead(drawn)
        grammar.advance(taken)
        for row in live:
            said[row].append(int(taken[row]))
    for row in said:
        assert row[0] == BEGIN
        assert row[-1] == END
        assert [token for token in row[1:-1] if token != A] == script.tokens.tolist()
        assert B not in row
        assert silent or row[-2] == A


def test_rows_are_copied_with_their_places():
    grammar = Scripted(ToyGrammar(1), Toy(), Script.around(Toy(), [[7, 8]], [[9]]))
    for token in (BEGIN, 7):
        grammar.advance(np.array([token]))
    rows = grammar.select(np.zeros(2, dtype=np.int64))
    assert [np.flatnonzero(row).tolist() for row in rows.allowed()] == [[8], [8]]
    rows.advance(np.array([8, 8]))
    assert np.flatnonzero(grammar.allowed()[0]).tolist() == [8]
    assert np.flatnonzero(rows.allowed()[1]).tolist() == [BAR]
    assert rows.bars.tolist() == [0, 0]


def test_countdowns_name_the_bars_to_go():
    assert VOCABULARY.names[VOCABULARY[LEFT].start] == "left_1"
    assert VOCABULARY.names[VOCABULARY[SEAM].stop - 1] == f"seam_{COUNTED}"


@pytest.mark.parametrize("ends_bars", [BAR, END, 7])
def test_a_bar_is_over_by_whichever_token_a_model_would_end_it(ends_bars):
    grammar = Scripted(ToyGrammar(1), Toy(), Script.around(Toy(), [[], [7, 8]], [[], []]))

    def take(token: int) -> int:
        assert grammar.allowed()[0, token]
        taken = grammar.instead(np.array([token]))
        grammar.advance(taken)
        return int(taken[0])

    assert [take(token) for token in (BEGIN, BAR, A)] == [BEGIN, BAR, A]
    assert take(ends_bars) == 7  # what is given first comes, whatever ended the bar
    assert [take(token) for token in (8, BAR, A)] == [8, BAR, A]
    assert take(BAR if ends_bars == 7 else ends_bars) == END  # no bar is left
