"""PermuteFormer on a grid (Chen 2021, section 3.5): commuting permutations, one a dimension, of parts of the features.

φ(q) at place (x, y) becomes P_πx^x P_πy^y φ(q) (equation 14). Each permutation moves a part of the features of its own,
so that they commute, and the similarity of two places depends on the difference of their coordinates alone.

B batch, T time, H heads, M features, ℓ dimensions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from musicgen.position.base import Position, Shape, Window
from musicgen.position.permutation import PermutationPowers, permuted


def coordinates(places: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """Return the coordinates of numbered cells of a grid, row by row: (T,) → (T, ℓ)."""
    found = []
    for size in reversed(sizes):
        found.append(places % size)
        places = places // size
    return torch.stack(found[::-1], -1)


def check_sizes(sizes: tuple[int, ...]) -> None:
    """Refuse what is no grid."""
    if not sizes or min(sizes) < 1:
        raise ValueError(f"sizes are {list(sizes)}; give the grid's, such as [32, 32]")


@dataclass(frozen=True, kw_only=True)
class GridPermuteformerConfig:
    """Without the decay r, which the paper sets to 1 in bidirectional models."""

    sizes: tuple[int, ...] = (32, 32)  # of the grid whose cells are numbered row by row
    seed: int = 0

    def __post_init__(self) -> None:
        check_sizes(self.sizes)


class GridPermuteformer(Position):
    """Permute a part of the features by each coordinate."""

    def __init__(self, config: GridPermuteformerConfig, shape: Shape) -> None:
        super().__init__(config, shape)
        dimensions = len(config.sizes)
        if shape.features < 2 * dimensions:
            raise ValueError(
                f"{shape.features} features do not divide into {dimensions} parts of two or more"
            )
        shares = [len(part) for part in torch.arange(shape.features).tensor_split(dimensions)]
        self.powers = nn.ModuleList(
            PermutationPowers(shape.heads, share, config.seed + number)
            for number, share in enumerate(shares)
        )
        self.offsets = [sum(shares[:number]) for number in range(dimensions)]

    def indices(self, places: Tensor) -> Tensor:
        """Return which feature each is taken from at coordinates (T, ℓ): (T, H, M)."""
        columns = places.unbind(-1)
        parts = zip(self.powers, columns, self.offsets, strict=True)
        return torch.cat([powers(column) + offset for powers, column, offset in parts], -1)

    def cover(self, code: Any, start: int, stop: int, times: Tensor | None = None) -> Window:
        """Return the window's indices, (T, H, M)."""
        if stop > math.prod(self.config.sizes):
            raise ValueError(
                f"the sequence reaches {stop}, past a grid of {' by '.join(map(str, self.config.sizes))}"
            )
        places = coordinates(torch.arange(start, stop), self.config.sizes)
        return Window(start=start, rows=(self.indices(places),))

    def features(
        self, fq: Tensor, fk: Tensor, code: Window, start: int, layer: int
    ) -> tuple[Tensor, Tensor]:
        """Permute: (B, T, H, M) → (B, T, H, M)."""
        (indices,) = code.at(start, fq.shape[1])
        return permuted(fq, fk, indices)
