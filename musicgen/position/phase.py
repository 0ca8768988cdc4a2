"""Phases of waves, exact at positions of any size."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def exact(x: Tensor) -> Tensor:
    """Return x in float64, on the CPU where its device knows no float64 (mps).

    What a frequency is derived from goes through here: a frequency rounded to float32 on one device
    and not on another is another wave at position 10⁶.
    """
    if x.device.type == "mps":
        x = x.cpu()  # first: a copy to float64 would be made over there
    return x.to(torch.float64)


def phases(frequencies: Tensor, places: Tensor, like: Tensor) -> Tensor:
    """Return 2π · frequency · place, less whole turns: cycles a token, or a tick, (...) at places (*) → (*, ...).

    Frequency × position is formed in float64 and wrapped to [0, 1) before it is rounded to the type
    of `like`, float32 at least: at position 10⁶ a float32 product is off by hundredths of a cycle.
    """
    frequencies = exact(frequencies)
    places = exact(places).to(frequencies.device)
    cycles = places.view(*places.shape, *[1] * frequencies.ndim) * frequencies
    wrapped = cycles - cycles.floor()
    return wrapped.to(like.device, torch.promote_types(like.dtype, torch.float32)) * (2 * math.pi)


def waves(frequencies: Tensor, places: Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
    """Return cosine and sine of the phases, each in their shape."""
    angles = phases(frequencies, places, like)
    return angles.cos(), angles.sin()


def geometric(count: int, width: int, base: float = 10_000.0) -> Tensor:
    """Return the angles a token base^(−2t/width), t = 0 … count − 1 (Vaswani et al., 2017)."""
    return torch.exp(torch.arange(count) * (-2 * math.log(base) / width))
