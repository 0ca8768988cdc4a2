"""Store matrices as 8-bit integers with one scale a row: a quarter of float32, on disk and in what a step reads."""

from __future__ import annotations

import torch
from torch import Tensor


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
