"""Encodings that are added to the embeddings: sinusoids (Vaswani et al., 2017, section 3.5), or learned vectors."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from musicgen.parts import AbsoluteConfig, LearnedConfig, Shape
from musicgen.position.base import Position, geometric, waves


class Absolute(Position):
    """Adds a sine and a cosine of each of C/2 frequencies to the embedding."""

    frequencies: Tensor

    def __init__(self, config: AbsoluteConfig, shape: Shape) -> None:
        super().__init__(config, shape)
        angles = geometric((shape.width + 1) // 2, shape.width, config.base)
        self.register_buffer("frequencies", angles / (2 * math.pi), persistent=False)

    def embed(self, x: Tensor, start: int) -> Tensor:
        """Add the encoding of positions from `start` on: (B, T, C) → (B, T, C)."""
        places = torch.arange(start, start + x.shape[1])
        cosine, sine = waves(self.frequencies, places, like=x)  # (T, C/2)
        table = torch.stack([sine, cosine], -1).flatten(-2)[:, : x.shape[2]]  # (T, C)
        return x + table.to(x.dtype)


class Learned(Position):
    """Adds the learned vector of the position to the embedding."""

    def __init__(self, config: LearnedConfig, shape: Shape) -> None:
        super().__init__(config, shape)
        table = torch.randn(config.max_length, shape.width) * config.initial_deviation
        self.table = nn.Parameter(table)

    def embed(self, x: Tensor, start: int) -> Tensor:
        """Add the vectors of positions from `start` on: (B, T, C) → (B, T, C)."""
        stop = start + x.shape[1]
        self.config.check(stop)
        return x + self.table[start:stop].to(x.dtype)
