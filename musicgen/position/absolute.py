"""Absolute sinusoidal encoding added to the embeddings (Vaswani et al., 2017, section 3.5)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from musicgen.position.base import Position, Shape, geometric, waves


@dataclass(frozen=True, kw_only=True)
class AbsoluteConfig:
    """Sines and cosines with wavelengths from 2π to 2π · `base` tokens."""

    base: float = 10_000.0

    def __post_init__(self) -> None:
        if self.base <= 1:
            raise ValueError(f"base is {self.base}; it must be greater than 1")


class Absolute(Position):
    """Adds a sine and a cosine of each of C/2 frequencies to the embedding."""

    frequencies: Tensor

    def __init__(self, config: AbsoluteConfig, shape: Shape) -> None:
        super().__init__(config, shape)
        angles = geometric((shape.width + 1) // 2, shape.width, config.base)
        self.register_buffer("frequencies", angles / (2 * math.pi), persistent=False)

    def embed(self, x: Tensor, start: int | Tensor) -> Tensor:
        """Add the encoding of positions from `start` on: (B, T, C) → (B, T, C)."""
        places = torch.arange(x.shape[1]) + start
        cosine, sine = waves(self.frequencies, places, like=x)  # (T, C/2), or (B, T, C/2)
        table = torch.stack([sine, cosine], -1).flatten(-2)[..., : x.shape[2]]  # (…, T, C)
        return x + table.to(x.dtype)
