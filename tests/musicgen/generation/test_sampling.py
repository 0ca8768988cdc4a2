"""Logits to tokens."""

from __future__ import annotations

import numpy as np
import pytest

from musicgen.generation.sampling import Sampling, draw, probabilities

LOGITS = np.log(np.array([[0.5, 0.25, 0.15, 0.1], [0.1, 0.1, 0.2, 0.6]]))


def test_without_limits_it_is_the_softmax() -> None:
    np.testing.assert_allclose(probabilities(LOGITS, Sampling()), np.exp(LOGITS), rtol=1e-12)


def test_temperature_sharpens() -> None:
    chances = probabilities(LOGITS, Sampling(temperature=0.5))
    np.testing.assert_allclose(
        chances, np.exp(2 * LOGITS) / np.exp(2 * LOGITS).sum(1, keepdims=True)
    )


@pytest.mark.parametrize("temperature", [0, 1e-300])
def test_temperature_zero_takes_the_likeliest(temperature: float) -> None:
    chances = probabilities(LOGITS, Sampling(temperature=temperature))
    np.testing.assert_array_equal(chances, [[1, 0, 0, 0], [0, 0, 0, 1]])


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
def test_limits_keep_the_likeliest_and_renormalise(sampling: Sampling, kept: list) -> None:
    chances = probabilities(LOGITS, sampling)
    expected = np.exp(LOGITS) * kept
    np.testing.assert_allclose(chances, expected / expected.sum(1, keepdims=True), atol=1e-12)


def test_a_mask_comes_before_the_limits() -> None:
    allowed = np.array([[False, True, True, True], [True, True, True, False]])
    chances = probabilities(LOGITS, Sampling(top_k=1), allowed)
    np.testing.assert_array_equal(chances, [[0, 1, 0, 0], [0, 0, 1, 0]])


def test_infinitely_unlikely_tokens_are_no_fault() -> None:
    chances = probabilities(np.array([[0.0, -np.inf]]), Sampling(top_p=0.9, min_p=0.1))
    np.testing.assert_array_equal(chances, [[1, 0]])


def test_draws_follow_the_distribution() -> None:
    chances = probabilities(LOGITS, Sampling(top_k=3))[:1]
    uniforms = (np.arange(1000) + 0.5) / 1000
    tokens = draw(np.repeat(chances, 1000, axis=0), uniforms)
    np.testing.assert_allclose(np.bincount(tokens, minlength=4) / 1000, chances[0], atol=2e-3)


@pytest.mark.parametrize("chances", [[0.0, 0.3, 0.7, 0.0], [0.0, 0.1 + 0.2, 0.4, 0.0]])
@pytest.mark.parametrize("uniform", [0.0, 1 - 2**-53])
def test_a_draw_is_never_impossible(chances: list[float], uniform: float) -> None:
    token = draw(np.array([chances]), np.array([uniform]))[0]
    assert chances[token] > 0


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"temperature": -1.0}, r"temperature is -1.0"),
        ({"temperature": float("nan")}, r"temperature is nan"),
        ({"top_k": 0}, r"top_k is 0"),
        ({"top_k": 2.5}, r"top_k is 2\.5, where a whole number is wanted"),
        ({"top_p": 0.0}, r"top_p is 0.0"),
        ({"top_p": 1.1}, r"top_p is 1.1"),
        ({"min_p": -0.1}, r"min_p is -0.1"),
    ],
)
def test_settings_out_of_range_are_named(values: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Sampling(**values)
