"""Encodings of positions in more than one dimension, for the benchmarks only."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Generator, Tensor, nn

from musicgen.parts import PositionConfig, Shape
from musicgen.position.base import Position
from musicgen.position.flt import AppendedFeatures, FltCode, mask_features
from musicgen.position.permuteformer import PermutationPowers, permuted
from tokenization.records import check_fields

# PermuteFormer on a grid (Chen 2021, section 3.5): φ(q) at place (x, y) becomes P_πx^x P_πy^y φ(q) (equation 14). Each
# permutation acts on its own part of the features, so that they commute, and the similarity of two places depends only
# on the differences of their coordinates.
#
# B batch, T time, H heads, M features, ℓ dimensions.


@dataclass(frozen=True, kw_only=True)
class GridPermuteformerConfig(PositionConfig):
    """The values of GridPermuteformer, without the decay r, which the paper sets to 1 in bidirectional models."""

    needs_linear_attention: ClassVar[bool] = True

    dimensions: int = 2
    seed: int = 0

    def __post_init__(self) -> None:
        check_fields(self, "dimensions")


class GridPermuteformer(Position):
    """Permutes one part of the features by each coordinate."""

    def __init__(self, config: GridPermuteformerConfig, shape: Shape) -> None:
        super().__init__(config, shape)
        dimensions = config.dimensions
        if shape.features < 2 * dimensions:
            raise ValueError(
                f"{shape.features} features cannot be divided into {dimensions} parts of two or more"
            )
        widths = [len(part) for part in torch.arange(shape.features).tensor_split(dimensions)]
        self.powers = nn.ModuleList(
            PermutationPowers(shape.heads, width, config.seed + number)
            for number, width in enumerate(widths)
        )
        self.offsets = [sum(widths[:number]) for number in range(dimensions)]

    def cover(self, code: Any, start: int, stop: int, times: Tensor | None = None) -> Tensor:
        """Return the permutations of the features at the places given as `times`: (B, T, ℓ) → (B, T, H, M)."""
        assert times is not None, "the coordinates of the cells are given with the sequences"
        parts = zip(self.powers, times.long().unbind(-1), self.offsets, strict=True)
        return torch.cat([powers(column) + offset for powers, column, offset in parts], -1)

    def features(self, fq: Tensor, fk: Tensor, code: Tensor) -> tuple[Tensor, Tensor]:
        """Permute: (B, T, H, M) → (B, T, H, M)."""
        return permuted(fq, fk, code)


# FourierLearner in ℓ dimensions (Choromanski et al. 2023): a mask f(r_i − r_j) of places in space, by random features.
#
# f(z) = ∫ g(ξ) exp(2πi z·ξ) dξ = E[g(ξ)/p(ξ) cos 2πz·ξ] for ξ ~ p = N(0, 1) in each dimension (equation 4).
#
# B batch, T time, H heads, ℓ dimensions, N components, r random features.


@dataclass(frozen=True, kw_only=True)
class SpaceFltConfig(PositionConfig):
    """The values of SpaceFlt. `gaussian` is equation 6, `radial` the sum of Gaussians of 4.3.1.

    A component of width w ≤ 1 in frequency has the reach unit / (2πw) in space. Its height is proportional to w^ℓ, and
    few random frequencies fall under a narrow one: at lag 0, the relative variance of the features is
    ((w√(2 − w²))^−ℓ − 1) / r, in three dimensions 19 / r at w = 0.27 and 0 at w = 1. So the unit must not be so small
    that narrow components are needed, which are lost in noise.
    """

    wants_softmax_kernel: ClassVar[bool] = True

    dimensions: int = 2  # ℓ
    mask: Literal["gaussian", "radial"] = "gaussian"
    random_features: int = 32  # r
    components: int = 8  # N
    unit: float = 1.0  # places are divided by it: 2π times the distance that matters

    def __post_init__(self) -> None:
        check_fields(self, "random_features", "components", "dimensions")
        if not self.unit > 0:
            raise ValueError(f"unit is {self.unit}; it must be above 0")


class SpaceMask(nn.Module):
    """The Fourier transform g of a mask f: a mixture of Gaussians."""

    def __init__(self, config: SpaceFltConfig, heads: int) -> None:
        super().__init__()
        self.kind, self.axes = config.mask, config.dimensions
        size = (heads, config.components)
        self.weights = nn.Parameter(torch.randn(size) / config.components**0.5)
        self.raw_widths = nn.Parameter(torch.randn(size) - 1)
        if self.kind == "gaussian":
            self.raw_centres = nn.Parameter(torch.randn(*size, self.axes) - 3)

    def transform(self, xi: Tensor) -> Tensor:
        """Return g(ξ), (H, n, ℓ) → (H, n)."""
        weights = self.weights.unsqueeze(1)  # (H, 1, N)
        at = xi.unsqueeze(2)  # (H, n, 1, ℓ)
        centres, widths = self.centres_widths()
        distance = ((at - centres.unsqueeze(1)) / widths.unsqueeze(1).unsqueeze(-1)).square()
        return (weights * torch.exp(-distance.sum(-1) / 2)).sum(-1)

    def centres_widths(self) -> tuple[Tensor, Tensor]:
        """Return centres, (H, N, ℓ), and widths, (H, N); these are at most 1, so that g/p has a finite variance."""
        widths = torch.sigmoid(self.raw_widths)
        if self.kind == "radial":
            return widths.new_zeros(*widths.shape, self.axes), widths
        return torch.sigmoid(self.raw_centres) / 2, widths


class SpaceFlt(AppendedFeatures):
    """Appends the features of places in space."""

    def __init__(self, config: SpaceFltConfig, shape: Shape) -> None:
        super().__init__(config, shape)
        self.mask = SpaceMask(config, shape.heads)

    def begin(self, generator: Generator) -> FltCode:
        """Draw the frequencies, (H, r, ℓ)."""
        size = (self.shape.heads, self.config.random_features, self.config.dimensions)
        noise = torch.randn(size, generator=generator, device=generator.device)
        return FltCode(noise=noise.to(next(self.parameters())))

    def cover(self, code: FltCode, start: int, stop: int, times: Tensor | None = None) -> FltCode:
        """Return the code with the features of the places given as `times`, (B, T, ℓ)."""
        assert times is not None, "places in space are given with the sequences"
        xi = code.noise
        places = times.to(xi) / self.config.unit
        angles = 2 * math.pi * torch.einsum("btl,hrl->bthr", places, xi)
        density = (
            torch.exp(-xi.square().sum(-1) / 2) / math.sqrt(2 * math.pi) ** self.config.dimensions
        )
        ratio = self.mask.transform(xi) / density  # (H, r)
        waves = torch.cat([angles.cos(), angles.sin()], -1)  # (B, T, H, 2r)
        sides = mask_features(waves, ratio, self.qk_width)
        return FltCode(noise=xi, sides=sides)
