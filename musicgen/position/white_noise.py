"""Gaussian noise over all positions, made where it is asked for and the same each time."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Generator, Tensor

BLOCK = 64  # positions that come from one generator


class WhiteNoise:
    """Standard normal numbers for every position n ≥ 0, in blocks seeded by (seed, block).

    Nothing but the blocks of the latest window is kept, and only so that neighbouring windows,
    which overlap, need not draw them again: an object answers the same whatever was asked before.
    """

    def __init__(self, seed: int, shape: Sequence[int], like: Tensor) -> None:
        self.seed = seed
        self.shape = tuple(shape)  # (..., R)
        self.device = like.device
        self.dtype = torch.promote_types(like.dtype, torch.float32)
        self._kept: dict[int, Tensor] = {}

    def pieces(self, start: int, stop: int) -> list[tuple[int, Tensor]]:
        """Return the noise of positions start … stop − 1 in pieces: first position, (..., n, R)."""
        numbers = range(start // BLOCK, (stop - 1) // BLOCK + 1)
        kept = self._kept
        blocks = {n: kept[n] if n in kept else self._draw(n) for n in numbers}
        self._kept = blocks
        return [
            (max(start, n * BLOCK), block[..., max(0, start - n * BLOCK) : stop - n * BLOCK, :])
            for n, block in blocks.items()
        ]

    def _draw(self, block: int) -> Tensor:
        generator = Generator(self.device).manual_seed(_mixed(self.seed, block))
        size = (*self.shape[:-1], BLOCK, self.shape[-1])
        return torch.randn(size, generator=generator, device=self.device).to(self.dtype)


def _mixed(seed: int, block: int) -> int:
    """Hash to a seed (SplitMix64), as generators of neighbouring seeds may resemble each other."""
    mask = (1 << 64) - 1
    x = (seed + (block + 1) * 0x9E3779B97F4A7C15) & mask
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
    return (x ^ (x >> 31)) >> 1  # a generator takes seeds below 2⁶³
