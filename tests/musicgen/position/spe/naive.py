"""SPE as its authors compute it: the code of all positions as a tensor, gated anew in each layer."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def sine_code(
    frequencies: Tensor, offsets: Tensor, gains: Tensor, noise: Tensor, start: int, stop: int
) -> tuple[Tensor, Tensor]:
    """Return q̄ and k̄ (T, H, D, R) of f, θ, λ (H, D, K) and noise (H, D, 2K, R)."""
    positions = torch.arange(start, stop, dtype=frequencies.dtype).view(-1, 1, 1, 1)
    strengths = gains.repeat_interleave(2, -1).unsqueeze(-1) / math.sqrt(noise.shape[2])
    scale = (noise.shape[1] * noise.shape[3]) ** 0.25

    def side(offset: Tensor) -> Tensor:
        angles = 2 * math.pi * frequencies * positions + offset
        waves = torch.stack([angles.cos(), angles.sin()], -1).flatten(-2)  # (T, H, D, 2K)
        return torch.einsum("thdw,hdwr->thdr", waves, noise * strengths) / scale

    return side(offsets), side(torch.zeros_like(offsets))


def filtered_code(filters: Tensor, noise: Tensor) -> Tensor:
    """Return (T, H, D, R) of one side's filters (H, D, P) and noise (H, D, T + P − 1, R)."""
    scale = (noise.shape[1] * noise.shape[3]) ** 0.25
    windows = noise.unfold(2, filters.shape[-1], 1)  # (H, D, T, R, P)
    return torch.einsum("hdp,hdtrp->thdr", filters, windows) / scale


def place(x: Tensor, code: Tensor, gate: Tensor | None, gate_noise: Tensor) -> Tensor:
    """Contract (B, T, H, D) with a code gated by δ (H, D) and ε (H, D, R), not yet scaled."""
    if gate is not None:
        scale = (gate_noise.shape[1] * gate_noise.shape[2]) ** 0.25
        share = torch.sigmoid(gate).unsqueeze(-1)
        code = (1 - share).sqrt() * code + share.sqrt() * gate_noise / scale
    return (x.unsqueeze(-1) * code).sum(-2)
