"""The product at the heart of sineSPE: queries times waves times weights, summed, with gradients.

y_{t,r} = Σ_{w,d} x_{t,d} Ω_{t,w,d} Z_{w,d,r}, for each head: (T × 2KD)·(2KD × R), in blocks of
positions that fit the cache. Neither direction keeps x·Ω: the backward pass forms it again and
folds the gradient of the waves Ω into that of their K·D frequencies at once. Plain autograd would
keep 2K times the size of x for each side and layer, and write as much for Ω's gradient.

B batch, T time, H heads, D head width, K sines, W = 2K waves (K cosines, K sines), R realisations.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

# Numbers of x·Ω in a block. On a CPU they should stay in its cache (256 positions of the paper's
# model are 1.3 million; 5 ms for N = 1024, against 12 ms unblocked with waves innermost); a GPU
# rather wants few launches.
_BLOCK = {"cpu": 1 << 21}
_BLOCK_ELSEWHERE = 1 << 28


class _WaveProduct(Function):
    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, x: Tensor, frequencies: Tensor, weights: Tensor, waves: Tensor, start: int
    ) -> Tensor:
        ctx.save_for_backward(x, frequencies, weights, waves)
        ctx.start = start
        heads, realisations = weights.shape[0], weights.shape[-1]
        flat = weights.flatten(1, 2)  # (H, WD, R)
        y = waves.new_empty(*x.shape[:2], heads, realisations)
        for block in _blocks(x, waves):
            carried = _carried(x[:, block], waves[block])  # (H, BT, WD)
            product = torch.bmm(carried, flat)
            y[:, block] = product.unflatten(1, (len(x), -1)).permute(1, 2, 0, 3)
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, frequencies, weights, waves = ctx.saved_tensors
        dy = gradients[0].to(waves.dtype)
        flat = weights.flatten(1, 2)
        dx = torch.empty_like(x)
        d_weights = torch.zeros_like(flat, dtype=torch.promote_types(flat.dtype, torch.float32))
        d_frequencies = torch.zeros_like(frequencies, device=waves.device)
        for block in _blocks(x, waves):
            part, rows = x[:, block], waves[block]
            dy_block = dy[:, block].permute(2, 0, 1, 3).flatten(1, 2)  # (H, BT, R)
            d_weights += torch.bmm(_carried(part, rows).transpose(1, 2), dy_block)
            shape = (len(x), len(rows), rows.shape[2], rows.shape[3])
            d_carried = torch.bmm(dy_block, flat.transpose(1, 2)).unflatten(2, shape[2:])
            d_carried = d_carried.unflatten(1, shape[:2]).permute(1, 2, 0, 3, 4)  # (B, T, H, W, D)
            dx[:, block] = (d_carried * rows).sum(3)
            if ctx.needs_input_grad[1]:
                d_waves = (d_carried * part.to(rows.dtype).unsqueeze(3)).sum(0)  # (T, H, W, D)
                d_frequencies += _through_phase(d_waves, rows, ctx.start + block.start)
        d_weights = d_weights.unflatten(1, weights.shape[1:3]).to(weights.dtype)
        return dx, d_frequencies.to(frequencies.device), d_weights, None, None


def wave_product(
    x: Tensor, frequencies: Tensor, weights: Tensor, waves: Tensor, start: int
) -> Tensor:
    """Return (B, T, H, R) from x (B, T, H, D), weights Z (H, W, D, R) and waves Ω (T, H, W, D).

    `waves` are cosines and sines of 2π · frequencies (H, K, D) · position from `start`; gradients
    reach the frequencies, not the waves.
    """
    with torch.autocast(x.device.type, enabled=False):
        return _WaveProduct.apply(x, frequencies, weights.to(waves.dtype), waves, start)  # pyright: ignore[reportReturnType]


def _blocks(x: Tensor, waves: Tensor) -> Iterator[slice]:
    a_position = len(x) * waves[0].numel()
    size = max(1, _BLOCK.get(x.device.type, _BLOCK_ELSEWHERE) // a_position)
    for first in range(0, len(waves), size):
        yield slice(first, min(first + size, len(waves)))


def _carried(x: Tensor, waves: Tensor) -> Tensor:
    """x·Ω: (B, T, H, D), (T, H, W, D) → (H, BT, WD), a view of batch-first memory."""
    product = x.to(waves.dtype).unsqueeze(3) * waves  # (B, T, H, W, D)
    return product.flatten(3).flatten(0, 1).transpose(0, 1)


def _through_phase(d_waves: Tensor, waves: Tensor, start: int) -> Tensor:
    """Return the frequencies' gradient (H, K, D) from that of the waves (T, H, 2K, D)."""
    cosine, sine = waves.chunk(2, 2)
    d_cosine, d_sine = d_waves.chunk(2, 2)
    positions = torch.arange(start, start + len(waves), device=waves.device, dtype=torch.float32)
    d_phase = d_sine * cosine - d_cosine * sine
    d_phase = d_phase.to(torch.promote_types(d_phase.dtype, torch.float32))
    return torch.einsum("t,thkd->hkd", 2 * math.pi * positions.to(d_phase.dtype), d_phase)
