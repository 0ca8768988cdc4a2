"""Feature maps: the authors' numbers, the distribution of the projections, and range for any activation."""

import numpy as np
import pytest
import torch
from torch import Tensor

from musicgen.attention import attend
from musicgen.eager import EagerNetwork, network_of
from musicgen.features import (
    FEATURES,
    Favor,
    FeatureMap,
    Relu,
    orthogonal_gaussian,
)
from musicgen.parts import FEATURE_CONFIGS, FavorConfig, ReluConfig
from tests.musicgen.toys import generator, golden, toy_model


def make(name: str, width: int, **options: object) -> FeatureMap:
    config, feature_map = FEATURE_CONFIGS[name], FEATURES[name]
    made = feature_map(config(**options), width)
    made.redraw(generator())
    return made


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=generator(seed), dtype=dtype)


def test_favor_equals_the_golden_features_and_attention():
    theirs = golden("favor_attention.npz")
    width, half = theirs["omega"].shape
    favor = Favor(FavorConfig(features=2 * half), width)
    favor.omega.copy_(theirs["omega"])
    fq, fk = favor.queries(theirs["queries"]), favor.keys(theirs["keys"])
    torch.testing.assert_close(fk, theirs["k_features"], rtol=1e-5, atol=1e-5)
    # Queries are equal up to a factor per position, which cancels.
    normalised = [x / x.sum(-1, keepdim=True) for x in (fq, theirs["q_features"])]
    torch.testing.assert_close(*normalised, rtol=1e-5, atol=1e-5)
    for backend in ("exact", "chunked", "recurrent"):
        out, _ = attend(fq, fk, theirs["values"], backend=backend)
        torch.testing.assert_close(out, theirs["output"], rtol=1e-5, atol=1e-5)


def test_random_projections_are_orthogonal_in_blocks_and_gaussian():
    omega = orthogonal_gaussian(8, 20, generator())
    assert omega.shape == (8, 20)
    for block in (omega[:, :8], omega[:, 8:16], omega[:, 16:]):
        gram = block.T @ block
        torch.testing.assert_close(gram, torch.diag(gram.diagonal()), rtol=0, atol=1e-4)
    many = torch.stack([orthogonal_gaussian(8, 8, generator(seed)) for seed in range(2000)])
    # Every entry has mean 0, variance 1 and fourth moment 3, within five standard errors.
    assert many.mean(0).abs().max() < 5 / 2000**0.5
    assert (many.square().mean(0) - 1).abs().max() < 5 * (2 / 2000) ** 0.5
    assert (many.pow(4).mean(0) - 3).abs().max() < 5 * (96 / 2000) ** 0.5


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("norm", [0.0, 5.0, 1000.0])
@pytest.mark.parametrize("length", [512, pytest.param(16_384, marks=pytest.mark.long)])
@pytest.mark.parametrize("decay", [None, torch.tensor([0.88])])  # whose powers underflow
@pytest.mark.parametrize("name", [one for one in FEATURES if not FEATURES[one].has_signs])
def test_attention_is_finite_for_any_activation(name, decay, length, norm, dtype):
    features = make(name, 64, features=128)
    q, k = (normal(1, length, 1, 64, seed=seed) for seed in range(2))
    q, k = (norm * x / x.norm(dim=-1, keepdim=True) for x in (q, k))
    v = normal(1, length, 1, 8, seed=2)
    inputs = [x.to(dtype).requires_grad_() for x in (q, k, v)]
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype is torch.bfloat16):
        fq, fk = features.queries(inputs[0]), features.keys(inputs[1])
        assert fq.dtype is torch.float32
        out, _ = attend(fq, fk, inputs[2], decay=decay)
    gradients = torch.autograd.grad(out.float().square().sum(), inputs)
    assert all(x.isfinite().all() for x in (out, *gradients))
    # Nothing has underflowed: the first output equals the first value, whatever its weight.
    torch.testing.assert_close(out[:, 0], inputs[2][:, 0], rtol=1e-3, atol=1e-3)
    assert (gradients[2].abs().amax(-1) > 0).all()


def test_features_without_a_projection_are_pointwise():
    x = torch.tensor([[[[-2.0, 0.0, 3.0]]]])
    relu = Relu(ReluConfig(), 3)
    assert relu.features == 3
    assert not relu.state_dict()
    relu.redraw(generator())
    torch.testing.assert_close(relu.keys(x), torch.tensor([[[[0.001, 0.001, 3.001]]]]))
    elu = torch.tensor([[[[np.exp(-2.0), 1.0, 4.0]]]], dtype=torch.float32)
    torch.testing.assert_close(make("elu", 3).queries(x), elu)


def test_models_with_features_that_the_kernel_does_not_know_are_played_by_torch():
    network = network_of(toy_model(position="none", features="unit"))
    assert isinstance(network, EagerNetwork)
    assert network.lacks == "the features unit"
