"""The product at the heart of sineSPE: queries times waves times weights, summed, with gradients.

y_{t,r} = Σ_{w,d} x_{t,d} g_d Ω_{t,w,d} Z_{w,d,r}, for each head: (T × 2KD)·(2KD × R), in blocks of
positions that fit the cache. Neither direction keeps x·g·Ω: the backward pass forms it again and
folds the gradient of the waves Ω into that of their K·D frequencies at once. Plain autograd would
keep 2K times the size of x for each side and layer, and write as much for Ω's gradient. The gains g
are in it for the same reason: x·g would be kept as well.

B batch, T time, H heads, D head width, K sines, W = 2K waves (K cosines, K sines), R realisations.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

# Numbers of x·Ω in a block. On a CPU they should stay in its cache; a GPU wants few launches.
_BLOCK = {"cpu": 1 << 19}
_BLOCK_ELSEWHERE = 1 << 28


class _WaveProduct(Function):
    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, x: Tensor, gains: Tensor, frequencies: Tensor, weights: Tensor, waves: Tensor, places: Tensor,
    ) -> Tensor:  # fmt: skip
        """The gains are (H, 1, 1, D) here."""
        ctx.save_for_backward(x, gains, frequencies, weights, waves, places)
        flat = weights.flatten(1, 2)  # (H, WD, R)
        y = waves.new_empty(*x.shape[:3], flat.shape[2])
        for block in _blocks(x, waves):
            by_head = _by_head(x[:, block], waves) * gains
            carried = by_head.unsqueeze(3) * waves[:, None, block]
            product = torch.bmm(carried.flatten(3).flatten(1, 2), flat)  # (H, BT, R)
            y[:, block] = product.unflatten(1, (len(x), -1)).permute(1, 2, 0, 3)
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, gains, frequencies, weights, waves, places = ctx.saved_tensors
        flat = weights.flatten(1, 2)
        dx = torch.empty_like(x)
        sums = torch.promote_types(waves.dtype, torch.float32)
        d_weights = torch.zeros_like(flat, dtype=sums)
        d_gains = torch.zeros_like(gains, dtype=sums)
        d_frequencies = torch.zeros_like(frequencies, device=waves.device, dtype=sums)
        for block in _blocks(x, waves):
            rows = waves[:, None, block]  # (H, 1, T, W, D)
            plain = _by_head(x[:, block], waves)  # (H, B, T, D)
            by_head = plain * gains
            dy = _by_head(gradients[0][:, block], waves).flatten(1, 2)  # (H, BT, R)
            carried = (by_head.unsqueeze(3) * rows).flatten(3).flatten(1, 2)  # (H, BT, WD)
            d_weights += torch.bmm(carried.transpose(1, 2), dy)
            d_carried = torch.bmm(dy, flat.transpose(1, 2)).view(
                *by_head.shape[:3], *rows.shape[3:]
            )
            d_by_head = (d_carried * rows).sum(3)  # (H, B, T, D)
            d_gains += (d_by_head * plain).sum((1, 2), keepdim=True, dtype=sums)
            dx[:, block] = (d_by_head * gains).permute(1, 2, 0, 3)
            if ctx.needs_input_grad[2]:
                d_frequencies += _through_phase(d_carried, rows, by_head, places[block])
        d_frequencies = (2 * math.pi * d_frequencies).to(frequencies)
        d_weights = d_weights.view_as(weights).to(weights.dtype)
        return dx, d_gains.to(gains.dtype), d_frequencies, d_weights, None, None


def wave_product(
    x: Tensor, gains: Tensor, frequencies: Tensor, weights: Tensor, waves: Tensor, places: Tensor
) -> Tensor:
    """Return (B, T, H, R) from x (B, T, H, D), gains g (H, D), weights Z (H, W, D, R) and waves Ω (H, T, W, D).

    Weights and waves are of one type, which is that of the products, and contiguous.
    `waves` are cosines and sines of 2π · frequencies (H, K, D) · places (T,); gradients reach the
    frequencies, not the waves.
    """
    with torch.autocast(x.device.type, enabled=False):
        return _WaveProduct.apply(  # pyright: ignore[reportReturnType]
            x, gains[:, None, None], frequencies, weights, waves, places
        )


def _blocks(x: Tensor, waves: Tensor) -> Iterator[slice]:
    length = waves.shape[1]
    a_position = len(x) * waves.numel() // length
    size = max(1, _BLOCK.get(x.device.type, _BLOCK_ELSEWHERE) // a_position)
    for first in range(0, length, size):
        yield slice(first, min(first + size, length))


def _by_head(x: Tensor, like: Tensor) -> Tensor:
    """(B, T, H, ·) → (H, B, T, ·), in the type of products."""
    return x.to(like.dtype).permute(2, 0, 1, 3).contiguous()


def _through_phase(d_carried: Tensor, waves: Tensor, x: Tensor, places: Tensor) -> Tensor:
    """Return the gradient of the frequencies / 2π, (H, K, D), from that of x·Ω, (H, B, T, W, D)."""
    cosine, sine = waves.chunk(2, 3)
    d_cosine, d_sine = d_carried.chunk(2, 3)
    d_phase = (d_sine * cosine).addcmul_(d_cosine, sine, value=-1)  # (H, B, T, K, D)
    sums = torch.promote_types(x.dtype, torch.float32)
    return (d_phase * (x.to(sums) * places.unsqueeze(-1)).unsqueeze(3)).sum((1, 2))
