"""Stochastic positional encoding as its authors published it: the yardstick of the bench, and a check of ours.

The code of all positions is a tensor (T, H, D, R) a side; every layer makes a gated copy of it and multiplies it with
its queries and keys before summing over D. Same parameters, same draw, same numbers as musicgen/position.

T time, H heads, D head width, K sines, P taps, R realisations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from musicgen.position.base import Position
from musicgen.position.conv_spe import ConvSpe
from musicgen.position.sine_spe import SineSpe


@dataclass(frozen=True)
class Materialised:
    """One draw: white noise and ε, and the code of both sides once it is made."""

    noise: Tensor
    gate_noise: Tensor  # (H, D, R)
    sides: tuple[Tensor, Tensor] | None = None  # (T, H, D, R) each


class AuthorsWay(Position):
    """A gated encoding that layers share, computed the authors' way with the parameters of ours."""

    def __init__(self, ours: SineSpe | ConvSpe) -> None:
        if not (ours.config.gated and ours.config.shared):
            raise ValueError("the authors' way is written for gated encodings that layers share")
        super().__init__(ours.config, ours.shape)
        self.ours = ours

    @property
    def qk_width(self) -> int:
        """As ours."""
        return self.ours.qk_width

    def begin(self, generator: Generator) -> Materialised:
        """Draw ε; the noise follows when the length is known."""
        size = (self.shape.heads, self.shape.head_width, self.ours.realisations)
        noise = torch.tensor(0)
        return Materialised(noise, torch.randn(size, generator=generator) * self.ours.scale)

    def cover(self, code: Materialised, start: int, stop: int) -> Materialised:
        """Make the code of all positions."""
        heads, width, realisations = code.gate_noise.shape
        if isinstance(self.ours, SineSpe):
            noise = torch.randn(heads, width, 2 * self.ours.config.sines, realisations)
            sides = sine_code(self.ours, noise, start, stop)
        else:
            taps = self.ours.config.taps
            noise = torch.randn(realisations, heads * width, stop - start + taps - 1)
            sides = conv_code(self.ours, noise)
        return Materialised(noise, code.gate_noise, sides)

    def qk(self, q: Tensor, k: Tensor, code: Any, start: int, layer: int) -> tuple[Tensor, Tensor]:
        """Gate a copy of the code for this layer and contract: (B, T, H, D) → (B, T, H, R)."""
        share = torch.sigmoid(self.ours.gates[layer]).unsqueeze(-1)  # (H, D, 1)
        gated = [(1 - share).sqrt() * c + share.sqrt() * code.gate_noise for c in code.sides]
        q_placed, k_placed = (
            (x.unsqueeze(-1) * c).sum(-2) for x, c in zip((q, k), gated, strict=True)
        )
        return q_placed, k_placed


def sine_code(ours: SineSpe, noise: Tensor, start: int, stop: int) -> tuple[Tensor, Tensor]:
    """Return q̄ and k̄ of noise (H, D, 2K, R): waves times gains times noise."""
    frequencies, offsets, gains = ours.frequencies[0].to(noise), ours.offsets[0], ours.gains[0]
    positions = torch.arange(start, stop).view(-1, 1, 1, 1)
    weights = gains.repeat_interleave(2, -1).unsqueeze(-1) * noise / math.sqrt(noise.shape[2])

    def side(offset: Tensor | float) -> Tensor:
        angles = 2 * math.pi * frequencies * positions + offset  # (T, H, D, K)
        waves = torch.stack([angles.cos(), angles.sin()], -1).flatten(-2)  # (T, H, D, 2K)
        return torch.einsum("thdw,hdwr->thdr", waves, weights) * ours.scale

    return side(offsets), side(0.0)


def conv_code(ours: ConvSpe, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Return q̄ and k̄ of noise (R, H·D, T + P − 1): a convolution by groups a side."""
    _, _, heads, width, taps = ours.filters.shape

    def side(filters: Tensor) -> Tensor:
        filtered = F.conv1d(noise, filters.reshape(heads * width, 1, taps), groups=heads * width)
        return filtered.unflatten(1, (heads, width)).permute(3, 1, 2, 0) * ours.scale

    q, k = ours.filters[0].unbind()
    return side(q), side(k)
