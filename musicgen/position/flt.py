"""FourierLearner (FLT; Choromanski et al., 2023): an additive mask f(m − n) by appended features.

Attention becomes softmax(q·k/√D + f(m − n)). With frequencies ξ ~ p and the Fourier transform g of f,
f(m − n) = E[g(ξ)/p(ξ) · cos 2πξ(m − n)] (equation 4), which is a product of features of m and of n. These are appended
to queries and keys before a feature map of the softmax kernel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn

from musicgen.parts import FltConfig, Shape
from musicgen.position.base import Position, waves

_SAFE = 1e-6  # keeps the gradient of √|g/p| finite at g = 0; it cancels in the product


# `draw` fills a tensor with the frequencies ξ of a mask, (H, r); `ratio` maps them to g/p, (H, r); `forward` maps lags,
# (N,), to f, (H, N).


class GaussianMask(nn.Module):
    """g(ξ) = Σ_t w_t exp(−(ξ − μ_t)²/2σ_t²) (equation 6), with ξ ~ N(0, 1).

    Positions are integers, so that a frequency above ½ is an alias of one below: μ is limited to [0, ½] and σ to
    [0, 1], which also keeps the variance of g/p finite.
    """

    def __init__(self, config: FltConfig, heads: int) -> None:
        super().__init__()
        size = (heads, config.components)
        self.weights = nn.Parameter(torch.randn(size) / config.components**0.5)
        self.raw_centres = nn.Parameter(torch.randn(size) - 3)  # low frequencies, for long range
        self.raw_widths = nn.Parameter(torch.randn(size) - 1)

    def _centres_widths(self) -> tuple[Tensor, Tensor]:
        return torch.sigmoid(self.raw_centres) / 2, torch.sigmoid(self.raw_widths)

    def draw(self, noise: Tensor, generator: Generator) -> None:
        noise.normal_(generator=generator)

    def ratio(self, noise: Tensor) -> Tensor:
        centres, widths = self._centres_widths()
        distance = (noise.unsqueeze(-1) - centres.unsqueeze(1)) / widths.unsqueeze(1)  # (H, r, T)
        g = (self.weights.unsqueeze(1) * torch.exp(-distance.square() / 2)).sum(-1)
        return g / _normal_density(noise)

    def forward(self, lags: Tensor) -> Tensor:
        centres, widths = (x.unsqueeze(-1) for x in self._centres_widths())
        heights = self.weights.unsqueeze(-1) * widths * math.sqrt(2 * math.pi)
        envelope = torch.exp(-2 * (math.pi * widths * lags).square())
        return (heights * envelope * torch.cos(2 * math.pi * centres * lags)).sum(1)


class LocalMask(nn.Module):
    """f(z) = Σ_t w_t 1[|z| ≤ v_t], g(ξ) = Σ_t w_t sin(2πv_tξ)/(πξ) (equations 13, 14), with ξ ~ N(0, 1).

    The variance of g/p is infinite for every density p: ∫ g²/p ≥ (∫ |g|)², and the g of a function with jumps is not
    integrable. So the mean of any number of draws is occasionally far off. As positions are integers, frequencies that
    differ by an integer are equivalent, and g can be folded: ξ uniform in [−½, ½] with Σ_t w_t Σ_{|z| ≤ v_t} cos 2πzξ,
    which is bounded (`frequencies: folded`). For v_t between n and n + 1, the weight of lag n + 1 is then v_t − n.
    """

    def __init__(self, config: FltConfig, heads: int) -> None:
        super().__init__()
        size = (heads, config.components)
        self.folded = config.frequencies == "folded"
        self.weights = nn.Parameter(torch.randn(size) * 0.1)
        radii = torch.exp(torch.linspace(math.log(1.5), math.log(24.5), config.components))
        self.log_radii = nn.Parameter(radii.log().expand(size).clone())

    def draw(self, noise: Tensor, generator: Generator) -> None:
        if self.folded:
            noise.uniform_(-0.5, 0.5, generator=generator)
        else:
            noise.normal_(generator=generator)

    def ratio(self, noise: Tensor) -> Tensor:
        radii = self.log_radii.exp().unsqueeze(1)  # (H, 1, T)
        weights, xi = self.weights.unsqueeze(1), noise.unsqueeze(-1)
        if self.folded:
            whole = radii.detach().floor()
            # Σ_{|z| ≤ n} cos 2πzξ = sin((2n + 1)πξ) / sin πξ, the Dirichlet kernel
            sides = 2 * whole + 1
            kernel = sides * torch.sinc(sides * xi) / torch.sinc(xi)
            kernel = kernel + (radii - whole) * 2 * torch.cos(2 * math.pi * (whole + 1) * xi)
            return (weights * kernel).sum(-1)
        g = (weights * 2 * radii * torch.sinc(2 * radii * xi)).sum(-1)
        return g / _normal_density(noise)

    def forward(self, lags: Tensor) -> Tensor:
        radii = self.log_radii.exp().unsqueeze(-1)  # (H, T, 1)
        inside = (radii.floor() - lags.abs() + 1 + radii % 1).clamp(0, 1)
        inside = inside if self.folded else (lags.abs() <= radii).to(radii)
        return (self.weights.unsqueeze(-1) * inside).sum(1)


_MASKS = {"gaussian": GaussianMask, "local": LocalMask}


@dataclass(frozen=True, kw_only=True)
class FltCode:
    """The frequencies of a sequence, and the features of the covered positions."""

    noise: Tensor  # ξ, (H, r)
    # Features of query and key, (T, H, 2r) or (B, T, H, 2r) each.
    sides: tuple[Tensor, Tensor] | None = None


class AppendedFeatures(Position):
    """Appends a mask's random features, which all layers share, to queries and keys."""

    @property
    def qk_width(self) -> int:
        """The head width, plus a cosine and a sine for each random frequency."""
        return self.shape.head_width + 2 * self.config.random_features

    def qk(self, q: Tensor, k: Tensor, code: FltCode) -> tuple[Tensor, Tensor]:
        """Append the features, (B, T, H, D) → (B, T, H, D + 2r), so that the map's kernel is exp(q·k/√D + f).

        The feature map will divide by the fourth root of the new width, so q and k are scaled to correct for it.
        """
        assert code.sides is not None, "`cover` comes before `qk`"
        scale = (self.qk_width / q.shape[-1]) ** 0.25
        encoded_q, encoded_k = (
            torch.cat([x * scale, f.to(x.dtype).expand(len(x), -1, -1, -1)], -1)
            for x, f in zip((q, k), code.sides, strict=True)
        )
        return encoded_q, encoded_k


class Flt(AppendedFeatures):
    """FLT over the positions of a sequence."""

    def __init__(self, config: FltConfig, shape: Shape) -> None:
        super().__init__(config, shape)
        self.mask = _MASKS[config.mask](config, shape.heads)

    def begin(self, generator: Generator) -> FltCode:
        """Draw the frequencies."""
        size = (self.shape.heads, self.config.random_features)
        noise = torch.empty(size, device=generator.device)
        self.mask.draw(noise, generator)
        return FltCode(noise=noise.to(next(self.parameters())))

    def cover(self, code: FltCode, start: int, stop: int, times: Tensor | None = None) -> FltCode:
        """Return the code with the features of the window's positions."""
        ratio = self.mask.ratio(code.noise)  # (H, r)
        places = self.places(start, stop, times)
        # (T, H, 2r) or (2, B, T, H, 2r)
        features = torch.cat(waves(code.noise, places, like=ratio), -1)
        sides = mask_features(features, ratio, self.qk_width, apart=self.musical)
        return FltCode(noise=code.noise, sides=sides)


def mask_features(
    features: Tensor, ratio: Tensor, width: int, *, apart: bool = False
) -> tuple[Tensor, Tensor]:
    """Return features of queries and keys, (…, H, 2r) each, whose expected product is the mask.

    `features` are cosines and sines, concatenated, (…, H, 2r), or with `apart` those of queries and of keys,
    (2, …, H, 2r); `ratio` is g/p, (H, r).
    """
    # Compensates for the factor width^-1/4 of the feature map on either side.
    features = features * (width**0.25 / ratio.shape[-1] ** 0.5)
    of_queries, of_keys = features if apart else (features, features)
    root = (ratio.abs() + _SAFE).sqrt()
    signed = ratio / root
    return of_queries * torch.cat([signed, signed], -1), of_keys * torch.cat([root, root], -1)


def _normal_density(x: Tensor) -> Tensor:
    return torch.exp(-x.square() / 2) / math.sqrt(2 * math.pi)
