"""Gaussian noise over all positions, made where it is asked for and the same each time."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Generator, Tensor

BLOCK = 64  # positions that come from one generator


class WhiteNoise:
    """Standard normal numbers for every position n ≥ 0, in blocks seeded by (seed, block).

    The blocks of the latest window are kept, so that a window inside it (a block's, in the backward
    pass) or overlapping it (the next one, in generation) need not draw them again. An object
    answers the same whatever was asked before.
    """

    def __init__(self, seed: int, shape: Sequence[int], like: Tensor) -> None:
        self.seed = seed
        self.shape = tuple(shape)  # (..., R)
        self.device = like.device
        self.dtype = torch.promote_types(like.dtype, torch.float32)
        self._first = 0  # block of
        self._kept = self._empty(0)  # (..., blocks · BLOCK, R)

    def window(self, start: int, stop: int) -> Tensor:
        """Return the noise of positions start … stop − 1: (..., stop − start, R)."""
        first, last = start // BLOCK, (stop - 1) // BLOCK + 1
        if first < self._first or last > self._first + self._kept.shape[-2] // BLOCK:
            self._keep(first, last)
        return self._kept.narrow(-2, start - self._first * BLOCK, stop - start)

    def forget(self) -> None:
        """Keep nothing: what is asked again is drawn again."""
        self._first, self._kept = 0, self._empty(0)

    def _keep(self, first: int, last: int) -> None:
        """Have the blocks first … last − 1 at hand, and no others."""
        old, old_first = self._kept, self._first
        kept = self._empty(last - first)
        for block in range(first, last):
            place = (block - old_first) * BLOCK
            known = 0 <= place < old.shape[-2]
            drawn = old.narrow(-2, place, BLOCK) if known else self._draw(block)
            kept.narrow(-2, (block - first) * BLOCK, BLOCK).copy_(drawn)
        self._first, self._kept = first, kept

    def _empty(self, blocks: int) -> Tensor:
        size = (*self.shape[:-1], blocks * BLOCK, self.shape[-1])
        return torch.empty(size, device=self.device, dtype=self.dtype)

    def _draw(self, block: int) -> Tensor:
        generator = Generator(self.device).manual_seed(_mixed(self.seed, block))
        size = (*self.shape[:-1], BLOCK, self.shape[-1])
        return torch.randn(size, generator=generator, device=self.device)  # the same in any type


def _mixed(seed: int, block: int) -> int:
    """Hash to a seed (SplitMix64), as generators of neighbouring seeds may resemble each other."""
    mask = (1 << 64) - 1
    x = (seed + (block + 1) * 0x9E3779B97F4A7C15) & mask
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
    return (x ^ (x >> 31)) >> 1  # a generator takes seeds below 2⁶³
