"""convSPE in N dimensions (Liutkus et al. 2021, equation 22 with n in ℤᴺ): noise on a grid, by learned filters.

q̄[n] = Σ_p filter_q[p] noise[n + p] for p in a box of P taps a dimension, so that q̄[m]·k̄[n] is on average the
correlation of the filters at m − n: it vanishes for places further apart than P in any dimension. By FFT over the grid.

H heads, D head width, P taps, R realisations, T cells of the grid, row by row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import torch
from torch import Generator, Tensor, nn

from evaluation.benchmarks.positions.grid import check_sizes
from musicgen.position.base import Shape
from musicgen.position.spe.base import Placement, SpeConfig, StochasticPosition, contract
from tokenization.records import check_fields


@dataclass(frozen=True, kw_only=True)
class GridConvSpeConfig(SpeConfig):
    """One code for all layers, as in the paper's runs of the Long Range Arena."""

    sizes: tuple[int, ...] = (32, 32)
    taps: int = 8  # P, in each dimension

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(self, "taps")
        check_sizes(self.sizes)
        if not self.shared:
            raise ValueError("on a grid all layers share one code; leave out `shared`")


class GridConvSpe(StochasticPosition):
    """Two learned filters of P × … × P taps for each head and feature."""

    def __init__(self, config: GridConvSpeConfig, shape: Shape) -> None:
        super().__init__(config, shape)
        dimensions = len(config.sizes)
        size = (2, shape.heads, shape.head_width, *[config.taps] * dimensions)
        self.filters = nn.Parameter(torch.rand(size) / (config.taps**dimensions / 2) ** 0.5)

    def draw(self, generator: Generator) -> Tensor:
        """Draw the noise of the grid and of the taps past its ends: (H, D, R, *)."""
        around = [size + self.config.taps - 1 for size in self.config.sizes]
        size = (self.shape.heads, self.shape.head_width, self.realisations, *around)
        return torch.randn(size, generator=generator, device=generator.device).to(self.filters)

    def long(
        self, noise: Tensor, slot: int, start: int, stop: int, times: Tensor | None
    ) -> Placement:
        """Form the code of the cells from start to stop."""
        return partial(_placed, self.materialise(noise, slot, start, stop))

    def materialise(self, noise: Tensor, slot: int, start: int, stop: int) -> tuple[Tensor, Tensor]:
        """Return q̄ and k̄ of a stretch of cells, (T, H, D, R) each."""
        sizes = self.config.sizes
        if stop > math.prod(sizes):
            raise ValueError(f"the sequence reaches {stop}, past a grid of {list(sizes)}")
        axes, around = tuple(range(-len(sizes), 0)), noise.shape[-len(sizes) :]
        spectrum = torch.fft.rfftn(noise, dim=axes)
        filters = torch.fft.rfftn(self.filters * self.scale, s=around, dim=axes)
        inside = tuple(slice(size) for size in sizes)
        both = []
        for side in filters:
            code = torch.fft.irfftn(spectrum * side.conj().unsqueeze(2), s=around, dim=axes)
            code = code[(..., *inside)].flatten(3)[..., start:stop]  # (H, D, R, T)
            both.append(code.permute(3, 0, 1, 2))
        return both[0], both[1]


def _placed(
    codes: tuple[Tensor, Tensor], q: Tensor, k: Tensor, first: int, gains: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Contract with q̄ and k̄ of all cells, (T, H, D, R) each: (B, T, H, D) each → (B, T, H, R) each."""
    placed_q, placed_k = (
        contract(x if gains is None else x * gains, code[first : first + x.shape[1]])
        for x, code in zip((q, k), codes, strict=True)
    )
    return placed_q, placed_k
