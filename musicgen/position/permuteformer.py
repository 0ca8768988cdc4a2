"""PermuteFormer (Chen, 2021): position-aware permutation of the features, and decay with distance.

φ(q_i) ← rⁱ πⁱ φ(q_i) and φ(k_j) ← r⁻ʲ πʲ φ(k_j) (equation 11), with a permutation π and a ratio r for each head. Powers
of r are left to attention, as the decay of its state, since r⁻ʲ overflows float32 near position 700. In musical time
the exponent of π is the tick; that of r is still the token number.
"""

from __future__ import annotations

import torch
from torch import Generator, Tensor, nn

from musicgen.parts import PermuteformerConfig, Shape
from musicgen.position.base import Position


class PermutationPowers(nn.Module):
    """One permutation per head, and its powers, computed from its cycles.

    πⁱ moves a feature by i places in its cycle, modulo the cycle's length. `permutation` is drawn from the seed and
    saved with the model, since generators can differ between versions of torch.
    """

    permutation: Tensor  # (H, M)
    members: Tensor  # (H, M), the features listed cycle after cycle
    cycle_start: Tensor  # (H, M), the index in `members` at which each feature's cycle starts
    cycle_length: Tensor  # (H, M), the length of that cycle
    cycle_index: Tensor  # (H, M), the feature's own index in the cycle

    def __init__(self, heads: int, features: int, seed: int) -> None:
        super().__init__()
        generator = Generator().manual_seed(seed)
        rows = [torch.randperm(features, generator=generator) for _ in range(heads)]
        self.register_buffer("permutation", torch.stack(rows))
        for name in ("members", "cycle_start", "cycle_length", "cycle_index"):
            self.register_buffer(name, torch.empty(0, dtype=torch.long), persistent=False)
        self.find_cycles()
        self.register_load_state_dict_post_hook(lambda module, _: module.find_cycles())

    def find_cycles(self) -> None:
        """Compute the cycles of `permutation` on its device."""
        permutation, features = self.permutation.tolist(), range(self.permutation.shape[1])
        if any(sorted(row) != [*features] for row in permutation):  # as in a damaged file
            raise ValueError(f"a permutation must contain each of {len(features)} features once")
        found = torch.tensor([_cycles(row) for row in permutation]).to(self.permutation.device)
        self.members, self.cycle_start, self.cycle_length, self.cycle_index = found.unbind(1)

    def forward(self, places: Tensor) -> Tensor:
        """Return πⁱ for places i, (T,) or (2, B, T), as indices for `gather`: (*, H, M)."""
        exponents = places.to(self.permutation.device)[..., None, None]
        found = self.cycle_start + (self.cycle_index + exponents) % self.cycle_length
        return self.members.expand_as(found).gather(-1, found)  # (*, H, M)


def permuted(fq: Tensor, fk: Tensor, indices: Tensor) -> tuple[Tensor, Tensor]:
    """Permute features of queries and keys, (B, T, H, M) each, by powers of permutations, (*, H, M)."""
    both = torch.stack([fq, fk])
    found = both.gather(-1, indices.expand_as(both))
    return found[0], found[1]


def _cycles(permutation: list[int]) -> list[list[int]]:
    """Return the members of all cycles, and for each element the start and length of its cycle and its index there."""
    size = len(permutation)
    members: list[int] = []
    start, length, index = [-1] * size, [0] * size, [0] * size
    for first in range(size):
        if start[first] >= 0:
            continue
        cycle = [first]
        while (following := permutation[cycle[-1]]) != first:
            cycle.append(following)
        for place, member in enumerate(cycle):
            start[member], length[member], index[member] = len(members), len(cycle), place
        members += cycle
    return [members, start, length, index]


class Permuteformer(Position):
    """Permutes the features of queries and keys by a power, the position, of each head's permutation."""

    def __init__(self, config: PermuteformerConfig, shape: Shape) -> None:
        super().__init__(config, shape)
        if self.fixed_decay is None and config.with_decay:  # r has the values of the authors' code
            self.fixed_decay = torch.sigmoid(3 * torch.arange(shape.heads) / shape.heads + 2)
        if config.with_permutation:
            self.powers = PermutationPowers(shape.heads, shape.features, config.seed)

    def window(self, places: Tensor) -> Tensor | None:
        """Return the powers of the permutations, (T, H, M); in musical time (2, B, T, H, M)."""
        return self.powers(places) if self.config.with_permutation else None

    def features(self, fq: Tensor, fk: Tensor, code: Tensor | None) -> tuple[Tensor, Tensor]:
        return (fq, fk) if code is None else permuted(fq, fk, code)
