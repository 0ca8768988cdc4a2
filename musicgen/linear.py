"""Linear layers whose rows do not depend on each other, int8 weights, and a guard against autocast."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def without_autocast(device: torch.device) -> AbstractContextManager[Any]:
    """Return a context with autocast off, for exponentials and long sums that need float32.

    It costs next to nothing where autocast is off already: each generated token enters it twice per layer.
    """
    if torch.is_autocast_enabled(device.type):
        return torch.autocast(device.type, enabled=False)
    return nullcontext()


def eager_on_cpu(x: Tensor) -> bool:
    """Return whether to use a function optimised for CPU caches instead of torch's own, which compilers understand."""
    return x.is_cpu and not torch.compiler.is_compiling()


# Matrices as 8-bit integers with one scale per row take a quarter of the space of float32, on disk and in the memory
# that a step reads.


def quantise(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Quantise a matrix (O, I) to int8 in −127 … 127 and float32 scales (O,): weight ≈ int8 · scale."""
    weight = weight.detach().float()
    scale = weight.abs().amax(dim=1) / 127
    scale = torch.where(scale > 0, scale, torch.ones_like(scale))
    return (weight / scale[:, None]).round().to(torch.int8), scale


def dequantise(quantised: Tensor, scale: Tensor) -> Tensor:
    """Return the float32 matrix of int8 values and scales."""
    return quantised.float() * scale[:, None]


def exact_codes(weight: Tensor) -> tuple[Tensor, Tensor] | None:
    """Return the int8 values and scales that restore a matrix exactly; None for a matrix that has no such values."""
    codes, scale = quantise(weight)
    found = torch.zeros(len(scale), dtype=torch.bool)
    exact = torch.ones_like(scale)
    # The largest value of a row, 127 · scale, was rounded, so that a division by 127 can give a neighbour of the scale.
    for near in (scale, torch.nextafter(scale, scale * 2), torch.nextafter(scale, scale * 0)):
        fits = (dequantise(codes, near) == weight).all(1) & ~found
        exact, found = torch.where(fits, near, exact), found | fits
    return (codes, exact) if bool(found.all()) else None


_MIN_ROWS = 8


class Linear(nn.Linear):
    """A linear layer that gives each row the same result, to the last bit, alone and among up to seven others."""

    def forward(self, input: Tensor) -> Tensor:
        return linear(input, self.weight, self.bias)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return F.linear, (B, T, I) → (B, T, O), padded to eight rows: for fewer, kernels sum in another order."""
    rows = x.shape[0] * x.shape[1]
    if rows >= _MIN_ROWS:
        return F.linear(x, weight, bias)
    padded = F.pad(x.flatten(0, 1), (0, 0, 0, _MIN_ROWS - rows))
    return F.linear(padded, weight, bias).narrow(0, 0, rows).unflatten(0, x.shape[:2])
