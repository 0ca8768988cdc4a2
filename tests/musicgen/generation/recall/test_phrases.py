"""Phrases return as often as those of pieces do, and new ones are led to be as differently high."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from musicgen.generation.recall.contrast import (
    FURTHEST,
    MOST,
    Contrast,
    Heights,
    Leaning,
    contrast_of,
)
from musicgen.generation.recall.phrases import NEW, UNIT, Phrases, Phrasing, phrasing_of
from musicgen.generation.recall.recalling import Recall, Recalling, read_habits
from tokenization.grammar import NoteTokens
from tokenization.language import LANGUAGES
from tokenization.language import language as language_of

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


@pytest.mark.parametrize("begun", [False, True])
def test_it_begins_where_a_phrase_does_and_not_just_after_what_was_given(begun: bool):
    """Of languages whose bars have a token, the first bar to be written has begun: its token is the prompt's last."""
    for heard in range(begun, 9):
        phrases = Phrases(ALWAYS)
        for _ in range(heard + begun):
            phrases.begin_bar()
        phrases.decide([0], begun=begun)
        found = [phrases.begin_bar() for _ in range(40)]
        first = next(i for i, one in enumerate(found) if one is not None)
        assert first + heard + begun == -(-(heard + NEW) // UNIT) * UNIT
        assert all(one is not None for one in found[first:])


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
    for seed in range(100):
        found = [None, *sources(wanted, 8, NEW + 400 * UNIT, seed)[NEW::UNIT]]
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


def named_bar(name: int) -> list[int]:
    """Return a bar of eight tokens that no bar of another name shares, but for the one that begins it."""
    return [BAR, *range(10 + 7 * name, 17 + 7 * name)]


def row_of(phrasing: Phrasing | None, bars: int) -> Recalling:
    """Return a row that has heard eight bars and written others, each unlike all before."""
    prompt = [token for name in range(8) for token in named_bar(name)]
    recall = Recall(weights=(-3, 0, 0, 2), bars=frozenset(range(0, 64, 8)), phrasing=phrasing)
    one = Recalling(recall, prompt)
    one.decide([1])
    for name in range(8, 8 + bars):
        for token in named_bar(name):
            one.take(token, begins=token == BAR)
    return one


def expected(one: Recalling, allowed: np.ndarray | None = None) -> list[int]:
    """Return the tokens that a row makes likelier than a model does that knows nothing."""
    chances = np.full(400, 1 / 400)
    one.mix(chances, np.ones(400, bool) if allowed is None else allowed)
    return np.flatnonzero(chances > 1 / 400).tolist()


def test_a_bar_that_returns_is_expected_as_it_was_and_found_again_after_it_was_left():
    one = row_of(Phrasing(begin=1, stay=0, back=(1, 0, 0)), NEW)
    one.take(BAR, begins=True)
    # Sixteen bars were said: the phrase before began with the 13th.
    assert expected(one) == [named_bar(12)[1]]
    one.take(named_bar(12)[1])
    assert expected(one) == [named_bar(12)[2]]
    one.take(399)
    assert expected(one) == []
    one.take(BAR, begins=True)
    assert expected(one) == [named_bar(13)[1]]
    without = row_of(None, NEW)
    without.take(BAR, begins=True)
    assert len(without._memory._matches) == 0


def piece(names: str) -> tuple[np.ndarray, list[int]]:
    """Return a piece of such bars."""
    ids = np.array([token for name in names for token in named_bar(ord(name) - ord("A"))])
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


def test_a_return_goes_on_after_what_may_not_come():
    def after(passes_over: bool, *forbidden: int) -> list[int]:
        recall = Recall(weights=(-3, 0, 0, 2), bars=frozenset({0, 8}), passes_over=passes_over)
        one = Recalling(recall, [*named_bar(0), *named_bar(1), BAR])
        one._memory.go_back(1, 24)  # after the first token of the first bar
        return expected(one, ~np.isin(np.arange(400), forbidden))

    tokens = named_bar(0)[1:]
    assert after(True) == after(False) == [tokens[0]]
    assert after(True, *tokens[:2]) == [tokens[2]]
    assert after(False, *tokens[:2]) == []
    assert after(True, *tokens, BAR) == []  # no more than a bar's beginning is passed over


LINE, PLACE = 0, 1
TOKENS = NoteTokens(
    pitch=np.where(np.arange(128) < 20, -1, np.arange(128)), moves=np.isin(np.arange(128), [0, 1])
)
STILL = Contrast(rise=0, keeps=0, spread=0, lowest=0, highest=127)
ALLOWED = np.ones(128, bool)
Said = Iterable[tuple[int, bool]]


def bar_of(*tops: int) -> Said:
    """Return a bar with such notes at the top, each above a low one, and which token begins it."""
    yield LINE, True
    for top in tops:
        yield from ((PLACE, False), (30, False), (top, False))


def phrase_of(top: int) -> Said:
    """Return a phrase with its tops at one height."""
    for _ in range(UNIT):
        yield from bar_of(top, top)


def leaning(contrast: Contrast, *phrases: int, seed: int = 0) -> Leaning:
    """Return what leads a sequence, as its next bar begins, after phrases of such heights."""
    one = Leaning(contrast, TOKENS)
    one.decide([seed])
    for top in phrases:
        for token, begins in phrase_of(top):
            one.take(token, begins, False)
    one.take(LINE, True, True)
    return one


def chances(one: Leaning, allowed: np.ndarray = ALLOWED) -> np.ndarray:
    """Return what a model that knows nothing would draw from."""
    scores = np.zeros(128)
    one.apply(scores, allowed)
    return np.exp(scores) / 128


def test_a_height_is_that_of_most_tops_and_a_rest_has_none():
    heights = Heights(TOKENS)
    for token, begins in [*bar_of(60, 62, 64, 66, 90), *[*bar_of()] * 3, (LINE, True)]:
        heights.take(token, begins)
    assert heights.over == [pytest.approx(np.percentile([60, 62, 64, 66, 90], 80))]
    assert heights.middle == pytest.approx((60 + 62 + 64 + 66 + 90 + 5 * 30) / 10)
    for token, begins in [*bar_of(60, 60), *[*bar_of()] * 4]:
        heights.take(token, begins)
    assert heights.over[1:] == [None]
    assert heights.known == heights.over[:1]


RISING = Contrast(rise=12, keeps=0, spread=0, lowest=0, highest=127)


def test_what_is_led_goes_to_what_is_wanted_and_no_further():
    led = chances(leaning(RISING, 60, 60))
    assert led[72] > led[60] > led[46]
    np.testing.assert_allclose(led[72:], led[72])
    # Whether a high note comes stays the model's own, and so does all that is below the middle.
    assert led[46:].sum() == pytest.approx(82 / 128)
    np.testing.assert_allclose(led[:46], 1 / 128)
    led = chances(leaning(replace(RISING, rise=-12), 90, 90))
    assert led[61] == led[78] > led[84] > led[90]
    assert led[61:].sum() == pytest.approx(67 / 128)
    np.testing.assert_allclose(led[:61], 1 / 128)


def test_what_may_not_come_does_not_count():
    allowed = ALLOWED & (np.arange(128) != 70)
    led = chances(leaning(RISING, 60, 60), allowed)
    assert led[70] == 1 / 128
    assert led[46:][allowed[46:]].sum() == pytest.approx(81 / 128)
    none = ALLOWED & (np.arange(128) < 46)
    np.testing.assert_array_equal(chances(leaning(RISING, 60, 60), none), 1 / 128)


def test_it_leads_more_the_longer_a_phrase_stays_away_and_nothing_within_a_return():
    one = leaning(replace(RISING, rise=4), 60, 60)
    before = chances(one)[64]
    for token, begins in [*bar_of(60, 60, 60), (LINE, True)][1:]:
        one.take(token, begins, True)
    assert chances(one)[64] > before
    one.take(LINE, True, False)
    np.testing.assert_array_equal(chances(one), 1 / 128)
    far = leaning(replace(RISING, rise=60), 60, 60)
    assert np.log(chances(far)[47] / chances(far)[46]) == pytest.approx(MOST)


def test_nothing_is_led_before_there_is_a_phrase_or_where_all_are_alike():
    np.testing.assert_array_equal(chances(leaning(STILL, 60, 60)), 1 / 128)
    np.testing.assert_array_equal(chances(leaning(RISING)), 1 / 128)


def test_heights_are_drawn_as_they_were_counted():
    contrast = Contrast(rise=1, keeps=0.5, spread=3, lowest=40, highest=90)
    random = np.random.default_rng(0)
    drawn = np.array([contrast.drawn([60, 60, 66], random) for _ in range(4000)])
    assert drawn.mean() == pytest.approx(62 + 1 + 0.5 * 4, abs=0.2)
    assert drawn.std() == pytest.approx(3, rel=0.1)
    assert np.abs(drawn - 65).max() == pytest.approx(3 * FURTHEST)
    tight = Contrast(rise=20, keeps=0, spread=0, lowest=40, highest=70)
    assert tight.drawn([60], random) == 70
    assert tight.drawn([80], random) == 80  # what was given lies outside


def test_the_seed_decides_and_a_copy_goes_on_for_itself():
    wide = Contrast(rise=0, keeps=0, spread=8, lowest=0, highest=127)
    found = [chances(leaning(wide, 60, 60, seed=seed)) for seed in (1, 1, 2)]
    np.testing.assert_array_equal(found[0], found[1])
    assert (found[0] != found[2]).any()
    one = leaning(replace(RISING, rise=4), 60, 60)
    before, other = chances(one), one.copy()
    for token, begins in [*bar_of(100, 100, 100), *bar_of(100)]:
        other.take(token, begins, True)
    np.testing.assert_array_equal(chances(one), before)
    assert (chances(other) != before).any()


def test_how_phrases_differ_is_counted():
    """Each new phrase lies, above the mean of all before, by 2 + half of what the last one does, and 1 more or less."""
    random, pieces = np.random.default_rng(1), []
    for _ in range(12):
        tops = [60.0, 66.0]
        for _ in range(8):
            mean = np.mean(tops)
            tops.append(mean + 2 + 0.5 * (tops[-1] - mean) + random.choice([-1, 1]))
        said: list[tuple[int, bool]] = []
        for token, begins in (one for top in tops for one in phrase_of(round(top))):
            # Words that stand nowhere else, so that no phrase is a return.
            said += [(token, begins), (128 + len(said), False)]
        starts = [place for place, (_, begins) in enumerate(said) if begins]
        pieces.append((np.array([token for token, _ in said]), starts))
    tokens = NoteTokens(
        pitch=np.append(TOKENS.pitch, np.full(2000, -1)),
        moves=np.append(TOKENS.moves, np.zeros(2000, bool)),
    )
    found = contrast_of(pieces, tokens)
    assert found is not None
    assert found.keeps == pytest.approx(0.5, abs=0.25)
    assert found.rise == pytest.approx(2, abs=0.5)
    assert found.spread == pytest.approx(1, abs=0.3)
    assert 59 <= found.lowest < 66 < found.highest < 90
    assert contrast_of(pieces[:1], tokens) is None


def test_a_row_is_led_in_new_phrases_that_were_decided_on():
    """Eight bars are given; the first eight new ones are the model's own; then each phrase is new."""
    given = [*phrase_of(60), *phrase_of(60)]
    recall = Recall(
        weights=(0, 0, 0, 0),
        goals=frozenset({5}),
        bars=frozenset(place for place, (_, begins) in enumerate(given) if begins),
        phrasing=Phrasing(begin=0, stay=0, back=(0, 0, 1)),
        contrast=RISING,
        notes=TOKENS,
    )
    one, led = Recalling(recall, [token for token, _ in given]), []
    one.decide([1])
    for number in range(NEW + UNIT):
        for token, begins in bar_of(60 + number, 60 + number):
            one.take(token, begins)
        scores = np.zeros(128)
        one.bias(scores, ALLOWED)
        led.append(bool(scores.any()))
    assert led == [False] * NEW + [True] * UNIT
    one.take(5)  # once a goal stands, what is asked for comes first
    scores = np.zeros(128)
    one.bias(scores, ALLOWED)
    assert not scores.any()


@pytest.mark.parametrize(
    ("part", "found", "wrong"),
    [
        (
            "contrast",
            Contrast(rise=0.2, keeps=0.5, spread=4.8, lowest=63, highest=87),
            [{"spread": -1}, {"lowest": 90}, {"rise": "up"}, {"more": 1}, {"keeps": math.nan}],
        ),
        (
            "phrasing",
            Phrasing(begin=0.3, stay=0.6, back=(0.2, 0.2, 0.6)),
            [{"begin": 2}, {"back": [1]}, {"stay": "no"}, {"often": 1}],
        ),
    ],
)
def test_what_a_card_says_is_read_and_what_is_wrong_is_told(part: str, found: Any, wrong: list):
    said = {"recall": [1, 2, 3, 4.5], part: vars(found)}
    habits = read_habits(said, "card")
    assert habits is not None
    assert getattr(habits, part) == found
    assert read_habits(habits.facts(), "card") == habits
    assert read_habits({}, "card") is None
    for change in wrong:
        with pytest.raises(ValueError, match=f"card: {part}"):
            read_habits({**said, part: {**vars(found), **change}}, "card")


@pytest.mark.parametrize("name", LANGUAGES)
def test_a_language_says_which_tokens_are_pitches_and_which_move_time(name: str):
    language = language_of(name)
    tokens = language.note_tokens()
    if tokens is None:
        # Of several parts none is led; their plan says how high bars are.
        assert "pitch" not in language.vocabulary.blocks or "part" in language.vocabulary.blocks
        return
    for token, text in enumerate(language.vocabulary.ids):
        pitch = int(text.removeprefix("pitch_")) if text.startswith("pitch_") else -1
        assert tokens.pitch[token] == pitch
        assert tokens.moves[token] == (text == "bar" or text.startswith("subbeat_"))
