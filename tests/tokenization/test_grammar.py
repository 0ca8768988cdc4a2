"""Grammars of batches, of prompts that go on, of scripts; and what leans towards a goal."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.evaluation.scores import OTHER, trio
from tests.tokenization.grammar_cases import take, written
from tokenization.continuing import Script, Scripted, continuing
from tokenization.grammar import Grammar, LogitBias, exchange
from tokenization.language import COUNTED, GOAL_FAMILIES, LEFT, SEAM, Language, Vocabulary, language
from tokenization.remi.goals import ChordLine

PIECE = trio([(12 * n, 12, 60 + n % 5, OTHER) for n in range(16)])  # 4 bars
PROMPT_BARS = 2
NAMES = ("remi", "remi-2", "groove", "groove-2", "ensemble")
EVERY = pytest.mark.parametrize("name", NAMES)


def prompt_of(speaker: Language) -> np.ndarray:
    """Return the first bars; a token that begins a bar is said already."""
    ids = speaker.encode(speaker.arrange(PIECE)).ids
    return ids[: speaker.bars(ids)[PROMPT_BARS] + (speaker.bar is not None)]


def after(name: str, tokens: int, **wanted) -> Grammar:
    """Return a grammar that has taken so many tokens of a prompt."""
    speaker = language(name)
    prompt = prompt_of(speaker)[:tokens]
    grammar = continuing(speaker, prompt, prompt_bars=PROMPT_BARS, **wanted)
    take(grammar, prompt)
    return grammar


def goal(name: str, **wanted) -> Callable[[int], Grammar]:
    """Return the maker of a grammar that goes on by a goal."""

    def make(tokens: int) -> Grammar:
        speaker = language(name)
        ids = speaker.encode(speaker.arrange(PIECE)).ids
        made = speaker.infilling(ids, 1, 3) if not wanted else speaker.accompanying(ids, **wanted)
        take(made.grammar, made.prompt[:tokens])
        return made.grammar

    return make


GRAMMARS = {
    **{name: lambda tokens, name=name: after(name, tokens) for name in NAMES},
    "longest": lambda tokens: after("groove", tokens, longest_ticks=[30, 1, 70]),
    "counted": lambda tokens: after("remi-2", tokens, end_in=3),
    "chords": lambda tokens: after("remi", tokens, chords=[["C_M"], ["A_m", "F_M"]]),
    "gap": goal("groove-2"),
    "parts": goal("groove-2", write=["bass"]),
}


@pytest.mark.parametrize("make", GRAMMARS.values(), ids=GRAMMARS)
def test_a_row_of_a_batch_is_as_it_is_alone(make: Callable[[int], Grammar]):
    random = np.random.default_rng(0)
    alone = [make(tokens) for tokens in (8, 14, 25)]
    if len({grammar.shared for grammar in alone}) == 1:
        joined = alone[0].joined(alone[1:])
    else:  # the script of each is its own
        joined = alone[0].select(np.zeros(3, dtype=np.int64))
        alone = [alone[0].select(np.array([0])) for _ in range(3)]
    for step in range(150):
        allowed = joined.allowed()
        np.testing.assert_array_equal(allowed, np.concatenate([g.allowed() for g in alone]))
        if not allowed.any(axis=1).all():
            break  # a goal is reached
        drawn = np.array([random.choice(np.flatnonzero(row)) for row in allowed])
        taken = joined.instead(drawn)
        before = joined.select(np.array([1]))
        joined.advance(taken)
        np.testing.assert_array_equal(before.allowed()[0], allowed[1])  # a copy stays
        for grammar, token, expected in zip(alone, drawn, taken, strict=True):
            assert grammar.instead(np.array([token])) == expected
            grammar.advance(np.array([expected]))
        assert joined.bars.tolist() == [grammar.bars[0] for grammar in alone]
        if step % 50 == 25:  # a row leaves, and comes back
            rest, row = joined.select(np.array([0, 2])), joined.select(np.array([1]))
            joined, alone = rest.joined([row]), [alone[0], alone[2], alone[1]]
    assert step > 20


@pytest.mark.parametrize("name", ["remi-2", "groove-2"])
def test_only_grammars_that_differ_in_their_rows_alone_are_joined(name: str):
    free, counted, other = after(name, 9), after(name, 9, end_in=2), after(name, 9, end_in=2)
    assert len({free.shared, counted.shared, other.shared}) == 3
    rows = counted.select(np.zeros(3, dtype=np.int64))
    assert counted.shared == rows.shared
    assert len(counted.joined([rows]).bars) == 4
    assert after("remi", 9).shared != after("remi-2", 9).shared


# Prompts that go on.


@EVERY
def test_so_many_bars_are_written_and_the_prompt_stays(name: str):
    speaker = language(name)
    prompt = prompt_of(speaker)
    grammar = continuing(speaker, prompt, prompt_bars=PROMPT_BARS, longest_ticks=[24, 4, 48])
    ids = written(grammar, prompt, 1, speaker.end, most=1500)
    assert speaker.end not in ids
    closed = speaker.close(ids, PROMPT_BARS + 2)
    assert speaker.validate(closed) is None
    score = speaker.decode(closed)
    line = PROMPT_BARS * 4 * score.ticks_per_beat
    assert (score.notes.onset_ticks < line).sum() == 8
    assert (score.notes.onset_ticks >= line).sum() > 0
    assert len(speaker.bars(closed)) <= PROMPT_BARS + 2
    assert speaker.every_metre or score.notes.onset_ticks.max() < 2 * line


@EVERY
def test_the_music_may_end_where_it_is_asked_to_and_nothing_else_changes(name: str):
    speaker = language(name)
    ids = speaker.encode(speaker.arrange(PIECE)).ids
    plain, endless = (
        continuing(speaker, ids[:-1], prompt_bars=4, may_end=may_end) for may_end in (True, False)
    )
    for token in ids[:-1]:
        plain.advance(np.array([token]))
        endless.advance(np.array([token]))
        expected = plain.allowed().copy()
        expected[:, speaker.end] = False
        np.testing.assert_array_equal(endless.allowed(), expected)
        assert endless.bars.tolist() == plain.bars.tolist()
    assert plain.allowed()[0, speaker.end]


def test_what_a_language_cannot_do_is_said():
    ids = np.array([0])
    remi, groove = language("remi"), language("groove")
    for speaker in (remi, groove):
        with pytest.raises(ValueError, match=f"speaks {speaker.name}, in which no gap can be"):
            speaker.infilling(ids, 0, 1)
        with pytest.raises(ValueError, match=f"speaks {speaker.name}, in which no part can be"):
            speaker.accompanying(ids, ["drums"])
        with pytest.raises(ValueError, match=f"speaks {speaker.name}, in which an end cannot be"):
            continuing(speaker, ids, end_in=2)
    with pytest.raises(ValueError, match="speaks groove, which names no chords"):
        continuing(groove, ids, chords=[["C_M"]])
    assert isinstance(continuing(remi, ids, chords=[["C_M"]], may_end=True), ChordLine)


# A script around the bars of a toy language: any walk says it, and ends after so many bars.

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
        self._last = np.where(tokens <= B, tokens, self._last)
        self._bars = self._bars + (tokens == BAR)


class Toy(Language):
    """A language of which a script needs only some ids."""

    name, vocabulary, begin, end, bar = "toy", VOCABULARY, BEGIN, END, BAR
    idle = VOCABULARY.id("left_1")


Toy.__abstractmethods__ = frozenset()  # type: ignore[attr-defined]
WORDS = st.lists(st.integers(B + 1, len(VOCABULARY) - 1), max_size=3)
PARTS = st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=5)


@settings(max_examples=50)
@given(PARTS, st.booleans(), st.integers(0, 2**32 - 1))
def test_a_walk_says_the_script_word_for_word_and_then_ends(parts, silent, seed):
    before, after = ([list(part[i]) for part in parts] for i in range(2))
    script = Script.around(Toy(), before, after)
    grammar = Scripted(ToyGrammar(3), Toy(), script, may_end_silent=silent)
    random = np.random.default_rng(seed)
    said: list[list[int]] = [[], [], []]
    while live := [row for row in range(3) if END not in said[row][-1:]]:
        allowed = grammar.allowed()
        assert allowed[live].any(axis=1).all()
        drawn = np.array([random.choice(np.flatnonzero(a)) if a.any() else A for a in allowed])
        taken = grammar.instead(drawn)
        grammar.advance(taken)
        for row in live:
            said[row].append(int(taken[row]))
    for row in said:
        assert (row[0], row[-1]) == (BEGIN, END)
        assert [token for token in row[1:-1] if token != A] == script.tokens.tolist()
        assert silent or row[-2] == A


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


# Tokens of a group exchange their chances by what the goal that stands weighs their kinds; nothing else changes.

# Tokens 0 and 1 say goals 1 and 2, 2 is nothing's, 3 to 6 are a group of kinds 1 and 2, 7 and 8 another, of kind 3.
BIAS = LogitBias(
    goal=np.array([1, 2, 0, 0, 0, 0, 0, 0, 0]),
    kind=np.array([0, 0, 0, 1, 2, 1, 2, 3, 3]),
    group=np.array([0, 0, 0, 1]),
    weights=np.array([[0.0, 0.0, 0.0, 0.0], [0.0, 1.5, -0.5, 2.0], [0.0, -40.0, 0.0, 0.0]]),
)
CHANCES = np.random.default_rng(0).dirichlet(np.ones(9))


def leant(goal: int, allowed: np.ndarray | None = None) -> np.ndarray:
    scores = np.log(CHANCES).astype(np.float32)
    BIAS.apply(scores, goal, allowed)
    return np.exp(scores)


def test_a_group_exchanges_its_chances_by_the_weights_of_kinds():
    weighed = CHANCES[3:7] * np.exp([1.5, -0.5, 1.5, -0.5])
    wanted = CHANCES.copy()
    wanted[3:7] = weighed / weighed.sum() * CHANCES[3:7].sum()
    # Of one kind, 7 and 8 have nothing to exchange.
    np.testing.assert_allclose(leant(1), wanted, rtol=1e-5)
    np.testing.assert_array_equal(leant(0), np.exp(np.log(CHANCES).astype(np.float32)))
    forbidden = leant(2)
    assert forbidden[[3, 5]].max() < 1e-15
    assert forbidden[[4, 6]].sum() == pytest.approx(CHANCES[3:7].sum(), rel=1e-5)


def test_what_may_not_come_gives_nothing_to_the_others():
    allowed = np.array([True, True, True, True, True, False, False, True, True])
    found = leant(1, allowed)
    assert found[allowed].sum() == pytest.approx(CHANCES[allowed].sum(), rel=1e-5)
    assert found[3] / found[4] == pytest.approx(CHANCES[3] / CHANCES[4] * np.exp(2.0), rel=1e-5)
    np.testing.assert_allclose(found[~allowed], CHANCES[~allowed], rtol=1e-5)
    allowed[3:] = False
    np.testing.assert_allclose(leant(1, allowed), CHANCES, rtol=1e-5)


@pytest.mark.parametrize(("ids", "goal"), [([2, 3], 0), ([0, 3, 1, 4], 2), ([1, 0], 1), ([], 0)])
def test_the_goal_that_was_said_last_stands(ids: list[int], goal: int):
    assert BIAS.standing(np.array(ids, dtype=np.int64)) == goal


def test_what_is_exchanged_is_as_likely_together_as_before():
    scores = np.log(np.array([0.1, 0.2, 0.3, 0.4]))
    exchange(scores, np.array([0, 2]), np.log([3.0, 1.0]))
    np.testing.assert_allclose(np.exp(scores), [0.2, 0.2, 0.2, 0.4])


# Vocabularies.


def test_blocks_lie_end_to_end_and_names_and_ids_are_inverse():
    small = Vocabulary([("letter", ["a", "b"]), ("digit", ["0", "1", "2"])])
    assert [(block.start, block.stop) for block in small.blocks.values()] == [(0, 2), (2, 5)]
    assert small["digit"].holds(np.array([1, 2, 4, 5])).tolist() == [False, True, True, False]
    assert [small.id(name) for name in small.names] == list(range(5)) == list(range(len(small)))
    with pytest.raises(ValueError, match=r"'z' is not a token.*letter, digit"):
        small.id("z")
    with pytest.raises(ValueError, match="name of its own"):
        Vocabulary([("x", ["a"]), ("y", ["a"])])
    digits = {"name": "digit", "start": 2, "stop": 5, "tokens": ["0", "1", "2"]}
    assert small.to_json()[1] == digits
    assert VOCABULARY.names[VOCABULARY[LEFT].start] == "left_1"
    assert VOCABULARY.names[VOCABULARY[SEAM].stop - 1] == f"seam_{COUNTED}"
