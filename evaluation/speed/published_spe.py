"""Stochastic positional encoding as its authors published it: what the bench compares with, and a check of ours.

The code of all positions is a tensor (1, T, H, D, R) a side, the 1 for the batch, which shares it; every layer makes a
gated copy of it and multiplies it with its queries and keys before summing over D. Same parameters, same draw, same
numbers as musicgen/position. What decides the time is as published too: the layouts in memory, in which the products of
waves or the convolutions leave the code, and the length of the filtered noise. So both take as long as the published
code (the code and two layers of it at N = 512, forward and backward, one thread: within 5 %).

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
from musicgen.position.spe.convolutional import ConvSpe
from musicgen.position.spe.sine import SineSpe


@dataclass(frozen=True)
class Materialised:
    """One draw: white noise and ε, and the code of both sides once it is made."""

    noise: Tensor
    gate_noise: Tensor  # (H, D, R)
    sides: tuple[Tensor, Tensor] | None = None  # (1, T, H, D, R) each, 1 for the batch


class PublishedSpe(Position):
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

    def cover(
        self, code: Materialised, start: int, stop: int, times: Tensor | None = None
    ) -> Materialised:
        """Make the code of all positions."""
        heads, width, realisations = code.gate_noise.shape
        if isinstance(self.ours, SineSpe):
            noise = torch.randn(heads, width, 2 * self.ours.config.sines, realisations)
            sides = sine_code(self.ours, noise, start, stop)
        else:
            taps = self.ours.config.taps
            noise = torch.randn(realisations, heads * width, stop - start + 4 * taps)
            sides = conv_code(self.ours, noise, stop - start)
        return Materialised(noise, code.gate_noise, sides)

    def qk(self, q: Tensor, k: Tensor, code: Any, start: int, layer: int) -> tuple[Tensor, Tensor]:
        """Gate a copy of the code for this layer and contract: (B, T, H, D) → (B, T, H, R)."""
        share = torch.sigmoid(self.ours.gates[layer]).unsqueeze(-1)  # (H, D, 1)
        gated = [(1 - share).sqrt() * c + share.sqrt() * code.gate_noise for c in code.sides]
        q_placed, k_placed = (
            (c * x.unsqueeze(-1)).sum(-2) for x, c in zip((q, k), gated, strict=True)
        )
        return q_placed, k_placed


def sine_code(ours: SineSpe, noise: Tensor, start: int, stop: int) -> tuple[Tensor, Tensor]:
    """Return q̄ and k̄ of noise (H, D, 2K, R): waves times gains times noise."""
    frequencies, offsets, gains = ours.frequencies[0].to(noise), ours.offsets[0], ours.gains[0]
    positions = torch.arange(start, stop).unsqueeze(-1)  # (T, 1)
    weights = gains.repeat_interleave(2, -1).unsqueeze(-1) * noise / math.sqrt(noise.shape[2])

    def side(offset: Tensor | float) -> Tensor:
        angles = 2 * math.pi * frequencies.unsqueeze(2) * positions + offset  # (H, D, T, K)
        waves = torch.stack([angles.cos(), angles.sin()], -1).flatten(-2)  # (H, D, T, 2K)
        return (waves @ weights).permute(2, 0, 1, 3).unsqueeze(0) * ours.scale

    return side(offsets.unsqueeze(2)), side(0.0)


def conv_code(ours: ConvSpe, noise: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """Return q̄ and k̄ of noise (R, H·D, T + 4P): a convolution by groups a side.

    All of the noise is filtered, and T positions of it are kept, from the P-th on: so it is in the reference vectors of
    convSPE, q̄[n] = Σ_p filter_q[p] noise[n + P + p], whose noise is T + 4P long.
    """
    _, _, heads, width, taps = ours.filters.shape

    def side(filters: Tensor) -> Tensor:
        filtered = F.conv1d(noise, filters.reshape(heads * width, 1, taps), groups=heads * width)
        kept = filtered[..., taps : taps + length].unflatten(1, (heads, width))
        return kept.permute(3, 1, 2, 0).unsqueeze(0) * ours.scale

    q, k = ours.filters[0].unbind()
    return side(q), side(k)
