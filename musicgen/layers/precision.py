"""Precision: float32 where exponentials and long sums need it, kernels of our own, and matrices stored as int8."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor


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
