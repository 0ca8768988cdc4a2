"""Exact causal softmax attention: what the linear forms are compared with, at quadratic cost.

B batch, T time, H heads, D width. Its state is every key and value so far, so it grows with the position.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional


class SoftmaxState(NamedTuple):
    """The keys and values of all positions so far, (B, T, H, D) each."""

    keys: Tensor
    values: Tensor

    def map(self, function: Callable[[Tensor], Tensor]) -> SoftmaxState:
        """Apply a function to each tensor."""
        return SoftmaxState(function(self.keys), function(self.values))


def softmax_attend(
    q: Tensor, k: Tensor, v: Tensor, *, state: SoftmaxState | None = None
) -> tuple[Tensor, SoftmaxState]:
    """Weight values by the softmax of q·k/√D over the positions so far: (B, T, H, D) each → the same and the state."""
    if state is not None:
        k, v = torch.cat([state.keys, k], 1), torch.cat([state.values, v], 1)
    length, total = q.shape[1], k.shape[1]
    mask = None
    if 1 < length < total:
        mask = torch.ones(length, total, dtype=torch.bool, device=q.device).tril(total - length)
    out = functional.scaled_dot_product_attention(
        *(x.transpose(1, 2) for x in (q, k, v)), attn_mask=mask, is_causal=1 < length == total
    )
    return out.transpose(1, 2), SoftmaxState(k, v)
