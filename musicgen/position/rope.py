"""Rotary encoding of queries and keys (RoPE; Su et al., 2021), before the feature map.

In musical time the angles are initialised with harmonics of bars, and learned (base.py).
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from musicgen.parts import RopeConfig, Shape
from musicgen.position.base import MusicalFrequencies, Position, geometric, waves


def rotate(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotate each pair (x₂ᵢ, x₂ᵢ₊₁) by its angle: (..., 2P) with angles (..., P)."""
    even, odd = x[..., 0::2], x[..., 1::2]
    rotated = [even * cosine - odd * sine, even * sine + odd * cosine]
    return torch.stack(rotated, -1).flatten(-2)


class Rope(Position):
    """Rotates queries and keys by angles proportional to their position."""

    frequencies: Tensor

    def __init__(self, config: RopeConfig, shape: Shape) -> None:
        super().__init__(config, shape)
        width = shape.head_width
        if width % 2:
            raise ValueError(
                f"rope rotates pairs, so it needs an even head width, not {width}; "
                f"choose a width or a number of heads that gives {width + 1}"
            )
        if self.musical:
            self.learned = MusicalFrequencies(shape, width // 2)
            return
        angles = geometric(width // 2, width, config.base)
        self.register_buffer("frequencies", angles / (2 * math.pi), persistent=False)

    def window(self, places: Tensor) -> tuple[Tensor, Tensor]:
        """Return the cosines and sines of the angles, (T, 1, D/2); in musical time (2, B, T, H, D/2)."""
        if self.musical:
            return waves(self.learned(), places, like=self.learned.offsets)
        cosine, sine = waves(self.frequencies, places, like=self.frequencies)
        return cosine.unsqueeze(-2), sine.unsqueeze(-2)

    def qk(self, q: Tensor, k: Tensor, code: Any) -> tuple[Tensor, Tensor]:
        rotated = rotate(torch.stack([q, k]), *code).to(q.dtype)
        return rotated[0], rotated[1]
