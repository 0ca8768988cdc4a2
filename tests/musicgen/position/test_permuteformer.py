from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from musicgen.position import Shape
from musicgen.position.permuteformer import Permuteformer
from tests.musicgen.position.makers import SHAPE, build, generator, inputs, run

GOLDEN = Path(__file__).parents[2] / "golden" / "permuteformer.npz"


def test_equals_the_authors_code() -> None:
    golden = {name: torch.from_numpy(value) for name, value in np.load(GOLDEN).items()}
    heads, features = golden["permutation"].shape
    shape = Shape(layers=1, heads=heads, head_width=features, width=1, features=features)
    position = build("permuteformer", shape=shape)
    state = {**position.state_dict(), "powers.permutation": golden["permutation"]}
    position.load_state_dict(state)
    fq, fk = (golden[x].transpose(1, 2).relu() + 1e-3 for x in ("queries", "keys"))
    length = fq.shape[1]
    fq, fk = position.features(fq, fk, position.cover(None, 0, length), 0, 0)
    distance = torch.arange(length).view(-1, 1) - torch.arange(length)
    forgetting = golden["ratio"].view(-1, 1, 1) ** distance.clamp(min=0) * (distance >= 0)
    attention = torch.einsum("bmhf,bnhf->bhmn", fq, fk) * forgetting
    numerator = attention @ golden["values"]
    torch.testing.assert_close(numerator, golden["numerator"], rtol=1e-5, atol=1e-5)
    normalised = numerator / attention.sum(-1, keepdim=True)
    torch.testing.assert_close(normalised, golden["normalised"], rtol=1e-5, atol=1e-5)


def test_ratios_are_the_authors() -> None:
    shape = Shape(layers=1, heads=8, head_width=4, width=32, features=4)
    decay = build("permuteformer", shape=shape).decay
    assert decay is not None
    assert decay[0].item() == pytest.approx(0.8808, abs=1e-4)
    assert decay[7].item() == pytest.approx(1 / (1 + np.exp(-3 * 7 / 8 - 2)), abs=1e-6)
    assert (decay.diff() > 0).all()


def test_similarity_depends_on_distance_alone() -> None:
    position, given = build("permuteformer"), inputs(20)
    near, far = run(position, given), run(position, given, start=10**12)
    similarities = [torch.einsum("bmhf,bnhf->bhmn", x["fq"], x["fk"]) for x in (near, far)]
    torch.testing.assert_close(*similarities)


def test_ablations() -> None:
    given = inputs(20)
    without_decay = build("permuteformer", with_decay=False)
    assert without_decay.decay is None
    assert not torch.equal(run(without_decay, given)["fq"], given["fq"])
    without_permutation = build("permuteformer", with_permutation=False)
    assert without_permutation.decay is not None
    assert torch.equal(run(without_permutation, given)["fq"], given["fq"])


def test_another_number_of_features_is_refused() -> None:
    position = build("permuteformer")
    assert isinstance(position, Permuteformer)
    code = position.cover(position.begin(generator()), 0, 5)
    wrong = torch.rand(1, 5, SHAPE.heads, 10)
    with pytest.raises(ValueError, match="of 12 features, but the feature map gives 10"):
        position.features(wrong, wrong, code, 0, 0)


def test_horizons_hold_also_without_its_own_decay() -> None:
    position = build("permuteformer", shape=replace(SHAPE, horizons=(8.0, 64.0)), with_decay=False)
    assert position.decay is not None
    assert position.decay[0].item() == pytest.approx(1 - 1 / 8)
