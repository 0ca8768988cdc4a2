"""LRPE (Qin et al., 2023): linearised relative positional encoding by a unitary matrix that depends on position.

W_s = Pᴴ Λ⁽ˢ⁾ P. As W_sᴴ W_t = W_{t−s}, similarities depend on the distance alone. Pᴴ cancels in them, so that features
are encoded by Λ⁽ˢ⁾ P. Encoded features can be negative, so that the denominator of attention is computed from the
features before encoding. In musical time s is a tick, and the angles α are initialised with harmonics of bars
(base.py).
"""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor, nn

from musicgen.parts import LrpeConfig, Shape
from musicgen.position.base import (
    MusicalFrequencies,
    Position,
    as_float64,
    geometric,
    waves,
)
from musicgen.position.permuteformer import PermutationPowers
from musicgen.position.rope import rotate


class Lrpe(Position):
    """Mixes each head's features by P, and rotates or permutes them according to the position."""

    normaliser_is_positioned = False

    householder: Tensor

    def __init__(self, config: LrpeConfig, shape: Shape) -> None:
        super().__init__(config, shape)
        heads, width = shape.heads, shape.features
        if config.type == "orthogonal" and width % 2:
            raise ValueError(
                f"lrpe of type orthogonal rotates pairs of features, so it needs an even number of "
                f"them, not {width}"
            )
        if config.core == "householder":
            vectors = torch.randn(heads, width, generator=Generator().manual_seed(config.seed))
            vectors = vectors / vectors.norm(dim=-1, keepdim=True)
            if config.learned_core:
                self.householder = nn.Parameter(vectors)
            else:
                self.register_buffer("householder", vectors)
        if config.type == "permutation":
            self.powers = PermutationPowers(heads, width, config.seed)
        else:
            pairs = {"unitary": width, "orthogonal": width // 2, "mixed": (width // 2 + 1) // 2}
            count = pairs[config.type]
            if self.musical:
                self.learned = MusicalFrequencies(shape, count)
                return
            angles = _angles(config.angles, count, width).repeat(heads, 1)  # α (H, ·)
            self.angles = nn.Parameter(angles, requires_grad=config.angles == "learned")

    def window(self, places: Tensor) -> tuple[Tensor, ...]:
        """Return Λ: powers, (T, H, M), or cosines and sines of sα, (T, H, ·); in musical time (2, B, T, H, ·)."""
        if self.config.type == "permutation":
            return (self.powers(places),)
        if self.musical:
            return waves(self.learned(), places, like=self.learned.offsets)
        return waves(as_float64(self.angles) / (2 * math.pi), places, like=self.angles)

    def features(self, fq: Tensor, fk: Tensor, code: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        """Return Λ⁽ˢ⁾ P φ: (B, T, H, M) → (B, T, H, M), or (B, T, H, 2M) for type unitary."""
        both = torch.stack([fq, fk])
        encoded = self._encode(both, code).to(fq.dtype)
        return encoded[0], encoded[1]

    def _encode(self, x: Tensor, rows: tuple[Tensor, ...]) -> Tensor:
        mixed = self._mix(x)
        if self.config.type == "permutation":
            return mixed.gather(-1, rows[0].expand_as(mixed))
        if self.config.type == "orthogonal":
            return rotate(mixed, *rows)
        if self.config.type == "mixed":
            half = 2 * rows[0].shape[-1]
            return torch.cat([rotate(mixed[..., :half], *rows), mixed[..., half:]], -1)
        cosine, sine = rows
        return torch.cat([mixed * cosine, mixed * sine], -1)  # real and imaginary part

    def _mix(self, x: Tensor) -> Tensor:
        """Return P x for a real P: (B, T, H, M) → (B, T, H, M)."""
        if self.config.core == "identity":
            return x
        v = self.householder  # equation 73; stored in low precision, |v| can differ from 1
        return x - (x * v).sum(-1, keepdim=True) * (2 * v / v.square().sum(-1, keepdim=True))


def _angles(kind: str, count: int, width: int) -> Tensor:
    """Return the initial or fixed angles of a head: (count,)."""
    number = torch.arange(1, count + 1)
    if kind == "b":
        return math.pi / 2 * number / count
    return math.pi / 2 / number if kind == "c" else geometric(count, width)
