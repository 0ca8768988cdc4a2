"""Absolute learned encoding: one vector per position, up to a maximum length."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from musicgen.position.base import Position, Shape
from tokenization.records import check_fields


@dataclass(frozen=True, kw_only=True)
class LearnedConfig:
    """One learned vector for each of `max_length` positions."""

    max_length: int = 2048
    initial_deviation: float = 0.02

    def __post_init__(self) -> None:
        check_fields(self, "max_length")
        if self.initial_deviation < 0:
            raise ValueError(f"initial_deviation is {self.initial_deviation}; it must be 0 or more")


class Learned(Position):
    """Adds the learned vector of the position to the embedding."""

    def __init__(self, config: LearnedConfig, shape: Shape) -> None:
        super().__init__(config, shape)
        table = torch.randn(config.max_length, shape.width) * config.initial_deviation
        self.table = nn.Parameter(table)

    def embed(self, x: Tensor, start: int | Tensor) -> Tensor:
        """Add the vectors of positions from `start` on: (B, T, C) → (B, T, C)."""
        places = torch.arange(x.shape[1]) + start  # (T,), or (B, T)
        self.check(int(places.max()) + 1)
        return x + self.table[places.to(self.table.device)].to(x.dtype)

    def check(self, stop: int) -> None:
        if stop > len(self.table):
            raise ValueError(
                f"the sequence reaches {stop} tokens, but the learned positional encoding has a "
                f"maximum length of {len(self.table)}; shorten the sequence, or choose an encoding "
                f"without a limit, such as rope or sine_spe"
            )
