"""Sampling over the whole vocabulary and by kind: the kernel draws what the reference draws."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from musicgen.generation.sampling import Draws, Kinds, Sampling
from musicgen.kernel.host import tools
from tests.musicgen.generation.reference import draw, probabilities
from tokenization.language import language

LOGITS = np.log(np.array([[0.5, 0.25, 0.15, 0.1], [0.1, 0.1, 0.2, 0.6]])).astype(np.float32)
V = 40
KINDS = np.random.default_rng(5).permutation(np.arange(V) % 5)
NOTHING_ALLOWED, NOT_FINITE = -1, -2


def drawn(
    logits: np.ndarray, uniforms: Any, sampling: Sampling, *, allowed: Any = True, kinds: Kinds | None = None,
    unguided: np.ndarray | None = None, added: Any = 0, limits: Any = None,
) -> np.ndarray:  # fmt: skip
    """Return what the kernel draws: (B, V), (B,) → (B,)."""
    bias = np.where(allowed, np.broadcast_to(np.float32(added), logits.shape), np.float32(-np.inf))
    placed = [tools().place(row.astype(np.float32)) for row in logits]
    without = (
        [] if unguided is None else [tools().place(row.astype(np.float32)) for row in unguided]
    )
    draws = Draws(tools(), logits.shape[1], sampling, kinds)
    twins = [span.address for span in without] or [0] * len(logits)
    at = [span.address for span in placed]
    return draws.draw(at, twins, bias, np.asarray(uniforms), limits)


def shares(logits: np.ndarray, sampling: Sampling, **more: Any) -> np.ndarray:
    """Return how often the kernel draws each token at 2,000 evenly spread numbers: (B, V) → (B, V)."""
    uniforms = np.tile((np.arange(2000) + 0.5) / 2000, len(logits))
    tokens = drawn(np.repeat(logits, 2000, axis=0), uniforms, sampling, **more)
    counts = [np.bincount(row, minlength=logits.shape[1]) for row in tokens.reshape(-1, 2000)]
    return np.array(counts) / 2000


SETTINGS = [
    Sampling(),
    Sampling(temperature=0),
    Sampling(temperature=1e-300),
    Sampling(temperature=0.05),
    Sampling(temperature=2.0, top_k=7),
    Sampling(temperature=0.7, top_p=0.731),
    Sampling(temperature=1.3, min_p=0.083),
    Sampling(temperature=0.9, top_k=4, top_p=0.813, min_p=0.217),
    Sampling(top_k=V + 5, top_p=0.0517, min_p=1.0),
]


@pytest.mark.parametrize("by_kind", [False, True, "untouched"])
@pytest.mark.parametrize("guided", [False, True])
@pytest.mark.parametrize("sampling", SETTINGS, ids=str)
def test_the_kernel_draws_the_tokens_of_the_reference(
    sampling: Sampling, guided: bool, by_kind: Any
):
    """Of rows that are flat, uneven, extreme or full of ties, with a mask and a bias each."""
    random, rows = np.random.default_rng(7), 400
    sampling = replace(sampling, by_kind=bool(by_kind), guidance=2.7)
    kinds = Kinds(KINDS, untouched=[3] if by_kind == "untouched" else ())
    logits = random.normal(size=(rows, V)) * random.choice([0.1, 2, 8, 300], (rows, 1))
    logits[::4] = np.round(logits[::4])
    logits, unguided = logits.astype(np.float32), random.normal(size=(rows, V)).astype(np.float32)
    allowed = random.random((rows, V)) < random.choice([0.1, 0.5, 1.1], (rows, 1))
    allowed[np.arange(rows), random.integers(V, size=rows)] = True
    allowed[:50, KINDS == 2] = False
    allowed[:50, 0] = True
    added = np.where(random.random((rows, V)) < 0.1, np.float32(-3.25), np.float32(0))
    uniforms = random.random(rows)
    uniforms[::20], uniforms[1::20] = 0, 1 - 2**-53
    twins = unguided if guided else None
    found = drawn(
        logits, uniforms, sampling, allowed=allowed, kinds=kinds, unguided=twins, added=added
    )
    scores = logits + np.float32(1.7) * (logits - unguided) if guided else logits
    near = 0
    for row, uniform in enumerate(uniforms):
        chances = probabilities(scores[row] + added[row], sampling, allowed[row], kinds)
        gap = np.abs(chances.cumsum() - uniform)[chances > 0].min()
        if gap < 1e-9 and uniform:
            near += row % 20 > 1
        else:
            assert found[row] == draw(chances, uniform), row
        assert chances[found[row]] > 0
    assert near <= 2


def test_min_p_has_a_factor_in_each_row():
    last = np.full(3, 1 - 2**-53)  # draws the last token that is possible
    found = drawn(LOGITS[[0, 0, 0]], last, Sampling(min_p=0.6), limits=np.array([1, 0.5, 0]))
    least = [1, 0.5, 0]
    chances = np.exp(LOGITS[0] - LOGITS[0].max())
    assert found.tolist() == [np.flatnonzero(chances >= 0.6 * one)[-1] for one in least]
    assert len({*found.tolist()}) == len(least)


def test_temperature_sharpens_the_softmax():
    np.testing.assert_allclose(shares(LOGITS, Sampling()), np.exp(LOGITS), atol=1e-3)
    sharp = np.exp(2 * LOGITS)
    found = shares(LOGITS, Sampling(temperature=0.5))
    np.testing.assert_allclose(found, sharp / sharp.sum(1, keepdims=True), atol=1e-3)
    for none in (0, 1e-300):
        found = shares(LOGITS, Sampling(temperature=none))
        np.testing.assert_array_equal(found, [[1, 0, 0, 0], [0, 0, 0, 1]])


@pytest.mark.parametrize(
    ("sampling", "kept"),
    [
        (Sampling(top_k=2), [[1, 1, 0, 0], [0, 0, 1, 1]]),
        (Sampling(top_k=9), [[1, 1, 1, 1], [1, 1, 1, 1]]),
        (Sampling(top_p=0.49), [[1, 0, 0, 0], [0, 0, 0, 1]]),
        (Sampling(top_p=0.7), [[1, 1, 0, 0], [0, 0, 1, 1]]),
        (Sampling(top_p=1e-9), [[1, 0, 0, 0], [0, 0, 0, 1]]),
        (Sampling(min_p=0.299), [[1, 1, 1, 0], [0, 0, 1, 1]]),
        (Sampling(min_p=1.0), [[1, 0, 0, 0], [0, 0, 0, 1]]),
        (Sampling(top_k=3, top_p=0.8), [[1, 1, 0, 0], [0, 0, 1, 1]]),
        (Sampling(top_k=3), [[1, 1, 1, 0], [1, 1, 1, 1]]),  # ties with the third are kept
    ],
)
def test_limits_keep_the_most_probable_tokens_and_renormalise(sampling: Sampling, kept: list):
    expected = np.exp(LOGITS) * kept
    found = shares(LOGITS, sampling)
    np.testing.assert_array_equal(found > 0, np.array(kept, bool))
    np.testing.assert_allclose(found, expected / expected.sum(1, keepdims=True), atol=1e-3)


def test_a_mask_applies_before_the_limits():
    allowed = np.array([[False, True, True, True], [True, True, True, False]])
    for row, wanted in ((0, [0, 1, 0, 0]), (1, [0, 0, 1, 0])):
        found = shares(LOGITS[row : row + 1], Sampling(top_k=1), allowed=allowed[row])
        np.testing.assert_array_equal(found, [wanted])


def test_a_token_without_probability_is_never_drawn():
    for odd in ([0.0, 0.3, 0.7, 0.0], [0.0, 0.1 + 0.2, 0.4, 0.0]):
        with np.errstate(divide="ignore"):
            logits = np.log(np.array([odd]))
        for uniform in (0.0, 1 - 2**-53):
            allowed = np.array([odd]) > 0
            assert (
                odd[drawn(np.where(allowed, logits, 0), [uniform], Sampling(), allowed=allowed)[0]]
                > 0
            )


@pytest.mark.parametrize("temperature", [0, 1])
def test_nothing_allowed_and_logits_that_are_not_finite_are_reported(temperature: float):
    sampling, kinds = Sampling(temperature=temperature, by_kind=True), Kinds(KINDS)
    logits = np.zeros((4, V), np.float32)
    allowed = np.arange(V) < 9
    twins = logits.copy()
    for row, damage in enumerate((np.nan, np.inf, -np.inf)):
        logits[row, V - 1] = damage  # also where it is not allowed
        found = drawn(logits, np.full(4, 0.5), sampling, allowed=allowed, kinds=kinds)
        np.testing.assert_array_equal(found < 0, np.arange(4) <= row)
        assert (found[: row + 1] == NOT_FINITE).all()
        twins[3] = logits[row]
        found = drawn(np.zeros((4, V)), np.full(4, 0.5), sampling, unguided=twins, kinds=kinds)
        assert (found[:3] >= 0).all()
        assert found[3] == NOT_FINITE
    rows = np.arange(4)[:, None] != 2
    found = drawn(np.zeros((4, V)), np.full(4, 0.5), sampling, allowed=rows & allowed, kinds=kinds)
    np.testing.assert_array_equal(found < 0, [False, False, True, False])
    assert found[2] == NOTHING_ALLOWED


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
    found = shares(
        logits, replace(how, by_kind=True), allowed=np.repeat(allowed, 2000, 0), kinds=Kinds(KINDS)
    )
    for row in range(6):
        plain = probabilities(logits[row], Sampling(), allowed[row])
        whole = np.bincount(KINDS, plain, minlength=5)
        whole[whole < how.min_p * whole.max()] = 0
        given = np.bincount(KINDS, found[row], minlength=5)
        np.testing.assert_allclose(given, whole / whole.sum(), atol=2e-3)
        for kind in np.flatnonzero(whole):
            own = kind == KINDS
            alone = probabilities(logits[row, own], how, allowed[row, own])
            assert not (found[row, own] > 0)[alone == 0].any()
            np.testing.assert_allclose(found[row, own], alone * given[kind], atol=2e-3)


def test_near_temperature_0_the_most_probable_token_of_each_kind_is_taken():
    logits, allowed = np.array([[0.0, 2.0, -1.0, 1.0]]), np.array([True, True, False, True])
    kinds = Kinds(np.array([0, 0, 1, 1]))
    found = shares(logits, Sampling(temperature=0, by_kind=True), kinds=kinds)
    np.testing.assert_array_equal(found, [[0, 1, 0, 0]])
    for mask in (True, allowed):
        found = shares(
            logits, Sampling(temperature=1e-300, by_kind=True), kinds=kinds, allowed=mask
        )[0]
        chances = probabilities(logits[0], Sampling(), mask)
        assert found[0] == found[2] == 0
        np.testing.assert_allclose(found[[1, 3]], chances.reshape(2, 2).sum(1), atol=1e-3)


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
