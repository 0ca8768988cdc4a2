"""FourierLearner in ℓ dimensions (Choromanski et al. 2023): a mask f(r_i − r_j) of places in space by random features.

f(z) = ∫ g(ξ) exp(2πi z·ξ) dξ = E[g(ξ)/p(ξ) cos 2πz·ξ] for ξ ~ p = N(0, 1) in each dimension (equation 4). Places are
the cells of a grid or, as in the paper's molecules, given with each sequence.

B batch, T time, H heads, ℓ dimensions, N components, r random features.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Generator, Tensor, nn

from evaluation.benchmarks.positions.grid import check_sizes, coordinates
from musicgen.position.base import Shape, Window
from musicgen.position.flt import AppendedFeatures, FltCode, weighted
from tokenization.records import check_fields


@dataclass(frozen=True, kw_only=True)
class SpaceFltConfig:
    """`gaussian` is equation 6, `radial` the paper's sum of Gaussians of the distance (4.3.1), `box` equation 10.

    A component of width w ≤ 1 in frequency reaches unit / (2πw) in space. Its height is w^ℓ of that at w = 1, and few
    random frequencies fall under a narrow one: at lag 0 the features' relative variance is ((w√(2 − w²))^−ℓ − 1) / r,
    in three dimensions 19 / r at w = 0.27 and 0 at w = 1. So a unit that asks for narrow ones is lost in noise.
    """

    sizes: tuple[int, ...] | None = (32, 32)  # of a grid; null: places come with the sequences
    dimensions: int = 2  # where there is no grid
    mask: Literal["gaussian", "radial", "box"] = "gaussian"
    random_features: int = 32  # r
    components: int = 8  # N
    unit: float = 1.0  # places are divided by it: 2π times the distance that shall matter

    def __post_init__(self) -> None:
        if self.sizes is not None:
            check_sizes(self.sizes)
        check_fields(self, "random_features", "components", "dimensions")
        if not self.unit > 0:
            raise ValueError(f"unit is {self.unit}; it must be above 0")

    @property
    def axes(self) -> int:
        """ℓ."""
        return self.dimensions if self.sizes is None else len(self.sizes)


class SpaceMask(nn.Module):
    """The Fourier transform g of a mask f: Gaussian mixtures, or a sum of boxes."""

    def __init__(self, config: SpaceFltConfig, heads: int) -> None:
        super().__init__()
        self.kind, self.axes = config.mask, config.axes
        size = (heads, config.components)
        self.weights = nn.Parameter(torch.randn(size) / config.components**0.5)
        if self.kind == "box":
            self.log_radii = nn.Parameter(torch.rand(*size, self.axes) * 2)
            return
        self.raw_widths = nn.Parameter(torch.randn(size) - 1)
        if self.kind == "gaussian":
            self.raw_centres = nn.Parameter(torch.randn(*size, self.axes) - 3)

    def transform(self, xi: Tensor) -> Tensor:
        """Return g(ξ), (H, n, ℓ) → (H, n)."""
        weights = self.weights.unsqueeze(1)  # (H, 1, N)
        at = xi.unsqueeze(2)  # (H, n, 1, ℓ)
        if self.kind == "box":
            radii = self.log_radii.exp().unsqueeze(1)
            return (weights * (2 * radii * torch.sinc(2 * radii * at)).prod(-1)).sum(-1)
        centres, widths = self.centres_widths()
        distance = ((at - centres.unsqueeze(1)) / widths.unsqueeze(1).unsqueeze(-1)).square()
        return (weights * torch.exp(-distance.sum(-1) / 2)).sum(-1)

    def centres_widths(self) -> tuple[Tensor, Tensor]:
        """Widths up to 1, which keeps the variance of g/p finite: (H, N, ℓ) and (H, N)."""
        widths = torch.sigmoid(self.raw_widths)
        if self.kind == "radial":
            return widths.new_zeros(*widths.shape, self.axes), widths
        return torch.sigmoid(self.raw_centres) / 2, widths


class SpaceFlt(AppendedFeatures):
    """The features of places in space."""

    def __init__(self, config: SpaceFltConfig, shape: Shape) -> None:
        super().__init__(config, shape)
        self.mask = SpaceMask(config, shape.heads)

    def begin(self, generator: Generator) -> FltCode:
        """Draw the frequencies, (H, r, ℓ)."""
        size = (self.shape.heads, self.config.random_features, self.config.axes)
        noise = torch.randn(size, generator=generator, device=generator.device)
        return FltCode(noise=noise.to(next(self.parameters())))

    def cover(self, code: FltCode, start: int, stop: int, times: Tensor | None = None) -> FltCode:
        """Return the draw with the features of places: of a grid's cells, or those given, (B, T, ℓ)."""
        if self.config.sizes is not None:
            places = coordinates(torch.arange(start, stop), self.config.sizes).unsqueeze(0)
        else:
            assert times is not None, "places in space come with the sequence"
            places = times
        xi = code.noise
        places = places.to(xi) / self.config.unit
        angles = 2 * math.pi * torch.einsum("btl,hrl->bthr", places, xi)
        density = torch.exp(-xi.square().sum(-1) / 2) / math.sqrt(2 * math.pi) ** self.config.axes
        ratio = self.mask.transform(xi) / density  # (H, r)
        waves = torch.cat([angles.cos(), angles.sin()], -1)  # (B, T, H, 2r)
        sides = weighted(waves, ratio, self.qk_width)
        return FltCode(noise=xi, window=Window(start=start, rows=sides, axis=1))
