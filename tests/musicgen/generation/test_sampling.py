"""Sampling over the whole vocabulary and by kind."""

from dataclasses import replace

import numpy as np
import pytest

from musicgen.generation.sampling import Kinds, Sampling, draw, probabilities
from tokenization.language import language

LOGITS = np.log(np.array([[0.5, 0.25, 0.15, 0.1], [0.1, 0.1, 0.2, 0.6]]))
V = 40
KINDS = np.random.default_rng(5).permutation(np.arange(V) % 5)


def test_temperature_sharpens_the_softmax():
    np.testing.assert_allclose(probabilities(LOGITS, Sampling()), np.exp(LOGITS), rtol=1e-12)
    sharp = np.exp(2 * LOGITS)
    found = probabilities(LOGITS, Sampling(temperature=0.5))
    np.testing.assert_allclose(found, sharp / sharp.sum(1, keepdims=True))
    for none in (0, 1e-300):
        found = probabilities(LOGITS, Sampling(temperature=none))
        np.testing.assert_array_equal(found, [[1, 0, 0, 0], [0, 0, 0, 1]])


@pytest.mark.parametrize(
    ("sampling", "kept"),
    [
        (Sampling(top_k=2), [[1, 1, 0, 0], [0, 0, 1, 1]]),
        (Sampling(top_k=9), [[1, 1, 1, 1], [1, 1, 1, 1]]),
        (Sampling(top_p=0.5), [[1, 0, 0, 0], [0, 0, 0, 1]]),
        (Sampling(top_p=0.7), [[1, 1, 0, 0], [0, 0, 1, 1]]),
        (Sampling(top_p=1e-9), [[1, 0, 0, 0], [0, 0, 0, 1]]),
        (Sampling(min_p=0.3), [[1, 1, 1, 0], [0, 0, 1, 1]]),
        (Sampling(min_p=1.0), [[1, 0, 0, 0], [0, 0, 0, 1]]),
        (Sampling(top_k=3, top_p=0.8), [[1, 1, 0, 0], [0, 0, 1, 1]]),
    ],
)
def test_limits_keep_the_most_probable_tokens_and_renormalise(sampling: Sampling, kept: list):
    chances = probabilities(LOGITS, sampling)
    expected = np.exp(LOGITS) * kept
    np.testing.assert_allclose(chances, expected / expected.sum(1, keepdims=True), atol=1e-12)


def test_a_mask_applies_before_the_limits_even_with_impossible_tokens():
    allowed = np.array([[False, True, True, True], [True, True, True, False]])
    chances = probabilities(LOGITS, Sampling(top_k=1), allowed)
    np.testing.assert_array_equal(chances, [[0, 1, 0, 0], [0, 0, 1, 0]])
    chances = probabilities(np.array([[0.0, -np.inf]]), Sampling(top_p=0.9, min_p=0.1))
    np.testing.assert_array_equal(chances, [[1, 0]])


def test_draws_follow_the_distribution_and_never_have_probability_zero():
    chances = probabilities(LOGITS, Sampling(top_k=3))[:1]
    uniforms = (np.arange(1000) + 0.5) / 1000
    tokens = draw(np.repeat(chances, 1000, axis=0), uniforms)
    np.testing.assert_allclose(np.bincount(tokens, minlength=4) / 1000, chances[0], atol=2e-3)
    for odd in ([0.0, 0.3, 0.7, 0.0], [0.0, 0.1 + 0.2, 0.4, 0.0]):
        for uniform in (0.0, 1 - 2**-53):
            assert odd[draw(np.array([odd]), np.array([uniform]))[0]] > 0


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"temperature": -1.0}, r"temperature is -1.0"),
        ({"temperature": float("nan")}, r"temperature is nan"),
        ({"top_k": 0}, r"top_k is 0"),
        ({"top_k": 2.5}, r"top_k is 2\.5; it must be a whole number"),
        ({"top_p": 0.0}, r"top_p is 0.0"),
        ({"guidance": 0.5}, r"guidance is 0.5"),
        ({"min_p": -0.1}, r"min_p is -0.1"),
    ],
)
def test_settings_out_of_range_are_refused(values: dict, message: str):
    with pytest.raises(ValueError, match=message):
        Sampling(**values)


@pytest.mark.parametrize(
    "how",
    [
        Sampling(temperature=0.6),
        Sampling(temperature=1.4, top_k=3),
        Sampling(temperature=0.8, top_p=0.95, min_p=0.05),
        Sampling(temperature=0.9, top_k=4, top_p=0.8, min_p=0.2),
    ],
    ids=str,
)
def test_sampling_by_kind_keeps_the_probability_of_kinds_and_samples_within_each(how: Sampling):
    random = np.random.default_rng(1)
    logits = random.normal(size=(6, V)) * 2
    allowed = random.random((6, V)) < 0.6
    allowed[0, KINDS == 2] = False  # a kind without an allowed token
    by_kind = replace(how, by_kind=True)
    found = probabilities(logits, by_kind, allowed, Kinds(KINDS))
    plain = probabilities(logits, Sampling(), allowed)
    for row in range(6):
        one = slice(row, row + 1)
        own = probabilities(logits[one], by_kind, allowed[one], Kinds(KINDS))
        np.testing.assert_array_equal(found[one], own)
        whole = np.bincount(KINDS, plain[row], minlength=5)
        whole[whole < how.min_p * whole.max()] = 0
        np.testing.assert_allclose(np.bincount(KINDS, found[row], minlength=5), whole / whole.sum())
        for kind in np.flatnonzero(whole):
            own = kind == KINDS
            alone = probabilities(logits[one, own], how, allowed[one, own])[0]
            np.testing.assert_allclose(found[row, own] / found[row, own].sum(), alone, atol=1e-12)


def test_near_temperature_0_the_most_probable_token_is_taken():
    logits = np.array([[0.0, 2.0, -1.0, 1.0], [3.0, -np.inf, -np.inf, 1.0]])
    kinds = Kinds(np.array([0, 0, 1, 1]))
    found = probabilities(logits, Sampling(temperature=0, by_kind=True), kinds=kinds)
    np.testing.assert_array_equal(found, [[0, 1, 0, 0], [1, 0, 0, 0]])
    found = probabilities(logits, Sampling(temperature=1e-300, by_kind=True), kinds=kinds)
    # The most probable token of each kind has the probability of the kind.
    chances = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    wanted = chances @ np.array([[1, 0], [1, 0], [0, 1], [0, 1]])
    np.testing.assert_allclose(found[:, [1, 3]][0], wanted[0])
    np.testing.assert_allclose(found[:, [0, 3]][1], wanted[1])


@pytest.mark.parametrize(("name", "count"), [("remi", 8), ("groove", 4), ("ensemble", 23)])
def test_every_token_has_a_kind_and_no_kind_mixes_families(name: str, count: int):
    spoken = language(name)
    kinds, names = spoken.kinds(), spoken.vocabulary.names
    assert kinds.shape == (len(names),)
    families: dict[int, set[str]] = {}
    blocks = spoken.vocabulary.blocks
    parts = blocks["part"].names if "part" in blocks else ()
    for kind, token in zip(kinds.tolist(), names, strict=True):
        if token in parts:  # named after instruments
            token = "part"
        families.setdefault(kind, set()).add(token.rstrip("0123456789").split("_")[0])
    special = {"padding", "begin", "end", "after", "before"}
    assert all(len(found - special) <= 1 for found in families.values())
    assert len(families) == count
