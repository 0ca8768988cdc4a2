"""What a sequence recalls is what followed the same tokens in it before; it is mixed in as far as it is trusted."""

from __future__ import annotations

import math

import numpy as np
import pytest

from musicgen.generation.recall.memory import (
    MANY,
    NEAR,
    ORDER,
    Memory,
    checked_weights,
    guesses,
    share,
    with_recall,
)
from musicgen.generation.recall.recalling import Recall, Recalling, read_habits
from musicgen.generation.request import Request, Stop
from tests.musicgen.generation.generate import written
from tests.musicgen.toys import toy_model, toy_tokens

SURE = (30.0, 0.0, 0.0, 0.0)  # λ = 1 wherever something is recalled
EVEN = (0.0, 0.0, 0.0, 0.0)  # λ = ½
AGAIN = [1, 2, 3, 4, 0, 1, 2, 3, 4]  # and then 0


def looked_up(ids: list[int]) -> tuple[dict[int, float], int] | None:
    """Return the same by comparing every place: what may come, and the longest match."""
    lengths = {}
    for place in range(1, len(ids)):
        n = 0
        while n < place and ids[place - 1 - n] == ids[-1 - n]:
            n += 1
        if n >= ORDER:
            lengths[place] = n
    lengths = dict(sorted(lengths.items(), key=lambda item: item[::-1])[-MANY:])
    if not lengths:
        return None
    longest = max(lengths.values())
    weights: dict[int, float] = {}
    for place, n in lengths.items():
        if n >= longest - NEAR:
            weights[ids[place]] = weights.get(ids[place], 0) + 2.0 ** (n - longest)
    return {token: w / sum(weights.values()) for token, w in weights.items()}, longest


def guess_of(memory: Memory) -> tuple[dict[int, float], int] | None:
    """Return what may come, and the longest match."""
    guess = memory.guess()
    return None if guess is None else (guess.chances, guess.length)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("alphabet", [1, 2, 3, 6])
def test_a_guess_is_what_comparing_every_place_finds(alphabet: int, seed: int):
    random = np.random.default_rng([alphabet, seed])
    motif = random.integers(alphabet, size=25).tolist()
    ids = random.integers(alphabet, size=30).tolist() + motif
    ids += random.integers(alphabet, size=20).tolist() + motif[:15]
    memory = Memory()
    for stop, token in enumerate(ids, 1):
        memory.take(token)
        guess, wanted = memory.guess(), looked_up(ids[:stop])
        if wanted is None or guess is None:
            assert guess is wanted
            continue
        assert guess.chances == pytest.approx(wanted[0])
        assert guess.length == wanted[1]
        assert guess.agreement == max(guess.chances.values())


def test_a_phrase_that_comes_again_is_known_from_its_fourth_token():
    phrase = [3, 1, 4, 1, 5, 9, 2, 6]
    guessed, lengths, agreements = guesses(np.array([*phrase, 7, *phrase, 8]))
    again = len(phrase) + ORDER  # the place of the first token that can be guessed, less one
    assert guessed[:again].tolist() == [0] * again
    assert guessed[again : again + 4].tolist() == [1] * 4
    assert lengths[again : again + 4].tolist() == [4, 5, 6, 7]
    assert guessed[-1] == 0  # 8 stands where 7 was
    assert (agreements[again:] == 1).all()


def test_a_copy_goes_on_for_itself():
    memory = Memory(AGAIN)
    other = memory.copy()
    other.take(9)
    assert guess_of(other) is None
    assert guess_of(memory) == ({0: 1.0}, 4)


def test_a_token_costs_as_much_at_any_place():
    memory = Memory([1, 1, 2, 1] * 500)
    assert len(memory._matches) == MANY
    assert len(memory._latest) <= 4


def test_a_place_is_followed_as_long_as_what_stands_there_is_said():
    memory = Memory([1, 2, 3, 4, 5, 6, 7])
    memory.go_back(2, 20)
    assert guess_of(memory) == ({3: 1.0}, 20)
    memory.take(3)
    assert guess_of(memory) == ({4: 1.0}, 21)
    memory.take(9)
    assert guess_of(memory) is None


def test_what_was_passed_over_is_followed_from_there_on():
    memory = Memory([1, 2, 3, 4, 5, 6, 7])
    memory.go_back(1, 20)
    memory.pass_over(~np.isin(np.arange(9), [2, 3]))
    memory.take(4)
    assert guess_of(memory) == ({5: 1.0}, 21)
    memory.take(8)
    memory.pass_over(np.arange(9) == 7)  # it was left, so that nothing is looked for
    assert guess_of(memory) is None


def test_a_return_that_gives_way_to_longer_matches_is_over():
    memory = Memory([1, 2, 3, 7, 7, 9, *[7] * 200])
    memory.go_back(3, 5)
    memory.take(7)  # MANY places are followed after longer stretches
    memory.pass_over(np.arange(10) == 9)
    guess = memory.guess()
    assert guess is not None
    assert guess.chances == {7: 1.0}


def mixed(row: Recalling, chances: np.ndarray, allowed: np.ndarray | None = None) -> np.ndarray:
    """Return chances with what a row recalls."""
    row.mix(chances, np.ones(len(chances), bool) if allowed is None else allowed)
    return chances


def told(recall: Recall, tokens: list[int]) -> Recalling:
    """Return a row that was given nothing and has written such tokens."""
    row = Recalling(recall)
    for token in tokens:
        row.take(token)
    return row


def test_what_is_recalled_is_mixed_in_as_far_as_it_is_trusted():
    chances = mixed(Recalling(Recall(weights=EVEN), AGAIN), np.full(6, 1 / 6))
    np.testing.assert_allclose(chances, [7 / 12, *[1 / 12] * 5])
    chances = mixed(Recalling(Recall(weights=EVEN, strength=0.5), AGAIN), np.full(6, 1 / 6))
    np.testing.assert_allclose(chances, [1 / 3 + 1 / 9, *[1 / 9] * 5])


def test_what_may_not_come_is_not_recalled():
    allowed = np.array([False, True, True, False, False, False])
    chances = mixed(Recalling(Recall(weights=SURE), AGAIN), allowed / 2, allowed)
    np.testing.assert_array_equal(chances, allowed / 2)
    allowed[5] = True
    ambiguous = Recalling(Recall(weights=SURE), [*AGAIN, 5, 1, 2, 3, 4])
    chances = mixed(ambiguous, allowed / 3, allowed)
    assert chances[5] > 0.6
    assert chances[0] == 0
    assert chances.sum() == pytest.approx(1)


def test_it_rests_from_a_goal_on():
    row = told(Recall(weights=SURE, goals=frozenset({9})), [1, 2, 3, 4, 0, 9, 1, 2, 3, 4])
    np.testing.assert_array_equal(mixed(row, np.full(10, 0.1)), np.full(10, 0.1))


def test_it_passes_over_what_stands_around_a_gap_and_knows_what_is_elsewhere():
    recall = Recall(weights=SURE, passing=frozenset({8, 9}), elsewhere=(1, 2, 3, 4, 0, 5))
    row = told(recall, [8, 1, 2, 9, 3, 4])
    chances = mixed(row.copy(), np.full(10, 0.1))
    np.testing.assert_allclose(chances, np.eye(10)[0], atol=1e-9)
    ids = np.array([8, 1, 2, 9, 3, 4, 9, 0, 5])
    guessed, _, _ = guesses(ids, recall.passing, recall.elsewhere)
    assert guessed.tolist() == [0, 0, 0, 0, 0, 0, 1, 1]


def test_what_is_to_be_replaced_is_no_guess():
    """After 1 2 3 4 the piece says 0 twice and 5 once; the bars to be replaced said 0 there."""
    heard = [1, 2, 3, 4, 0, 7, 1, 2, 3, 4, 5, 8, 1, 2, 3, 4, 0, 9, 1, 2, 3, 4]
    for unlike, guessed in (((), 0), ((1, 2, 3, 4, 0), 5), ((2, 3, 4, 0), 0)):
        row = told(Recall(weights=SURE, unlike=unlike), heard)
        assert mixed(row.copy(), np.full(10, 0.1)).argmax() == guessed
    row = told(Recall(weights=SURE, unlike=(1, 2, 3, 4, 0, 6, 1, 2, 3, 4, 5)), heard)
    # All that is known is to be replaced.
    np.testing.assert_array_equal(mixed(row, np.full(10, 0.1)), np.full(10, 0.1))


def test_losses_are_those_of_the_mixture():
    losses = np.full(10, math.log(8))
    mixture = with_recall(losses, np.array([*AGAIN, 0, 2]), EVEN)
    np.testing.assert_allclose(mixture[:8], losses[:8])
    np.testing.assert_allclose(np.exp(-mixture[8:]), [(1 / 8 + 1) / 2, (1 / 8) / 2])


def test_longer_and_clearer_matches_are_trusted_more():
    weights = (-4.7, 1.15, 1.3, 0.1)
    trusted = [share(weights, n, s) for n in (4, 8, 32, 512, 9999) for s in (0.3, 1.0)]
    assert sorted(trusted[0::2]) == trusted[0::2]
    assert all(low < high for low, high in zip(trusted[0::2], trusted[1::2], strict=True))
    assert trusted[-1] == trusted[-3]  # n counts up to LONGEST
    assert min(trusted) > 0
    assert max(trusted) < 1


def test_weights_that_are_none_are_refused():
    assert checked_weights(None, "recall") is None
    assert checked_weights([1, 2, 3, 4.5], "recall") == (1, 2, 3, 4.5)
    for said, message in (([1, 2, 3], "four numbers"), ([1, 2, 3, math.inf], "inf"), ("no", "rec")):
        with pytest.raises(ValueError, match=message):
            checked_weights(said, "recall")


def test_what_a_card_says_is_read_and_what_it_says_beside_is_left():
    said = {"recall": [1, 2, 3, 4.5], "circling": [5, 4, 8, None, 12, 8]}
    habits = read_habits({**said, "phrasing": {"begin": 0.3}}, "card")
    assert habits is not None
    assert habits.facts() == said
    assert read_habits({}, "card") is None
    with pytest.raises(ValueError, match="card: circling"):
        read_habits({**said, "circling": [1]}, "card")


def test_generation_goes_on_as_the_piece_did_before():
    phrase = toy_tokens(1, 20, seed=5)[0].numpy()
    prompt = np.concatenate([phrase, [0], phrase[:10]])

    def run(variations: int, recall: Recall | None) -> np.ndarray:
        asked = Request(variations=variations, seed=1, stop=Stop(tokens=60), recall=recall)
        return written(toy_model(position="sine_spe"), prompt, asked)

    assert (run(3, Recall(weights=SURE))[:, :10] == phrase[10:]).all()
    assert not (run(3, None)[:, :10] == phrase[10:]).all()
