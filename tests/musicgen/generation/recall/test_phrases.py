"""Phrases return as often as those of pieces do, to a phrase before, and are found again where they were left."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from musicgen.generation.recall.memory import Memory
from musicgen.generation.recall.phrases import (
    NEW,
    UNIT,
    Phrases,
    Phrasing,
    phrasing_of,
)
from musicgen.generation.recall.recalling import Recall, Recalling, read_habits
from musicgen.generation.request import Request, Stop
from musicgen.generation.sampling import Sampling
from tests.musicgen.generation.generate import written
from tests.musicgen.toys import toy_model, toy_tokens

BAR = 0
ALWAYS = Phrasing(begin=1, stay=1, back=(0, 0, 1))
NEVER = Phrasing(begin=0, stay=0, back=(1, 0, 0))


def sources(phrasing: Phrasing | None, heard: int, bars: int, seed: int = 0) -> list[int | None]:
    """Return which earlier bar each bar after those that were heard says again."""
    phrases = Phrases(phrasing)
    for _ in range(heard):
        assert phrases.begin_bar() is None
    phrases.decide([seed])
    return [phrases.begin_bar() for _ in range(bars)]


def test_it_begins_where_a_phrase_does_and_not_just_after_what_was_given():
    for heard in range(9):
        found = sources(ALWAYS, heard, 40)
        first = found.index(next(one for one in found if one is not None)) + heard
        assert first % UNIT == 0
        assert heard + NEW <= first < heard + NEW + UNIT
        assert all(one is not None for one in found[first - heard :])


def test_the_bar_that_a_prompt_ends_with_is_the_first_new_one():
    """As the prompts of languages whose bars have a token: the token of the first bar to be written is their last."""
    for heard in range(1, 9):
        phrases = Phrases(ALWAYS)
        for _ in range(heard + 1):
            phrases.begin_bar()
        phrases.decide([0], begun=True)
        found = [phrases.begin_bar() for _ in range(NEW + UNIT)]  # of the bars from heard + 1 on
        first = found.index(next(one for one in found if one is not None)) + heard + 1
        assert first == -(-(heard + NEW) // UNIT) * UNIT


def test_a_return_goes_on_bar_by_bar_and_begins_where_a_phrase_does():
    found = sources(Phrasing(begin=1, stay=0.5, back=(0.3, 0.3, 0.4)), 8, 400)
    places = [(bar, source) for bar, source in enumerate(found, 8) if source is not None]
    assert len(places) == 400 - NEW
    for (_, one), (bar, other) in pairwise(places):
        assert other == one + 1 or (bar % UNIT == 0 and other % UNIT == 0)
        assert 0 <= other <= bar - UNIT


def test_it_returns_as_often_and_as_far_as_it_is_told():
    wanted = Phrasing(begin=0.3, stay=0.6, back=(0.25, 0.25, 0.5))
    begun = units = stays = returns = 0
    back: Counter[int] = Counter()
    for seed in range(400):
        found = [None, *sources(wanted, 8, NEW + 100 * UNIT, seed)[NEW::UNIT]]
        for number, (one, other) in enumerate(pairwise(found), 16 // UNIT):
            goes_on = one is not None and other == one + UNIT
            stays, returns = stays + goes_on, returns + (one is not None)
            if not goes_on:
                units, begun = units + 1, begun + (other is not None)
                if other is not None:
                    back[min(number - other // UNIT, 3)] += 1
    assert begun / units == pytest.approx(wanted.begin, abs=0.02)
    assert stays / returns == pytest.approx(wanted.stay, abs=0.02)
    assert [back[n] / begun for n in (1, 2, 3)] == pytest.approx([*wanted.back], abs=0.03)


def test_the_same_seed_decides_the_same_and_nothing_is_decided_without_a_phrasing():
    wanted = Phrasing(begin=0.5, stay=0.5, back=(0.2, 0.2, 0.6))
    assert sources(wanted, 8, 200, seed=3) == sources(wanted, 8, 200, seed=3)
    assert sources(wanted, 8, 200, seed=3) != sources(wanted, 8, 200, seed=4)
    assert sources(None, 8, 200) == [None] * 200
    assert sources(NEVER, 8, 200) == [None] * 200
    undecided = Phrases(ALWAYS)
    assert [undecided.begin_bar() for _ in range(40)] == [None] * 40


def bar_of(name: int) -> list[int]:
    """Return a bar of eight tokens that no bar of another name shares, but for the one that begins it."""
    return [BAR, *range(10 + 7 * name, 17 + 7 * name)]


def row(phrasing: Phrasing | None, bars: int) -> Recalling:
    """Return a row that has heard eight bars and written others, each unlike all before."""
    prompt = [token for name in range(8) for token in bar_of(name)]
    recall = Recall(weights=(-3, 0, 0, 2), bars=frozenset(range(0, 64, 8)), phrasing=phrasing)
    one = Recalling(recall, prompt)
    one.decide([1])
    for name in range(8, 8 + bars):
        for token in bar_of(name):
            one.take(token, begins=token == BAR)
    return one


def test_a_bar_that_returns_is_expected_as_it_was_and_found_again_after_it_was_left():
    only_one_back = Phrasing(begin=1, stay=0, back=(1, 0, 0))

    def expected(one: Recalling) -> int:
        chances = np.full(400, 1 / 400)
        one.mix(chances, np.ones(400, bool))
        return int(chances.argmax())

    one = row(only_one_back, NEW)
    one.take(BAR, begins=True)
    assert (
        expected(one) == bar_of(12)[1]
    )  # sixteen bars were said: the phrase before began with the 13th
    one.take(bar_of(12)[1])
    assert expected(one) == bar_of(12)[2]
    one.take(399)
    chances = np.full(400, 1 / 400)
    one.mix(chances, np.ones(400, bool))
    assert (chances == 1 / 400).all()
    one.take(BAR, begins=True)
    assert expected(one) == bar_of(13)[1]
    without = row(None, NEW)
    without.take(BAR, begins=True)
    assert len(without._memory._matches) == 0


def piece(names: str) -> tuple[np.ndarray, list[int]]:
    """Return a piece of such bars."""
    ids = np.array([token for name in names for token in bar_of(ord(name) - ord("A"))])
    return ids, np.flatnonzero(ids == BAR).tolist()


def test_how_pieces_return_is_counted():
    """Of eight phrases after the first two: the second again, new, two before, on with it, new, the 3rd, on, new."""
    said = "ABCD EFGH  EFGH IJKL  EFGH IJKL  MNOP  EFGH  IJKL QRST"
    found = phrasing_of([piece(said.replace(" ", ""))])
    assert found is not None
    assert found.begin == pytest.approx(3 / 6, abs=1e-3)
    assert found.stay == pytest.approx(2 / 5, abs=1e-3)
    assert found.back == pytest.approx((1 / 3, 1 / 3, 1 / 3), abs=1e-3)
    assert phrasing_of([piece("ABCD" * 8)]) is None  # all of it returns
    assert phrasing_of([piece("ABCDEFGHIJKLMNOPQRST")]) is None  # nothing does
    assert phrasing_of([]) is None


def test_what_a_card_says_is_read_and_what_is_wrong_is_told():
    said = {
        "recall": [1, 2, 3, 4.5],
        "phrasing": {"begin": 0.3, "stay": 0.6, "back": [0.2, 0.2, 0.6]},
    }
    habits = read_habits(said, "card")
    assert habits is not None
    assert habits.phrasing == Phrasing(begin=0.3, stay=0.6, back=(0.2, 0.2, 0.6))
    assert read_habits(habits.facts(), "card") == habits
    assert read_habits({}, "card") is None
    for wrong in ({"begin": 2}, {"back": [1]}, {"stay": "no"}, {"often": 1}):
        with pytest.raises(ValueError, match="card: phrasing"):
            read_habits(said | {"phrasing": {**said["phrasing"], **wrong}}, "card")


def test_a_place_is_followed_as_long_as_what_stands_there_is_said():
    memory = Memory([1, 2, 3, 4, 5, 6, 7])
    memory.go_back(2, 20)
    guess = memory.guess()
    assert guess is not None
    assert (guess.chances, guess.length) == ({3: 1.0}, 20)
    memory.take(3)
    guess = memory.guess()
    assert guess is not None
    assert (guess.chances, guess.length) == ({4: 1.0}, 21)
    memory.take(9)
    assert memory.guess() is None


def test_a_return_goes_on_after_what_may_not_come():
    def expected(passes_over: bool, *forbidden: int) -> list[int]:
        recall = Recall(weights=(-3, 0, 0, 2), bars=frozenset({0, 8}), passes_over=passes_over)
        one = Recalling(recall, [*bar_of(0), *bar_of(1), BAR])
        one._memory.go_back(1, 24)  # after the first token of the first bar
        allowed = np.ones(60, bool)
        allowed[[*forbidden]] = False
        chances = np.full(60, 1 / 60)
        one.mix(chances, allowed)
        return np.flatnonzero(chances > 1 / 60).tolist()

    tokens = bar_of(0)[1:]
    assert expected(True) == expected(False) == [tokens[0]]
    assert expected(True, *tokens[:2]) == [tokens[2]]
    assert expected(False, *tokens[:2]) == []
    assert expected(True, *tokens, BAR) == []  # no more than a bar's beginning is passed over


def test_what_was_passed_over_is_followed_from_there_on():
    memory = Memory([1, 2, 3, 4, 5, 6, 7])
    memory.go_back(1, 20)
    memory.pass_over(~np.isin(np.arange(9), [2, 3]))
    memory.take(4)
    guess = memory.guess()
    assert guess is not None
    assert (guess.chances, guess.length) == ({5: 1.0}, 21)
    memory.take(8)
    memory.pass_over(np.arange(9) == 7)  # it was left, so that nothing is looked for
    assert memory.guess() is None


def test_a_return_that_gives_way_to_longer_matches_is_over():
    memory = Memory([1, 2, 3, 7, 7, 9, *[7] * 200])
    memory.go_back(3, 5)
    memory.take(7)  # MANY places are followed after longer stretches
    memory.pass_over(np.arange(10) == 9)
    guess = memory.guess()
    assert guess is not None
    assert guess.chances == {7: 1.0}


def test_a_variation_does_not_depend_on_its_company():
    recall = Recall(weights=(0, 0, 0, 0), phrasing=ALWAYS)
    asked = [
        Request(variations=n, seed=1, sampling=Sampling(), stop=Stop(tokens=60), recall=recall)
        for n in (11, 1)
    ]
    prompt = toy_tokens(1, 20, seed=5)[0].numpy()
    many, one = (written(toy_model(position="sine_spe"), prompt, each) for each in asked)
    np.testing.assert_array_equal(many[:1], one)
