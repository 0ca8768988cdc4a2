"""Encodings in several dimensions depend only on differences of coordinates."""

import math

import pytest
import torch

from evaluation.benchmarks import positions
from musicgen.parts import Shape
from tests.musicgen.toys import generator

SHAPE = Shape(layers=2, heads=2, head_width=4, width=8, features=12)
CELLS = [(row, column) for row in range(5) for column in range(7)]


@torch.no_grad()
def test_permuted_features_depend_only_on_the_difference_of_cells() -> None:
    position = positions.GridPermuteformer(positions.GridPermuteformerConfig(), SHAPE)
    fq, fk = torch.rand(2, 1, 1, 2, 12, generator=generator()).expand(2, 1, 35, 2, 12)
    q, k = position.features(fq, fk, position.cover(None, 0, 35, torch.tensor([CELLS])))
    similarity = torch.einsum("bihm,bjhm->hij", q, k)
    found: dict[tuple[int, int], torch.Tensor] = {}
    for i, (row, column) in enumerate(CELLS):
        for j, (other_row, other_column) in enumerate(CELLS):
            lag = (row - other_row, column - other_column)
            value = found.setdefault(lag, similarity[:, i, j])
            torch.testing.assert_close(value, similarity[:, i, j])
    adjacent, across = (
        found[(0, 1)],
        found[(1, -6)],
    )  # the next cell in a row, and across the end of a row
    assert not torch.allclose(adjacent, across)
    assert not torch.allclose(found[(0, 0)], found[(1, 0)])


def mask_at(mask: positions.SpaceMask, lags: torch.Tensor) -> torch.Tensor:
    """Return the mask f at differences of places in closed form, (n, ℓ) → (H, n)."""
    centres, widths = mask.centres_widths()
    widths = widths.unsqueeze(-1)
    height = mask.weights.unsqueeze(-1) * (widths * math.sqrt(2 * math.pi)) ** mask.axes
    envelope = torch.exp(-2 * (math.pi * widths).square() * lags.square().sum(-1))
    wave = torch.cos(2 * math.pi * (centres @ lags.T))
    return (height * envelope * wave).sum(1)


@torch.no_grad()
@pytest.mark.parametrize(("axes", "steps"), [(1, 4001), (2, 201), (3, 81)])
@pytest.mark.parametrize("mask", ["gaussian", "radial"])
def test_the_mask_is_the_integral_of_its_transform(axes: int, steps: int, mask: str) -> None:
    """f(z) = ∫ g(ξ) cos 2πz·ξ dξ, on a grid of frequencies (equation 4)."""
    torch.manual_seed(5)
    sizes = {"dimensions": axes, "random_features": 1, "components": 3}
    config = positions.SpaceFltConfig(mask=mask, **sizes)
    found = positions.SpaceFlt(config, SHAPE).double().mask
    line = torch.linspace(-5, 5, steps, dtype=torch.float64)
    xi = torch.stack(torch.meshgrid(*[line] * axes, indexing="ij"), -1).flatten(0, -2)
    g = found.transform(xi.expand(2, -1, -1))  # (H, n)
    lags = torch.rand(6, axes, generator=generator(1)).double() * 2 - 1
    volume = (10 / (steps - 1)) ** axes
    wanted = (g @ torch.cos(2 * torch.pi * xi @ lags.T)) * volume
    torch.testing.assert_close(mask_at(found, lags), wanted, rtol=2e-3, atol=2e-3)
