"""Feature maps φ: attention weights are dot products φ(q)·φ(k) of features that are positive.

B batch, T time, H heads, W width of queries and keys, M features.

A feature map sees one position at a time: whatever it subtracts or rescales depends on that position alone, so a whole
sequence and one step give the same numbers. All are computed in float32 (or float64) also under autocast.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from musicgen.linear import without_autocast


def orthogonal_gaussian(width: int, columns: int, generator: Generator) -> Tensor:
    """Draw Gaussian vectors that are orthogonal in blocks of `width`: (width, columns), float32.

    Each column is distributed as a standard Gaussian vector: a uniform direction times a norm drawn apart (Choromanski
    et al. 2021, section 3.2).
    """
    directions = orthogonal_matrices(-(-columns // width), width, generator)
    drawn = torch.randn(width, columns, generator=generator, device=generator.device)
    norms = drawn.norm(dim=0)
    return directions.transpose(0, 1).flatten(1)[:, :columns] * norms


def orthogonal_matrices(count: int, width: int, generator: Generator) -> Tensor:
    """Draw orthogonal matrices, uniformly: (count, width, width), float32."""
    drawn = torch.randn(count, width, width, generator=generator, device=generator.device)
    directions, r = torch.linalg.qr(drawn)
    # QR as computed prefers some signs; with these it is uniform (Mezzadri 2007).
    return directions * r.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)


class FeatureMap(nn.Module, ABC):
    """The contract: features of queries and of keys, (B, T, H, W) → (B, T, H, M).

    A random projection is the buffer `omega`, (W, columns), which is saved with the model and first drawn from torch's
    default generator.
    """

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
        """Redraw the projection in place; where nothing is random, do nothing."""
        if self.omega is not None:
            self.omega.copy_(orthogonal_gaussian(self.width, self.omega.shape[1], generator))

    @abstractmethod
    def queries(self, x: Tensor) -> Tensor:
        """Return the features of queries; a factor of a position's own cancels in attention and is free."""

    def keys(self, x: Tensor) -> Tensor:
        """Return the features of keys: those of queries, unless a map tells them apart."""
        return self.queries(x)

    def _projected(self, x: Tensor) -> Tensor:
        """(B, T, H, W) → (B, T, H, columns), in float32 at least."""
        dtype = torch.promote_types(x.dtype, torch.float32)
        if x.dtype is not dtype:
            x = x.to(dtype)
        return x if self.omega is None else x @ self.omega.to(dtype)


LARGEST_NORM, LARGEST_PROJECTION = 8.0, 24.0  # of what `Favor` takes exponentials of
PROJECTION_OVER_NORM = LARGEST_PROJECTION / LARGEST_NORM


@dataclass(frozen=True, kw_only=True)
class FavorConfig:
    """FAVOR+, which estimates the softmax kernel exp(q·k / √W)."""

    features: int = 128  # M: half of them with each sign

    def __post_init__(self) -> None:
        if self.features < 2 or self.features % 2:
            raise ValueError(f"features of favor must be an even number, found {self.features}")


class Favor(FeatureMap):
    """φ(x) = exp(±ωx − |x|²/2) / √M for x scaled by W^(−1/4), both signs of M/2 random ω (FAVOR+, hyperbolic).

    For queries the largest exponent of a position is subtracted, which cancels. For keys nothing may be subtracted that
    differs between positions, and far out all exponents fall below float32. So queries and keys are pulled back, along
    their own direction, to |x| ≤ 8 and |ωx| ≤ 24. Nothing is lost: the estimate's relative deviation, exp(|q + k|²/2) /
    √M (Choromanski et al. 2021, lemma 2), makes it useless at half of that. Then key features lie in e^−56 … e^24, and
    a query's weights sum to e^−56 / M at least: room in float32's e^±87 for sums over any length and for gradients. The
    factor of the pull is constant in the backward pass, so that the gradient can shorten a vector that lies outside.
    """

    signs: Tensor

    def __init__(self, config: FavorConfig, width: int) -> None:
        super().__init__(width, config.features, config.features // 2)
        self.config = config
        self.temperature = width**-0.25
        self.log_scale = math.log(config.features) / 2  # 1/√M as part of the exponent
        self.register_buffer("signs", torch.tensor([[1.0], [-1.0]]), persistent=False)

    def queries(self, x: Tensor) -> Tensor:
        """Return φ(q) over its largest entry: |q|² cancels, and exponents are zero or less."""
        with without_autocast(x.device):
            u = self._projected(x)
            _, largest, pull = self._extent(x, u)
            return _exponentials(
                u, pull.unsqueeze(-1) * self.signs, -(largest * pull) - self.log_scale
            )

    def keys(self, x: Tensor) -> Tensor:
        with without_autocast(x.device):
            u = self._projected(x)
            norm, _, pull = self._extent(x, u)
            offset = (norm * pull).square() / -2 - self.log_scale
            return _exponentials(u, pull.unsqueeze(-1) * self.signs, offset)

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        """Return what the loops take exponentials by: the least bound, what it becomes of |x| and of ωx, the offset.

        With ω over 3, |x| and ±ωx have one bound. No exponent is taken from queries there: 24 leaves room.
        """
        return LARGEST_NORM / self.temperature, LARGEST_NORM, LARGEST_PROJECTION, -self.log_scale

    def _extent(self, x: Tensor, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return |x|, max |ωx| and the factor on both, temperature included: (B, T, H, 1) each.

        The last two are constants to autograd.
        """
        norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=u.dtype)
        largest = u.detach().abs().amax(-1, keepdim=True)
        # Norms stay within theirs, too, where the projection is scaled to the largest allowed.
        limit = torch.maximum(norm.detach() * PROJECTION_OVER_NORM, largest)
        limit = limit.clamp_(min=LARGEST_PROJECTION / self.temperature)
        return norm, largest, LARGEST_PROJECTION / limit


def _exponentials(u: Tensor, factors: Tensor, offset: Tensor) -> Tensor:
    """exp(u · both factors + offset): (..., M/2), (..., 2, 1), (..., 1) → (..., M)."""
    return torch.addcmul(offset.unsqueeze(-1), u.unsqueeze(-2), factors).exp_().flatten(-2)


@dataclass(frozen=True, kw_only=True)
class ReluConfig:
    """ReLU features, of the input itself or of a random projection."""

    features: int | None = None  # M of a random projection; null: the input's own width
    floor: float = 1e-3  # keeps every weight positive

    def __post_init__(self) -> None:
        name = type(self).__name__.removesuffix("Config").lower()
        if self.features is not None and self.features < 1:
            raise ValueError(
                f"features of {name} must be at least 1, or null, found {self.features}"
            )
        if not self.floor > 0:
            raise ValueError(f"floor of {name} must be above 0, found {self.floor}")


@dataclass(frozen=True, kw_only=True)
class EluConfig(ReluConfig):
    """elu(x) + 1 (Katharopoulos et al. 2020), of the input itself or of a random projection."""

    floor: float = 1e-6  # float32 rounds elu(x) + 1 to zero below x = −17


class Relu(FeatureMap):
    """φ(x) = relu(x) + floor, of x or of ωx; PermuteFormer's LRA runs take M = 4 W."""

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


FEATURES: dict[str, tuple[type[Any], Any]] = {
    "favor": (FavorConfig, Favor),
    "relu": (ReluConfig, Relu),
    "elu": (EluConfig, Elu),
}
