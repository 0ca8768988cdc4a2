"""Translation invariance and monotonicity: the numbers of the authors' code, and known properties of encodings."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from evaluation.attention import sides_of
from evaluation.study import positions as probes
from musicgen.parts import Clock
from tests.musicgen.toys import MUSICAL, VOCABULARY, toy_model

GOLDEN = np.load(Path(__file__).parents[2] / "golden" / "position_probes.npz")
RANGES = [probes.Range(start=0, stop=16, offset=8), probes.Range(start=16, stop=48, offset=12)]


def band_of(attention: np.ndarray, offset: int) -> np.ndarray:
    """Return the band of a whole map, (queries, keys) → (queries, offset + 1)."""
    query, lag = np.arange(len(attention))[:, None], np.arange(offset + 1)
    found = attention[query, np.maximum(query - lag, 0)]
    return np.where(lag <= query, found, np.nan)


def both(band: np.ndarray, span: probes.Range) -> tuple[float | None, float | None]:
    inside = band[span.start : span.stop, : span.offset + 1]
    return probes.translation_invariance(inside), probes.monotonicity(inside)


def test_both_metrics_match_the_authors_code():
    for start, stop, offset, *expected in GOLDEN["cases"].tolist():
        span = probes.Range(start=int(start), stop=int(stop), offset=int(offset))
        for wider in (0, 40):  # a wider band changes nothing
            found = both(band_of(GOLDEN["attention"], span.offset + wider), span)
            assert found[0] == pytest.approx(expected[0], abs=1e-6)
            assert found[1] == pytest.approx(expected[1], abs=1e-9)


def test_a_few_differing_weights_carry_no_position_but_a_sharp_peak_does():
    span, even = probes.Range(start=128, stop=400, offset=127), np.full((400, 128), 0.3)
    assert both(even, span) == (None, 0)
    for lags, known in ((1, False), (3, True)):
        band = even.copy()
        band[:, :lags] = 0.5
        assert (both(band, span)[0] is not None) == known
    rounded = even * np.random.default_rng(0).uniform(1 - 3e-6, 1 + 3e-6, even.shape)
    assert both(rounded, span)[0] is None
    lag = np.subtract.outer(np.arange(400), np.arange(400))
    peak = band_of(np.exp(-np.minimum(lag, 300) / 2.0), 200)
    assert both(peak, probes.Range(start=200, stop=400, offset=200))[0] == pytest.approx(0)


def test_ranges_at_the_papers_length_are_the_papers():
    assert [(r.start, r.stop, r.offset) for r in probes.paper_ranges(2048)] == [
        (a, b, offset)
        for a, b in ((0, 1024), (1024, 2048), (2048, 2560))
        for offset in (128, 512, 1024)
    ]
    figure = probes.local_ranges(2048)
    assert (figure[0].stop, figure[-1].stop, {r.offset for r in figure}) == (256, 2560, {128})


@pytest.mark.parametrize("position", ["sine_spe", "permuteformer"])
def test_probing_averages_the_maps_of_all_tokens(position: str):
    model = toy_model(position=position)
    total = np.zeros((2, 48, 48))
    for token in range(VOCABULARY):
        sides = sides_of(model, torch.full((48,), token), [0], 2 + token)[0]
        products = sides.products(torch.arange(48)).double()
        total += (products.exp() if sides.exponential else products).numpy()
    row: Any
    for row in probes.probe(model, RANGES, range(VOCABULARY), seed=2):
        span = probes.Range(**{key: row[key] for key in ("start", "stop", "offset")})
        invariance, monotonic = both(band_of(total[row["head"]], span.offset), span)
        assert row["translation"] == pytest.approx(invariance, rel=1e-3, abs=1e-6)
        assert row["monotonicity"] == pytest.approx(monotonic, abs=2e-3)
        assert row["translation_error"] >= 0


@pytest.mark.parametrize("name", MUSICAL)
def test_in_musical_time_every_token_lasts_a_sixteenth(name: str):
    sixteenths = Clock(bar_ticks=48, step_ticks=3, moves=((0, 1, 0),))
    model = toy_model(position={"name": name, "time": "music"}, clock=sixteenths)
    ids = torch.zeros(21).long()
    found, expected = probes.encoding_alone(model, ids, 7), sides_of(model, ids, [0], 7)[0]
    torch.testing.assert_close((found.q, found.k), (expected.q, expected.k))
    still = probes.encoding_alone(model, ids + 5, 7)
    assert (still.q[:, 1:] - still.q[:, :-1]).abs().amax() > 1e-3


def test_the_best_head_has_the_lowest_value_of_each_metric():
    common = {"start": 0, "stop": 9, "offset": 3, "tokens": 5}
    common |= {"translation_error": 0.1, "monotonicity_error": None}
    found = enumerate([(0.4, 0.1), (0.2, 0.3), (None, None)])
    rows = [{**common, "head": n, "translation": t, "monotonicity": m} for n, (t, m) in found]
    (best,) = probes.best_heads(rows)
    assert (best["translation"], best["translation_head"]) == (0.2, 1)
    assert (best["monotonicity"], best["monotonicity_head"]) == (0.1, 0)
    (none,) = probes.best_heads(rows[2:])
    assert (none["translation"], none["monotonicity"]) == (None, None)
