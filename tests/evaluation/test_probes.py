"""Translation invariance and monotonicity of encodings: the authors' numbers, and what encodings are known to be."""

from pathlib import Path

import numpy as np
import pytest
import torch

from evaluation import attention
from evaluation.attention import sides_of
from evaluation.probes import (
    Range,
    best_heads,
    encoding_alone,
    farther_above_nearer,
    local_ranges,
    monotonicity,
    paper_ranges,
    probe,
    translation_invariance,
)
from musicgen.metre.clock import Clock
from tests.musicgen.toys import MUSICAL, VOCABULARY, toy_model

GOLDEN = np.load(Path(__file__).parent.parent / "golden" / "position_probes.npz")
RANGES = [Range(start=0, stop=16, offset=8), Range(start=16, stop=48, offset=12)]


def band_of(attention: np.ndarray, offset: int) -> np.ndarray:
    """Return the band of a whole map, (queries, keys) → (queries, offset + 1)."""
    query, lag = np.arange(len(attention))[:, None], np.arange(offset + 1)
    found = attention[query, np.maximum(query - lag, 0)]
    return np.where(lag <= query, found, np.nan)


def test_both_metrics_are_those_of_the_authors():
    for start, stop, offset, invariance, falls in GOLDEN["cases"].tolist():
        where = Range(start=int(start), stop=int(stop), offset=int(offset))
        for wider in (0, 40):  # a wider band changes nothing
            band = band_of(GOLDEN["attention"], where.offset + wider)
            assert translation_invariance(band, where) == pytest.approx(invariance, abs=1e-6)
            found = monotonicity(farther_above_nearer(band), where)
            assert found == pytest.approx(falls, abs=1e-9)


def test_weights_of_the_offset_alone_are_invariant_and_falling_ones_monotonic():
    lag = np.subtract.outer(np.arange(30), np.arange(30))
    falling, rising = (band_of(np.exp(sign * lag / 9), 20) for sign in (-1, 1))
    where = Range(start=0, stop=30, offset=20)
    assert translation_invariance(falling, where) == pytest.approx(0, abs=1e-12)
    assert monotonicity(farther_above_nearer(falling), where) == 0
    assert monotonicity(farther_above_nearer(rising), where) == 1
    lag = np.subtract.outer(np.arange(400), np.arange(400))
    peak = band_of(np.exp(-np.minimum(lag, 300) / 2.0), 200)  # of many orders
    assert translation_invariance(peak, Range(start=200, stop=400, offset=200)) == pytest.approx(0)


def test_a_few_weights_that_differ_are_no_position():
    where, even = Range(start=128, stop=400, offset=127), np.full((400, 128), 0.3)
    for lags, known in ((0, False), (1, False), (3, True)):
        band = even.copy()
        band[:, :lags] = 0.5
        assert (translation_invariance(band, where) is not None) == known
    rounded = even * np.random.default_rng(0).uniform(1 - 3e-6, 1 + 3e-6, even.shape)
    assert translation_invariance(rounded, where) is None


def test_ranges_of_the_papers_length_are_the_papers():
    assert [(r.start, r.stop, r.offset) for r in paper_ranges(2048)] == [
        (a, b, offset)
        for a, b in ((0, 1024), (1024, 2048), (2048, 2560))
        for offset in (128, 512, 1024)
    ]
    figure = local_ranges(2048)
    assert (figure[0].stop, figure[-1].stop, {r.offset for r in figure}) == (256, 2560, {128})


@pytest.mark.parametrize("position", ["sine_spe", "permuteformer"])
def test_probing_averages_the_maps_of_all_tokens(position: str):
    model = toy_model(position=position)
    tokens = list(range(VOCABULARY))
    rows = probe(model, RANGES, tokens, seed=2)
    total = np.zeros((2, 48, 48))
    for number, token in enumerate(tokens):
        sides = sides_of(model, torch.full((48,), token), [0], 2 + number)[0]
        products = sides.products(slice(0, 48), slice(0, 48)).double()
        total += (products.exp() if sides.exponential else products).numpy()
    for row in rows:
        where = Range(**{key: row[key] for key in ("start", "stop", "offset")})
        band = band_of(total[row["head"]], where.offset)
        invariance = translation_invariance(band, where)
        falls = monotonicity(farther_above_nearer(band), where)
        assert row["translation"] == pytest.approx(invariance, rel=1e-3, abs=1e-6)
        assert row["monotonicity"] == pytest.approx(falls, abs=2e-3)
        assert row["translation_error"] >= 0


def test_relative_encodings_are_invariant_and_absolute_ones_are_not():
    def invariance(position: str) -> float:
        best = best_heads(probe(toy_model(position=position), RANGES, range(VOCABULARY)))
        return max(row["translation"] for row in best)

    assert invariance("permuteformer") < 1e-6
    assert invariance("rope") < 1e-6
    assert invariance("absolute") > 0.1


@pytest.mark.parametrize("position", ["none", "rope", "sine_spe"])
@pytest.mark.parametrize("features", ["favor", "relu"])
def test_horizons_are_none_of_an_encodings_properties(position: str, features: str):
    plain, with_horizons = (
        probe(toy_model(position=position, features=features, horizons=horizons), RANGES, range(5))
        for horizons in (None, (2, 20))
    )
    assert with_horizons == plain
    for metric in ("translation", "monotonicity"):
        assert {row[metric] is None for row in plain} == {position == "none"}
    assert (best_heads(plain)[0]["translation"] is None) == (position == "none")


def test_the_decay_of_an_encoding_is_probed_and_horizons_in_its_place_are_not():
    def falls(horizons: tuple[float, float] | None, **settings: bool) -> list:
        position = {"name": "permuteformer", **settings}
        rows = probe(toy_model(position=position, horizons=horizons), RANGES, range(4))
        return [row["monotonicity"] for row in rows]

    assert falls(None, with_permutation=False) == [0] * 4
    assert falls((2, 20), with_permutation=False) == [None] * 4
    assert falls((2, 20)) == falls(None, with_decay=False)


@pytest.mark.parametrize("name", MUSICAL)
def test_an_encoding_in_musical_time_is_probed_as_time_goes_on(name: str, monkeypatch):
    """As by a token that takes a sixteenth."""
    position = {"name": name, "time": "music"}
    rows = probe(toy_model(position=position), RANGES, range(VOCABULARY))
    assert all(row["translation"] is not None for row in rows)
    if name in ("rope", "permuteformer"):
        assert max(row["translation"] for row in best_heads(rows)) < 1e-6
    monkeypatch.setattr(attention, "WINDOW", 8)
    sixteenths = Clock(bar_ticks=48, step_ticks=3, moves=((0, 1, 0),))
    model, ids = toy_model(position=position, clock=sixteenths), torch.zeros(21).long()
    found, expected = encoding_alone(model, ids, 7), sides_of(model, ids, [0], 7)[0]
    torch.testing.assert_close((found.q, found.k), (expected.q, expected.k))
    still = encoding_alone(model, ids + 5, 7)
    assert (still.q[:, 1:] - still.q[:, :-1]).abs().amax() > 1e-3


def test_the_best_head_is_the_lowest_by_metric():
    common = {"start": 0, "stop": 9, "offset": 3, "tokens": 5}
    common |= {"translation_error": 0.1, "monotonicity_error": None}
    rows = [
        {**common, "head": 0, "translation": 0.4, "monotonicity": 0.1},
        {**common, "head": 1, "translation": 0.2, "monotonicity": 0.3},
    ]
    (best,) = best_heads(rows)
    assert (best["translation"], best["translation_head"]) == (0.2, 1)
    assert (best["monotonicity"], best["monotonicity_head"]) == (0.1, 0)
