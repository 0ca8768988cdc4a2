"""Linear layers, GELU and dropout, for training on a CPU and for a few rows at a time.

Precision is here too: float32 where exponentials and long sums need it, and matrices stored as int8.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

_LEVELS = 1 << 16  # a probability of dropout is rounded to so many


def without_autocast(device: torch.device) -> AbstractContextManager[Any]:
    """Return a context in which tensors keep their own precision.

    Where autocast is off anyway it costs next to nothing: a generated token enters it twice a layer.
    """
    if torch.is_autocast_enabled(device.type):
        return torch.autocast(device.type, enabled=False)
    return nullcontext()


def eager_on_cpu(x: Tensor) -> bool:
    """Say whether a function written for a CPU's caches and memory is better than torch's own, which compilers know."""
    return x.is_cpu and not torch.compiler.is_compiling()


# Matrices as 8-bit integers with one scale a row: a quarter of float32, on disk and in what a step reads.


def quantise(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return a matrix (O, I) as int8 in −127 … 127 and float32 scales (O,): weight ≈ int8 · scale."""
    weight = weight.detach().float()
    scale = weight.abs().amax(dim=1) / 127
    scale = torch.where(scale > 0, scale, torch.ones_like(scale))
    return (weight / scale[:, None]).round().to(torch.int8), scale


def restore(quantised: Tensor, scale: Tensor) -> Tensor:
    """Return the float32 matrix that int8 and scales stand for."""
    return quantised.float() * scale[:, None]


def codes_of(weight: Tensor) -> tuple[Tensor, Tensor] | None:
    """Return int8 and scales that a matrix is made of to the last bit, as one that was stored so is; or None."""
    codes, scale = quantise(weight)
    found = torch.zeros(len(scale), dtype=torch.bool)
    exact = torch.ones_like(scale)
    # A row's largest number, 127 · scale, was rounded: divided by 127 it may come back as a neighbour of the scale.
    for near in (scale, torch.nextafter(scale, scale * 2), torch.nextafter(scale, scale * 0)):
        fits = (restore(codes, near) == weight).all(1) & ~found
        exact, found = torch.where(fits, near, exact), found | fits
    return (codes, exact) if bool(found.all()) else None


class Dropout(nn.Dropout):
    """Dropout in a third of the time and a quarter of the memory of torch's own, on a CPU.

    Four numbers share a random word of 64 bits, and a byte of each is kept for the backward pass.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return any shape → the same."""
        dropped = round(self.p * _LEVELS)
        if not self.training or dropped == 0:
            return input
        if not eager_on_cpu(input):
            return F.dropout(input, self.p)
        return _Dropped.apply(input, dropped)  # pyright: ignore[reportReturnType]


class _Dropped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, dropped: int) -> Tensor:
        """Drop `dropped` of 65,536 numbers."""
        words = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(1 << 63), None)
        levels = words.view(torch.int16)[: x.numel()].view(x.shape)  # uniform in ±2^15
        kept = levels > dropped - _LEVELS // 2 - 1
        ctx.save_for_backward(kept)
        ctx.scale = _LEVELS / max(1, _LEVELS - dropped)
        return (x * kept).mul_(ctx.scale)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # pyright: ignore
        (kept,) = ctx.saved_tensors
        return (gradient * kept).mul_(ctx.scale), None


MOST = 8  # rows of which each is computed as if it were alone


class Linear(nn.Linear):
    """A linear layer that computes a row alike, to the last bit, alone or among up to seven others."""

    def forward(self, input: Tensor) -> Tensor:
        """Return (B, T, I) → (B, T, O)."""
        return linear(input, self.weight, self.bias)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return F.linear, (B, T, I) → (B, T, O), of never fewer than eight rows, for which kernels add up alike."""
    rows = x.shape[0] * x.shape[1]
    if rows >= MOST:
        return F.linear(x, weight, bias)
    filled = F.pad(x.flatten(0, 1), (0, 0, 0, MOST - rows))
    return F.linear(filled, weight, bias).narrow(0, 0, rows).unflatten(0, x.shape[:2])


def gelu_linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return GELU(x) Wᵀ + b, (..., I) → (..., O), and keep x alone for the backward pass.

    To compute GELU again takes 4 ms of the 850 of a step of six layers of the paper's size, for 48 MB less.
    """
    if not eager_on_cpu(x) or torch.is_autocast_enabled("cpu"):
        return F.linear(F.gelu(x), weight, bias)
    return _GeluLinear.apply(x, weight, bias)  # pyright: ignore[reportReturnType]


class _GeluLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return F.linear(F.gelu(x), weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # pyright: ignore
        x, weight = ctx.saved_tensors
        rows = dy.flatten(0, -2)
        d_weight = rows.mT @ F.gelu(x).flatten(0, -2)
        dx = torch.ops.aten.gelu_backward(dy @ weight, x)
        return dx, d_weight, rows.sum(0)
