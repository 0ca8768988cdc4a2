"""Linear layers, GELU and dropout, for training on a CPU and for a few rows at a time."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from musicgen.layers.precision import eager_on_cpu

# Dropout that costs a training step on a CPU a third of the time and a quarter of the memory.
#
# torch's own draws a float for each number and keeps it until the backward pass, 13 times in a step of six layers.
# Here four numbers share a random word of 64 bits, and a byte is kept of each.

_LEVELS = 1 << 16  # a probability is rounded to so many


class Dropout(nn.Dropout):
    """Set numbers to 0 at random while training, and the others up so that the mean stays."""

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
    """Return F.linear, (B, T, I) → (B, T, O), of never fewer than eight rows.

    Libraries take a kernel that adds up in another order for one row, for two, for a few. Further rows of no meaning
    make the number always the same.
    """
    rows = x.shape[0] * x.shape[1]
    if rows >= MOST:
        return F.linear(x, weight, bias)
    filled = F.pad(x.flatten(0, 1), (0, 0, 0, MOST - rows))
    return F.linear(filled, weight, bias).narrow(0, 0, rows).unflatten(0, x.shape[:2])


# GELU and the linear layer after it, which keep one array for the backward pass.
#
# Autograd keeps what goes into GELU and what comes out of it: in a feed-forward layer the widest arrays of all. What
# comes out is computed again here: 4 ms of the 850 of a step of six layers of the paper's size, for 48 MB less.


def gelu_linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return GELU(x) Wᵀ + b, (..., I) → (..., O)."""
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
