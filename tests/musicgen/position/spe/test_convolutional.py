from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from musicgen.position import Shape
from musicgen.position.spe.convolutional import (
    ConvSpe,
    ConvSpeConfig,
    WhiteNoise,
    conv_template,
    filtered,
)
from tests.musicgen.position.makers import SHAPE, build, generator, inputs
from tests.musicgen.position.spe.naive import filtered_code, place

GOLDEN = Path(__file__).parents[3] / "golden" / "conv_spe.npz"


def conv(shape: Shape = SHAPE, **choice: Any) -> ConvSpe:
    position = build("conv_spe", shape=shape, **choice)
    assert isinstance(position, ConvSpe)
    return position


class GivenNoise(WhiteNoise):
    """Noise that is given, (H, D, length, R)."""

    def __init__(self, noise: Tensor) -> None:
        super().__init__(0, (*noise.shape[:2], noise.shape[3]), like=noise)
        self.noise = noise

    def window(self, start: int, stop: int) -> Tensor:
        return self.noise[:, :, start:stop]


def test_code_equals_the_authors() -> None:
    golden = {name: torch.from_numpy(value) for name, value in np.load(GOLDEN).items()}
    realisations, _, width, _ = golden["noise"].shape
    taps = golden["filter_q"].shape[-1]
    noise = GivenNoise(golden["noise"].permute(1, 2, 3, 0)[:, :, taps:])  # their code starts there
    filters = torch.stack([golden["filter_q"], golden["filter_k"]])
    q, k = filtered(filters * (width * realisations) ** -0.25, noise, 0, 17, torch.float32)
    torch.testing.assert_close(q, golden["qbar"], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(k, golden["kbar"], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("start", [0, 100])
@pytest.mark.parametrize("length", [1, 64, 150])
def test_values_and_gradients_equal_the_naive_code(start: int, length: int) -> None:
    position = conv(taps=7, realisations=6).double()
    given = inputs(length)
    q, k = given["q"].requires_grad_(), given["k"].requires_grad_()
    code = position.begin(generator())
    assert code.gate_noise is not None
    leaves = [q, k, *position.parameters()]

    covered = position.cover(code, start, start + length)
    noise = code.noise[0].window(start, start + length + 6)
    naive = [filtered_code(side, noise) for side in position.filters[0]]
    gate_noise = code.gate_noise[0] / position.scale
    fast, slow = [], []
    for layer in range(3):  # the gradients of the layers add up
        fast += position.qk(q, k, covered, start, layer)
        slow += [
            place(x, side, position.gates[layer], gate_noise)
            for x, side in zip((q, k), naive, strict=True)
        ]
    torch.testing.assert_close(fast, slow, rtol=1e-10, atol=1e-10)
    found = torch.autograd.grad(sum(x.sin().sum() for x in fast), leaves)  # pyright: ignore
    wanted = torch.autograd.grad(sum(x.sin().sum() for x in slow), leaves)  # pyright: ignore
    torch.testing.assert_close(found, wanted, rtol=1e-8, atol=1e-8)


@pytest.mark.filterwarnings(  # both dynamo's own
    "ignore:.*should not be instantiated:DeprecationWarning",
    "ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning",
)
def test_compiling_changes_neither_values_nor_gradients() -> None:
    position, given = conv(taps=7, realisations=6), inputs(70, dtype=torch.float32)
    code = position.begin(generator())

    def total() -> Tensor:
        covered = position.cover(code, 0, 70)
        sides = [position.qk(given["q"], given["k"], covered, 0, layer) for layer in range(3)]
        return sum(q.sin().sum() + k.sin().sum() for q, k in sides)  # pyright: ignore

    leaves = list(position.parameters())
    wanted = torch.autograd.grad(total(), leaves)
    found = torch.autograd.grad(torch.compile(total, backend="eager")(), leaves)
    assert all(gradient.abs().max() > 0 for gradient in wanted)
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("shared", [True, False])
def test_noise_is_kept_for_one_code_not_for_one_a_layer(shared: bool) -> None:
    position, given = conv(taps=7, realisations=6, shared=shared), inputs(200)
    code = position.cover(position.begin(generator()), 0, 200)
    for layer in range(3):
        position.qk(given["q"].float(), given["k"].float(), code, 0, layer)
    assert all((noise._kept.numel() > 0) == shared for noise in code.noise)


def test_template_is_the_correlation_of_the_filters() -> None:
    filter_q, filter_k = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([5.0, 7.0, 11.0])
    lags = torch.arange(-4, 5)
    # lag m − n: Σ_p filter_q[p] filter_k[p + lag]
    wanted = [0, 0, 15, 10 + 21, 5 + 14 + 33, 7 + 22, 11, 0, 0]
    found = conv_template(filter_q, filter_k, lags)
    torch.testing.assert_close(found, torch.tensor(wanted, dtype=torch.float32))


def test_template_of_a_layer_is_gated() -> None:
    position, lags = conv(), torch.arange(-4, 5)
    share = torch.sigmoid(position.gates[2]).unsqueeze(-1)
    wanted = share + (1 - share) * conv_template(*position.filters[0], lags)
    torch.testing.assert_close(position.template(lags, layer=2), wanted)


def test_initial_filters_are_the_authors() -> None:
    filters = conv(taps=128).filters
    assert filters.min() >= 0
    assert filters.max().item() == pytest.approx(1 / 8, rel=0.01)


def test_taps_are_at_least_one() -> None:
    with pytest.raises(ValueError, match="taps is 0; it must be at least 1"):
        ConvSpeConfig(taps=0)
