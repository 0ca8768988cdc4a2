from typing import Any

import pytest
import torch
from torch import Tensor

from musicgen.position import Shape
from musicgen.position.flt import Flt, FltConfig
from tests.musicgen.position.makers import build, generator, inputs, run

LAGS = torch.tensor([0.0, 1, 2, 3, 5, 8, 13, 20])
FAMILIES: list[dict[str, Any]] = [
    {"mask": "gaussian"},
    {"mask": "local"},
    {"mask": "local", "frequencies": "folded"},
    {"mask": "shift_invariant", "kernel": "gaussian"},
    {"mask": "shift_invariant", "kernel": "laplace"},
    {"mask": "shift_invariant", "kernel": "cauchy"},
]


def flt(features: int, **choice: Any) -> Flt:
    shape = Shape(layers=1, heads=2, head_width=8, width=16, features=1)
    position = build("flt", shape=shape, random_features=features, **choice)
    assert isinstance(position, Flt)
    return position


def estimate(position: Flt, start: int, seed: int) -> Tensor:
    """Return what the appended features add to the softmax's exponent at LAGS, (H, N)."""
    last = int(LAGS.max())
    code = position.cover(position.begin(generator(seed)), start, start + last + 1)
    zero = torch.zeros(1, last + 1, 2, 8, dtype=next(position.parameters()).dtype)
    q, k = position.qk(zero, zero, code, start, 0)
    q, k = (x[0] / position.qk_width**0.25 for x in (q, k))  # as the feature map does
    return torch.einsum("hf,nhf->hn", q[last], k[last - LAGS.long()])


@pytest.mark.parametrize("choice", FAMILIES, ids=lambda choice: "-".join(choice.values()))
def test_mean_over_draws_converges_to_the_closed_form(choice: dict[str, Any]) -> None:
    """The mean over N frequencies is within 6 deviations of f, and they shrink as 1/√N."""
    position = flt(50_000, **choice)
    missing = 0.0
    with torch.no_grad():
        if choice["mask"] == "local":
            radii = torch.tensor([1.5, 2.5, 4.5, 9.5] * 2)  # no jump at a whole number
            position.mask.get_parameter("log_radii").copy_(radii.log())
            # sin(x)/x decays slowly: |ξ| > 5, which is hardly ever drawn, holds a hundredth of f
            share = 0.0 if "frequencies" in choice else 0.02
            missing = share * position.mask.get_parameter("weights").abs().sum().item()
        closed = position.mask(LAGS)
        _, ratio = position.mask.spectrum(position.begin(generator(99)).noise)
        for draws in (1, 16):
            estimates = [estimate(position, 0, seed) for seed in range(draws)]
            deviation = ratio.square().mean().sqrt().item() / (draws * 50_000) ** 0.5
            bound = 6 * deviation + missing
            assert (torch.stack(estimates).mean(0) - closed).abs().max() <= bound
        assert closed.abs().max() > 5 * bound  # so that the bound says something


def second_moment(position: Flt, largest: float) -> Tensor:
    """Return E[(g/p)²] over frequencies up to the largest, as an integral, (H,)."""
    xi = torch.linspace(-largest, largest, 20_001, dtype=torch.float64).expand(2, -1)
    _, ratio = position.mask.spectrum(xi)
    density = torch.exp(-xi.square() / 2) / (2 * torch.pi) ** 0.5
    folded = position.config.frequencies == "folded"
    return torch.trapezoid(ratio.square() * (1 if folded else density), xi)


@torch.no_grad()
def test_the_local_mask_has_a_finite_variance_only_when_folded() -> None:
    endless = flt(8, mask="local").double()
    near, far = second_moment(endless, 4), second_moment(endless, 8)
    assert (far > 100 * near).all()  # and so on
    folded = flt(8, mask="local", frequencies="folded").double()
    lags = torch.arange(-30, 31, dtype=torch.float64)
    # Parseval: the mean of a square of a sum of cosines is the sum of f² over the lags.
    torch.testing.assert_close(second_moment(folded, 0.5), folded.mask(lags).square().sum(1))


@pytest.mark.parametrize("choice", FAMILIES, ids=lambda choice: "-".join(choice.values()))
def test_estimate_depends_on_distance_alone(choice: dict[str, Any]) -> None:
    position = flt(32, **choice).double()
    near, far = estimate(position, 0, 3), estimate(position, 1_000_000, 3)
    torch.testing.assert_close(near, far, rtol=1e-5, atol=1e-5)


def test_softmax_kernel_sees_scaled_product_plus_mask() -> None:
    position = flt(16).double()
    given = inputs(21)
    found = run(position, given)
    product = torch.einsum("bhd,bnhd->bhn", found["q"][:, 20], found["k"]) / position.qk_width**0.5
    content = torch.einsum("bhd,bnhd->bhn", given["q"][:, 20], given["k"]) / 8**0.5
    mask = (product - content)[..., 20 - LAGS.long()]
    wanted = estimate(position, 0, 0).expand_as(mask)
    torch.testing.assert_close(mask, wanted)


def test_layers_share_the_features_and_heads_do_not() -> None:
    position, given = flt(16), inputs(5)
    assert torch.equal(run(position, given, layer=0)["k"], run(position, given, layer=2)["k"])
    appended = run(position, given)["k"][..., 8:]
    assert not torch.equal(appended[:, :, 0], appended[:, :, 1])


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"mask": "box"}, "mask is 'box'; it must be one of gaussian, local, shift_invariant"),
        ({"kernel": "sinc"}, "kernel is 'sinc'; it must be one of gaussian, laplace, cauchy"),
        ({"random_features": 0}, "random_features is 0; it must be at least 1"),
        ({"frequencies": "some"}, "frequencies is 'some'; it must be one of normal, folded"),
        ({"frequencies": "folded"}, "folded goes with mask: local"),
        ({"components": 0}, "components is 0; it must be at least 1"),
    ],
)
def test_config_is_checked(choice: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FltConfig(**choice)
