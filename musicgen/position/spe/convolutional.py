"""convSPE (Liutkus et al., 2021, equation 22): templates that vanish beyond the length of the filters.

P_d(m − n) is the correlation of two learned filters of P taps, realised by filtering the same white noise with both.
q̄[n] = Σ_p filter_q[p] noise[n + p] uses noise from its position onwards, so that the code is stationary from the start.

B batch, S slots, H heads, D head width, P taps, R realisations, T time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from musicgen.parts import ConvSpeConfig, Shape
from musicgen.position.spe.base import (
    Contraction,
    StochasticPosition,
    contract,
    working_dtype,
)

BLOCK = 64  # positions per seeded block of noise


class WhiteNoise:
    """Standard normal noise for all positions n ≥ 0, drawn in blocks seeded by (seed, block).

    The blocks of the latest window are cached, for a window within it, as in the backward pass, or the next one.
    """

    def __init__(self, seed: int, shape: Sequence[int], like: Tensor) -> None:
        self.seed = seed
        self.shape = tuple(shape)  # (..., R)
        self.device = like.device
        self.dtype = torch.promote_types(like.dtype, torch.float32)
        self._blocks: dict[int, Tensor] = {}

    def window(self, start: int, stop: int) -> Tensor:
        """Return the noise of positions start … stop − 1: (..., stop − start, R)."""
        first, known = start // BLOCK, self._blocks
        numbers = range(first, (stop - 1) // BLOCK + 1)
        self._blocks = {n: known[n] if n in known else self._draw(n) for n in numbers}
        whole = torch.cat([*self._blocks.values()], -2)
        return whole.narrow(-2, start - first * BLOCK, stop - start)

    def _draw(self, block: int) -> Tensor:
        generator = Generator(self.device).manual_seed(_mixed(self.seed, block))
        size = (*self.shape[:-1], BLOCK, self.shape[-1])
        drawn = torch.randn(size, generator=generator, device=self.device)  # the same for any dtype
        return drawn.to(self.dtype)


def _mixed(seed: int, block: int) -> int:
    """Hash seed and block to a seed (SplitMix64), since generators of neighbouring seeds can be correlated."""
    mask = (1 << 64) - 1
    x = (seed + (block + 1) * 0x9E3779B97F4A7C15) & mask
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
    return (x ^ (x >> 31)) >> 1  # a generator takes seeds below 2⁶³


# The code of convSPE: filtered white noise, contracted with queries and keys.
#
# q̄[n] = Σ_p filter_q[p] · noise[n + p], likewise k̄ (equation 22), is computed as products of banded Toeplitz matrices
# with blocks of noise, which is faster than Fourier transforms of many short rows.
#
# A leading dimension of 2 is queries and keys.


def toeplitz(filters: Tensor, rows: int) -> Tensor:
    """Return banded Toeplitz matrices with the taps from the diagonal on: (..., P) → (..., rows, rows + P − 1)."""
    columns = rows + filters.shape[-1] - 1
    repeated = filters.unsqueeze(-2).expand(*filters.shape[:-1], rows, -1)
    # Each padded row is a column too long, which shifts the next one.
    flat = functional.pad(repeated, (0, rows)).flatten(-2)
    return flat[..., : rows * columns].unflatten(-1, (rows, columns))


def filtered(
    filters: Tensor, noise: WhiteNoise, start: int, stop: int, dtype: torch.dtype
) -> Tensor:
    """Return the codes of a window, (2, H, D, P) → (2, T, H, D, R)."""
    taps, blocks = filters.shape[-1], []
    with torch.autocast(filters.device.type, enabled=False):
        whole = noise.window(start, stop + taps - 1)
        by_channel = filters.movedim(0, 2).flatten(0, 1).to(noise.dtype)  # (HD, 2, P)
        matrices = toeplitz(by_channel, min(BLOCK, stop - start))  # (HD, 2, rows, columns)
        for first in range(start, stop, BLOCK):
            rows = min(BLOCK, stop - first)
            columns = rows + taps - 1
            window = whole.narrow(-2, first - start, columns).flatten(0, 1)  # (HD, columns, R)
            block = torch.bmm(matrices[:, :, :rows, :columns].flatten(1, 2), window)
            block = block.unflatten(0, noise.shape[:2]).unflatten(2, (2, rows))  # (H, D, 2, ·, R)
            blocks.append(block.permute(2, 3, 0, 1, 4).to(dtype))
        return torch.cat(blocks, 1)


def contract_both(
    code: Tensor, q: Tensor, k: Tensor, gains: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Contract queries and keys with a window's code, (2, T, H, D, R): (B, T, H, D) each → (B, T, H, R) each."""
    if gains is not None:
        q, k = q * gains, k * gains
    with torch.autocast(q.device.type, enabled=False):
        return contract(q, code[0]), contract(k, code[1])


class ConvSpe(StochasticPosition):
    """Convolutional SPE with two learned filters for each head and feature."""

    def __init__(self, config: ConvSpeConfig, shape: Shape) -> None:
        super().__init__(config, shape)
        size = (self.slots, 2, shape.heads, shape.head_width, config.taps)
        self.filters = nn.Parameter(torch.rand(size) / (config.taps / 2) ** 0.5)

    def draw(self, generator: Generator) -> WhiteNoise:
        """Draw the seed of the noise; a generator on the CPU avoids a wait for the GPU."""
        seed = torch.randint(2**62, (), generator=generator, device=generator.device)
        size = (self.shape.heads, self.shape.head_width, self.realisations)
        return WhiteNoise(int(seed), size, like=self.filters)

    def contraction(
        self, noise: WhiteNoise, slot: int, start: int, stop: int, times: Tensor | None
    ) -> Contraction:
        """Return the code of a whole window."""
        filters = self.filters[slot] * self.scale
        code = filtered(filters, noise, start, stop, working_dtype(self.filters))
        return partial(contract_both, code)
