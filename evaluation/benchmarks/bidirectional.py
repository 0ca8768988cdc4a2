"""Linear attention without the causal mask: every position sees the whole sequence, at the same linear cost.

    out_i = Σ_j r^|i−j| (fq_i·fk_j) v_j / Σ_j r^|i−j| (fq_i·fk_j)

Without a decay r that is two products; with one it is the causal sums from both ends, less the position itself, which
both have. Positions of padding are no keys. B batch, T time, H heads, M features, D value width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from musicgen.attention.causal_sums import CHUNK, parallel_sums
from musicgen.attention.linear_attention import GUARD, Features
from musicgen.layers.precision import without_autocast
from musicgen.model.block import Attention, Passage


def attend_both_ways(
    fq: Tensor,
    fk: Tensor,
    v: Tensor,
    *,
    decay: Tensor | None = None,
    normaliser: Features | None = None,
    present: Tensor | None = None,
    chunk: int = CHUNK,
) -> Tensor:
    """Attend to all positions: fq, fk (B, T, H, M), v (B, T, H, D) → (B, T, H, D).

    The decay is r in (0, 1] a head, (H,); a normaliser gives the denominator other features; `present` is False where
    there is only padding, (B, T).
    """
    if present is not None:
        kept = present[..., None, None].to(fk.dtype)
        fk = fk * kept
        normaliser = None if normaliser is None else (normaliser[0], normaliser[1] * kept)
    with without_autocast(v.device):
        dtype = torch.promote_types(v.dtype, torch.float32)
        fq, fk, values = fq.to(dtype), fk.to(dtype), v.to(dtype)
        if normaliser is None:
            y = _sums(fq, fk, functional.pad(values, (0, 1), value=1.0), decay, chunk)
            return (y[..., :-1] / (y[..., -1:] + GUARD)).to(v.dtype)
        one = values.new_ones(*values.shape[:-1], 1)
        gq, gk = (x.to(dtype) for x in normaliser)
        total = _sums(gq, gk, one, decay, chunk)
        return (_sums(fq, fk, values, decay, chunk) / (total + GUARD)).to(v.dtype)


def _sums(q: Tensor, k: Tensor, v: Tensor, decay: Tensor | None, chunk: int) -> Tensor:
    if decay is None:
        return torch.einsum("bthm,bhmd->bthd", q, torch.einsum("bthm,bthd->bhmd", k, v))
    start = q.new_zeros(q.shape[0], q.shape[2], q.shape[3], v.shape[3])  # (B, H, M, D)
    before, _ = parallel_sums(q, k, v, decay, start, chunk=chunk)
    after, _ = parallel_sums(q.flip(1), k.flip(1), v.flip(1), decay, start, chunk=chunk)
    own = (q * k).sum(-1, keepdim=True) * v
    return before + after.flip(1) - own


@dataclass(frozen=True, kw_only=True)
class WholePassage(Passage):
    """Where the tokens of whole sequences stand, and which are padding."""

    present: Tensor | None = None  # (B, T); None: no padding


class WholeAttention(Attention):
    """The attention of a block, over the whole sequence."""

    def attend(
        self, x: Tensor, fq: Tensor, fk: Tensor, v: Tensor, passage: Passage, state: Any
    ) -> tuple[Tensor, Any]:
        """Attend to all positions that are no padding."""
        assert isinstance(passage, WholePassage), "whole sequences know their padding"
        position = passage.position
        placed_fq, placed_fk = position.features(fq, fk, passage.code, passage.start, self.layer)
        out = attend_both_ways(
            placed_fq,
            placed_fk,
            v,
            decay=position.decay,
            normaliser=None if position.normaliser_is_positioned else (fq, fk),
            present=passage.present,
            chunk=self.chunk,
        )
        return out, None
