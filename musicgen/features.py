"""Feature maps φ, most with positive values; linear attention weights a key by φ(q)·φ(k).

B batch, T time, H heads, W width of queries and keys, M features.

A feature map sees one position at a time. Whatever it subtracts or rescales depends on that position alone, so that a
whole sequence and single steps give the same numbers. Features are float32 (or float64) even under autocast.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from musicgen.attention import without_autocast
from musicgen.parts import LARGEST_NORM, LARGEST_PROJECTION, FavorConfig, ReluConfig, UnitConfig


def orthogonal_gaussian(width: int, columns: int, generator: Generator) -> Tensor:
    """Draw the orthogonal random features of FAVOR+: Gaussian vectors, orthogonal within blocks of `width`.

    Returns (width, columns), float32. Each column is distributed like a standard Gaussian vector: its direction is
    uniform, and its norm is drawn separately (Choromanski et al. 2021).
    """
    directions = orthogonal_matrices(-(-columns // width), width, generator)
    drawn = torch.randn(width, columns, generator=generator, device=generator.device)
    norms = drawn.norm(dim=0)
    return directions.transpose(0, 1).flatten(1)[:, :columns] * norms


def orthogonal_matrices(count: int, width: int, generator: Generator) -> Tensor:
    """Draw uniformly distributed orthogonal matrices: (count, width, width), float32."""
    drawn = torch.randn(count, width, width, generator=generator, device=generator.device)
    directions, r = torch.linalg.qr(drawn)
    # QR favours some signs; these correct it to the uniform (Haar) distribution (Mezzadri 2007).
    return directions * r.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)


class FeatureMap(nn.Module, ABC):
    """Interface of a feature map: features of queries and of keys, (B, T, H, W) → (B, T, H, M).

    The buffer `omega`, (W, columns), holds the random projection, if there is one. It is saved with the model, and
    initialised from torch's default generator.
    """

    # Whether features can be negative: then a norm of each head's output replaces the sum of its weights.
    has_signs: ClassVar[bool] = False
    omega: Tensor | None

    def __init__(self, width: int, features: int, columns: int | None) -> None:
        super().__init__()
        self.width = width
        self.features = features
        omega = None
        if columns is not None:
            omega = orthogonal_gaussian(width, columns, torch.default_generator)
        self.register_buffer("omega", omega)

    def redraw(self, generator: Generator) -> None:
        """Redraw the random projection in place, if there is one."""
        if self.omega is not None:
            self.omega.copy_(orthogonal_gaussian(self.width, self.omega.shape[1], generator))

    @abstractmethod
    def queries(self, x: Tensor) -> Tensor:
        """Return the features of queries; each position may have any positive factor, which cancels in attention."""

    def keys(self, x: Tensor) -> Tensor:
        """Return the features of keys, by default computed like those of queries."""
        return self.queries(x)

    def _projected(self, x: Tensor) -> Tensor:
        """Return ωx, (B, T, H, W) → (B, T, H, columns), at least in float32; without a projection, x."""
        dtype = torch.promote_types(x.dtype, torch.float32)
        if x.dtype is not dtype:
            x = x.to(dtype)
        return x if self.omega is None else x @ self.omega.to(dtype)


PROJECTION_OVER_NORM = LARGEST_PROJECTION / LARGEST_NORM


class Favor(FeatureMap):
    """φ(x) = exp(±ωx − |x|²/2) / √M for x scaled by W^(−1/4), with both signs of M/2 random projections ω.

    These are the positive random features of FAVOR+ in their hyperbolic form (Choromanski et al. 2021, lemma 1).

    For queries, the largest exponent of each position is subtracted, which cancels. For keys, nothing that differs
    between positions can be subtracted, and at large norms all exponents underflow in float32. So queries and keys are
    clipped, keeping their direction, to |x| ≤ 8 and |ωx| ≤ 24. This loses nothing: the relative deviation of the
    estimate, exp(|q + k|²/2) / √M (lemma 2), makes it useless at half of that. Key features are then in e^−56 … e^24,
    and the weights of a query sum to e^−56 / M or more, which leaves room in the e^±87 of float32 for sums of any
    length and for gradients. The clipping factor is constant in the backward pass, so that the gradient can shorten a
    vector outside the bounds.
    """

    signs: Tensor

    def __init__(self, config: FavorConfig, width: int) -> None:
        super().__init__(width, config.features, config.features // 2)
        self.config = config
        self.temperature = width**-0.25
        self.log_scale = math.log(config.features) / 2  # 1/√M as part of the exponent
        self.register_buffer("signs", torch.tensor([[1.0], [-1.0]]), persistent=False)

    def queries(self, x: Tensor) -> Tensor:
        """Return φ(q) less the largest exponent of each position: |q|² cancels, and no exponent is above zero."""
        with without_autocast(x.device):
            u = self._projected(x)
            _, largest, factor = self._bounded(x, u)
            return _exponentials(
                u, factor.unsqueeze(-1) * self.signs, -(largest * factor) - self.log_scale
            )

    def keys(self, x: Tensor) -> Tensor:
        with without_autocast(x.device):
            u = self._projected(x)
            norm, _, factor = self._bounded(x, u)
            offset = (norm * factor).square() / -2 - self.log_scale
            return _exponentials(u, factor.unsqueeze(-1) * self.signs, offset)

    def _bounded(self, x: Tensor, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return |x|, max |ωx| and the factor that scales and clips both: (B, T, H, 1) each.

        The last two are constants for autograd.
        """
        norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=u.dtype)
        largest = u.detach().abs().amax(-1, keepdim=True)
        # Both bounds hold once the larger of the two, in units of the projection, is scaled to its bound.
        limit = torch.maximum(norm.detach() * PROJECTION_OVER_NORM, largest)
        limit = limit.clamp_(min=LARGEST_PROJECTION / self.temperature)
        return norm, largest, LARGEST_PROJECTION / limit


def _exponentials(u: Tensor, factors: Tensor, offset: Tensor) -> Tensor:
    """Return exp(u · factor + offset) for both factors: (..., M/2), (..., 2, 1), (..., 1) → (..., M)."""
    return torch.addcmul(offset.unsqueeze(-1), u.unsqueeze(-2), factors).exp_().flatten(-2)


class Relu(FeatureMap):
    """φ(x) = relu(x) + floor, of x or of ωx; PermuteFormer's LRA experiments use M = 4 W."""

    def __init__(self, config: ReluConfig, width: int) -> None:
        super().__init__(width, config.features or width, config.features)
        self.config = config

    def queries(self, x: Tensor) -> Tensor:
        with without_autocast(x.device):
            return self._activation(self._projected(x)) + self.config.floor

    def _activation(self, x: Tensor) -> Tensor:
        return x.relu()


class Elu(Relu):
    """φ(x) = elu(x) + 1 + floor, of x or of ωx."""

    def _activation(self, x: Tensor) -> Tensor:
        return functional.elu(x) + 1


class Unit(FeatureMap):
    """φ(x) = silu(x) / |silu(x)|, the queries and keys of the delta rule (Yang et al. 2024)."""

    has_signs = True

    def __init__(self, config: UnitConfig, width: int) -> None:
        super().__init__(width, width, None)
        self.config = config

    def queries(self, x: Tensor) -> Tensor:
        with without_autocast(x.device):
            return functional.normalize(functional.silu(self._projected(x)), dim=-1)


FEATURES: dict[str, Any] = {"favor": Favor, "relu": Relu, "elu": Elu, "unit": Unit}
"""Feature maps by name; `FEATURE_CONFIGS` in parts.py has their configurations."""
