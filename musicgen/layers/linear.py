"""Linear layers whose result for a row does not depend on how many rows, up to eight, are computed with it."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from musicgen.layers.multiplications import MOST


class Linear(nn.Linear):
    """A linear layer that computes a row alike, to the last bit, alone or among up to seven others."""

    def forward(self, input: Tensor) -> Tensor:
        """Return (B, T, I) → (B, T, O)."""
        return linear(input, self.weight, self.bias)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return F.linear, (B, T, I) → (B, T, O), of never fewer than eight rows.

    Libraries take a kernel that adds up in another order for one row, for two, for a few. Further rows of no meaning
    make the number always the same. A generated token does not come through here (few_rows.py).
    """
    rows = x.shape[0] * x.shape[1]
    if rows >= MOST:
        return F.linear(x, weight, bias)
    filled = F.pad(x.flatten(0, 1), (0, 0, 0, MOST - rows))
    return F.linear(filled, weight, bias).narrow(0, 0, rows).unflatten(0, x.shape[:2])
