"""Music that goes round in circles longer than pieces do is led out of them, and no sooner."""

from __future__ import annotations

import numpy as np
import pytest

from app.web.offered_models import example
from musicgen.generation.recall.circling import DEGREES, Circling, checked_limits, limits_of, lower
from musicgen.generation.recall.recalling import Recall, Recalling
from tokenization.language import LANGUAGES, language
from tokenization.midi.reading import read_midi

BAR = 0
NEVER = (10**6,) * len(DEGREES)
SURE = (20.0, 0.0, 0.0, 0.0)  # to recall all that can be


def heard(*bars: list[int], limits: tuple[int, ...] = ()) -> Circling:
    circling = Circling(limits)
    for bar in bars:
        for place, token in enumerate([BAR, *bar]):
            circling.take(token, begins=place == 0)
    circling.take(BAR, begins=True)
    return circling


def fresh(count: int) -> list[list[int]]:
    return [[100 + 10 * bar + note for note in range(9)] for bar in range(count)]


def test_a_bar_counts_that_has_nearly_all_tokens_of_one_shortly_before():
    said = [1, 2, 3, 4, 1, 2, 3, 4, 1]
    like = [*said[:-1], 9]  # nine of its ten tokens, with the bar line
    assert heard(*fresh(3), said, like).counts == [1] * len(DEGREES)
    unlike = [*said[:6], 7, 8, 9]  # seven of ten
    assert heard(*fresh(3), said, unlike).counts == [0] * len(DEGREES)
    for far in (4, 5, 8, 9, 16, 17):
        counts = heard(said, *fresh(far - 1), said).counts
        assert counts == [int(far <= degree.near) for degree in DEGREES], far


def test_counts_go_down_with_every_other_bar_and_not_below_nothing():
    said = [1, 2, 3, 4, 5]
    assert heard(*[said] * 6).counts[0] == 5
    assert heard(*[said] * 6, *fresh(3)).counts[0] == 2
    assert heard(*[said] * 6, *fresh(9)).counts[0] == 0


def test_what_is_past_a_limit_says_where_its_circle_began_and_where_the_last_bars_do():
    limits = (3, *NEVER[1:])
    said, before = [1, 2, 3, 4, 5], fresh(2)
    assert heard(*before, *[said] * 3, limits=limits).past() is None
    past = heard(*before, *[said] * 12, limits=limits).past()
    assert past is not None
    assert past.excess == 11 - 3
    place = 20 + 6 * 12
    assert past.last == place - 4 * 6
    # Eleven bars are like one of the four before them: the circle begins with the first of those, or before.
    assert past.circle <= 20


def test_a_prompt_may_go_round_in_circles_as_it_does():
    circling = heard(*[[1, 2, 3, 4, 5]] * 9, limits=(2,) * len(DEGREES))
    past = circling.past()
    assert past is not None
    assert past.excess == 6
    circling.get_used()
    past = circling.past()
    assert past is not None
    assert past.excess == 0
    assert heard(*[[1, 2, 3]] * 40).past() is None  # without limits


def test_lowered_tokens_are_less_likely_among_their_kind_and_kinds_as_likely_as_before():
    scores = np.random.default_rng(0).normal(size=8)
    before = np.exp(scores)
    lower(scores, [2, 6], 1.5, np.array([0, 1, 1, 1, 1, 2, 2, 2]))
    after = np.exp(scores)
    for kind, of_kind, lowered in ((0, [0], []), (1, [1, 2, 3, 4], [2]), (2, [5, 6, 7], [6])):
        assert after[of_kind].sum() == pytest.approx(before[of_kind].sum()), kind
        others = [token for token in of_kind if token not in lowered]
        for token in lowered:
            ratio = (after[token] / after[others[0]]) / (before[token] / before[others[0]])
            assert ratio == pytest.approx(np.exp(-1.5))


def test_what_circles_is_neither_recalled_nor_as_likely():
    """Twelve bars of one, after another that went on otherwise from the same tokens."""
    phrase, other = [1, 2, 3, 4, 5], [1, 2, 3, 4, 6]
    bars = [other, *fresh(5), *[phrase] * 11, phrase[:-1]]
    prompt = [token for bar in bars[:6] for token in [BAR, *bar]]
    kinds, allowed = np.ones(160, np.int64), np.ones(160, bool)

    def row(limits: tuple[int, ...]) -> Recalling:
        places = frozenset(np.flatnonzero(np.array(prompt) == BAR).tolist())
        one = Recalling(Recall(weights=SURE, bars=places, limits=limits, kinds=kinds), prompt)
        for token in [token for bar in bars[6:] for token in [BAR, *bar]]:
            one.take(token, begins=token == BAR)
        return one

    def likeliest(one: Recalling) -> int:
        chances = np.full(len(kinds), 1 / len(kinds))
        one.mix(chances, allowed)
        return int(chances.argmax())

    def lowered(one: Recalling) -> list[int]:
        scores = np.zeros(len(kinds))
        one.bias(scores, allowed)
        return np.flatnonzero(scores < 0).tolist()

    assert (likeliest(row(NEVER)), lowered(row(NEVER))) == (5, [])
    bound = row((3, *NEVER[1:]))
    assert (likeliest(bound), lowered(bound)) == (6, [5])
    other_way = bound.copy()
    for bar in fresh(9):
        for token in [BAR, *bar]:
            other_way.take(token, begins=token == BAR)
    assert lowered(other_way) == []
    assert (likeliest(bound), lowered(bound)) == (6, [5])
    # What may not come gets nothing of what the lowered one loses, and is not lowered itself.
    allowed[:100] = False
    allowed[5:10] = True
    scores = np.zeros(len(kinds))
    bound.bias(scores, allowed)
    assert (scores[~allowed] == 0).all()
    assert np.exp(scores[allowed]).sum() == pytest.approx(allowed.sum())
    allowed[5] = False
    assert lowered(bound) == []


def test_limits_are_what_nine_pieces_in_ten_keep_to_where_most_bars_are_no_such():
    said, pieces = [1, 2, 3, 4, 5], []
    for again in range(1, 11):
        bars = [*fresh(6), *[said] * again, *fresh(6)]
        ids = np.array([token for bar in bars for token in [BAR, *bar]] + [BAR])
        pieces.append((ids, np.flatnonzero(ids == BAR).tolist()))
    assert limits_of(pieces)[0] == 9
    often = np.array([BAR, *said] * 9 + [BAR])
    assert limits_of([(often, np.flatnonzero(often == BAR).tolist())]) == (None,) * len(DEGREES)


@pytest.mark.parametrize("name", LANGUAGES)
def test_bars_begin_with_the_same_tokens_in_a_prompt_as_in_what_is_written(name: str):
    """A prompt's are told by its language, the others by the grammar that they are written by."""
    spoken = language(name)
    ids = spoken.encode(spoken.arrange(read_midi(example("trio-jazz")))).ids.astype(np.int64)
    grammar, begun = spoken.grammar(), [0]
    for token in ids:
        grammar.advance(np.array([token]))
        begun.append(int(grammar.bars[0]))
    written = np.flatnonzero(np.diff(begun)).tolist()
    assert written[1:] == spoken.bars(ids).tolist()[1:]
    assert len(written) == 16


def test_limits_that_are_none_are_told():
    assert checked_limits(None, "circling") == ()
    fine = [None, *range(1, len(DEGREES))]
    assert checked_limits(fine, "circling") == (*fine,)
    for said in ([1, 2, 3], ["a"] * len(DEGREES), "no", 3):
        with pytest.raises(ValueError, match="circling"):
            checked_limits(said, "circling")
