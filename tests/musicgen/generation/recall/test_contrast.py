"""New phrases are led to be as differently high as those of songs, and nothing else changes."""

from __future__ import annotations

from collections.abc import Iterable

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
from musicgen.generation.recall.phrases import NEW, UNIT, Phrasing
from musicgen.generation.recall.recalling import Recall, Recalling, read_habits
from tokenization.grammar import NoteTokens
from tokenization.language import LANGUAGES
from tokenization.language import language as language_of

BAR, PLACE = 0, 1
TOKENS = NoteTokens(
    pitch=np.where(np.arange(128) < 20, -1, np.arange(128)), moves=np.isin(np.arange(128), [0, 1])
)
STILL = Contrast(rise=0, keeps=0, spread=0, lowest=0, highest=127)
ALLOWED = np.ones(128, bool)
Said = Iterable[tuple[int, bool]]


def bar_of(*tops: int) -> Said:
    """Return a bar with such notes at the top, each above a low one, and which token begins it."""
    yield BAR, True
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
    one.take(BAR, True, True)
    return one


def chances(one: Leaning, allowed: np.ndarray = ALLOWED) -> np.ndarray:
    """Return what a model that knows nothing would draw from."""
    scores = np.zeros(128)
    one.apply(scores, allowed)
    return np.exp(scores) / 128


def test_a_height_is_that_of_most_tops_and_a_rest_has_none():
    heights = Heights(TOKENS)
    for token, begins in [
        *bar_of(60, 62, 64, 66, 90),
        *bar_of(),
        *bar_of(),
        *bar_of(),
        (BAR, True),
    ]:
        heights.take(token, begins)
    assert heights.over == [pytest.approx(np.percentile([60, 62, 64, 66, 90], 80))]
    assert heights.middle == pytest.approx((60 + 62 + 64 + 66 + 90 + 5 * 30) / 10)
    for token, begins in [*bar_of(60, 60), *[*bar_of()] * 4]:
        heights.take(token, begins)
    assert heights.over[1:] == [None]
    assert heights.known == heights.over[:1]


def test_what_is_led_goes_up_to_what_is_wanted_and_no_further():
    rising = Contrast(rise=12, keeps=0, spread=0, lowest=0, highest=127)
    led = chances(leaning(rising, 60, 60))
    assert led[72] > led[60] > led[46]
    np.testing.assert_allclose(led[72:], led[72])
    # Whether a high note comes stays the model's own, and so does all that is below the middle.
    assert led[46:].sum() == pytest.approx(82 / 128)
    np.testing.assert_allclose(led[:46], 1 / 128)


def test_what_is_led_down_leaves_what_is_above():
    falling = Contrast(rise=-12, keeps=0, spread=0, lowest=0, highest=127)
    led = chances(leaning(falling, 90, 90))
    assert led[61] == led[78] > led[84] > led[90]
    assert led[61:].sum() == pytest.approx(67 / 128)
    np.testing.assert_allclose(led[:61], 1 / 128)


def test_what_may_not_come_does_not_count():
    rising = Contrast(rise=12, keeps=0, spread=0, lowest=0, highest=127)
    allowed = ALLOWED & (np.arange(128) != 70)
    led = chances(leaning(rising, 60, 60), allowed)
    assert led[70] == 1 / 128
    assert led[46:][allowed[46:]].sum() == pytest.approx(81 / 128)
    none = ALLOWED & (np.arange(128) < 46)
    np.testing.assert_array_equal(chances(leaning(rising, 60, 60), none), 1 / 128)


def test_it_leads_more_the_longer_a_phrase_stays_away_and_nothing_within_a_return():
    one = leaning(Contrast(rise=4, keeps=0, spread=0, lowest=0, highest=127), 60, 60)
    before = chances(one)[64]
    for token, begins in [*bar_of(60, 60, 60), (BAR, True)][1:]:
        one.take(token, begins, True)
    assert chances(one)[64] > before
    one.take(BAR, True, False)
    np.testing.assert_array_equal(chances(one), 1 / 128)
    far = leaning(Contrast(rise=60, keeps=0, spread=0, lowest=0, highest=127), 60, 60)
    assert np.log(chances(far)[47] / chances(far)[46]) == pytest.approx(MOST)


def test_nothing_is_led_before_there_is_a_phrase_or_where_all_are_alike():
    np.testing.assert_array_equal(chances(leaning(STILL, 60, 60)), 1 / 128)
    rising = Contrast(rise=12, keeps=0, spread=0, lowest=0, highest=127)
    np.testing.assert_array_equal(chances(leaning(rising)), 1 / 128)


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


def test_the_same_seed_draws_the_same_and_another_one_something_else():
    wide = Contrast(rise=0, keeps=0, spread=8, lowest=0, highest=127)
    found = [chances(leaning(wide, 60, 60, seed=seed)) for seed in (1, 1, 2)]
    np.testing.assert_array_equal(found[0], found[1])
    assert (found[0] != found[2]).any()


def test_a_copy_goes_on_for_itself():
    one = leaning(Contrast(rise=4, keeps=0, spread=0, lowest=0, highest=127), 60, 60)
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
    rising = Contrast(rise=12, keeps=0, spread=0, lowest=0, highest=127)
    given = [*phrase_of(60), *phrase_of(60)]
    recall = Recall(
        weights=(0, 0, 0, 0),
        goals=frozenset({5}),
        bars=frozenset(place for place, (_, begins) in enumerate(given) if begins),
        phrasing=Phrasing(begin=0, stay=0, back=(0, 0, 1)),
        contrast=rising,
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


def test_what_a_card_says_is_read_and_what_is_wrong_is_told():
    contrast = {"rise": 0.2, "keeps": 0.5, "spread": 4.8, "lowest": 63, "highest": 87}
    said = {"recall": [1, 2, 3, 4.5], "contrast": contrast}
    habits = read_habits(said, "card")
    assert habits is not None
    assert habits.contrast == Contrast(rise=0.2, keeps=0.5, spread=4.8, lowest=63, highest=87)
    assert read_habits(habits.facts(), "card") == habits
    for wrong in (
        {"spread": -1},
        {"lowest": 90},
        {"rise": "up"},
        {"more": 1},
        {"keeps": float("nan")},
    ):
        with pytest.raises(ValueError, match="card: contrast"):
            read_habits(said | {"contrast": {**contrast, **wrong}}, "card")


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
