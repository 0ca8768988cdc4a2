"""Linear layers that do not tell how many rows they are given: a variation is the same alone and among others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Linear(nn.Linear):
    """A linear layer that computes a row alike, to the last bit, alone or among few others."""

    def forward(self, input: Tensor) -> Tensor:
        """Return (B, T, I) → (B, T, O)."""
        return linear(input, self.weight, self.bias)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return F.linear, (B, T, I) → (B, T, O), by the same kernel for any few rows.

    Else a variation of a piece would depend on how many others are generated beside it: MKL takes
    a kernel that adds up in another order for one row, and where the input is narrow for up to 7.
    So there are more rows than asked for; at these sizes a second one is free.
    """
    rows, least = x.shape[0] * x.shape[1], least_rows(x.shape[2])
    if rows >= least:
        return F.linear(x, weight, bias)
    few = F.linear(filled(x.flatten(0, 1), least), weight, bias)
    return few.narrow(0, 0, rows).unflatten(0, x.shape[:2])


def least_rows(width: int) -> int:
    """Return the smallest number of rows of this width that goes through the kernel of the larger ones."""
    return 2 if width >= 256 else 8


def filled(x: Tensor, rows: int) -> Tensor:
    """Return (B, I) with further rows, of no meaning, where there are fewer than so many."""
    if len(x) >= rows:
        return x
    return x.expand(rows, -1) if len(x) == 1 else F.pad(x, (0, 0, 0, rows - len(x)))


def into(layer: Any, out: Tensor) -> Callable[[Tensor], Tensor]:
    """Return a linear layer as a function of (rows, I), rows enough, that writes to `out`, (rows, O)."""
    if not isinstance(layer, nn.Linear):
        return layer.into(out)
    weight, bias = layer.weight.t(), layer.bias
    if bias is None:
        return lambda x: torch.mm(x, weight, out=out)
    return lambda x: torch.addmm(bias, x, weight, out=out)
