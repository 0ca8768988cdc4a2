"""PermuteFormer (Chen, 2021): permute the features, position by position, and forget by distance.

φ(q_i) ← rⁱ πⁱ φ(q_i) and φ(k_j) ← r⁻ʲ πʲ φ(k_j) (equation 11), with a permutation π and a ratio r a
head. The powers of r are left to attention, as a decay of its state: r⁻ʲ itself overflows float32
near position 700. In musical time the exponent of π is the tick; what is forgotten, is forgotten
token by token all the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from musicgen.position.base import Position, Shape, Window
from musicgen.position.permutation import PermutationPowers, permuted
from tokenization.records import check_fields


@dataclass(frozen=True, kw_only=True)
class PermuteformerConfig:
    """Fixed random permutations, drawn from `seed`; the paper's two ablations are the flags."""

    with_decay: bool = True
    with_permutation: bool = True
    seed: int = 0
    time: Literal["tokens", "music"] = "tokens"

    def __post_init__(self) -> None:
        check_fields(self)


class Permuteformer(Position):
    """Permute queries' and keys' features by the position's power of a permutation, a head."""

    ratio: Tensor

    def __init__(self, config: PermuteformerConfig, shape: Shape) -> None:
        super().__init__(config, shape)
        # The authors' values.
        ratio = torch.sigmoid(3 * torch.arange(shape.heads) / shape.heads + 2)
        self.register_buffer("ratio", ratio, persistent=False)
        if config.with_permutation:
            self.powers = PermutationPowers(shape.heads, shape.features, config.seed)

    @property
    def decay(self) -> Tensor | None:
        """The ratio r a head, (H,): that of the model's horizons, else the authors', or none."""
        if self.forgetting is not None:
            return self.forgetting
        return self.ratio if self.config.with_decay else None

    def window(self, places: Tensor, start: int) -> Window | None:
        """Return the powers of the permutations, (T, H, M); of times, (2, B, T, H, M)."""
        if not self.config.with_permutation:
            return None
        return Window(start=start, rows=(self.powers(places),), axis=places.ndim - 1)

    def features(
        self, fq: Tensor, fk: Tensor, code: Window | None, start: int, layer: int
    ) -> tuple[Tensor, Tensor]:
        """Permute: (B, T, H, M) → (B, T, H, M)."""
        if code is None:
            return fq, fk
        if fq.shape[-1] != self.shape.features:
            raise ValueError(
                f"the permutations are of {self.shape.features} features, but the feature map "
                f"gives {fq.shape[-1]}; build the encoding with that number"
            )
        (indices,) = code.at(start, fq.shape[1])
        return permuted(fq, fk, indices)
