"""Linear layers that compute by 8-bit weights, however those were stored: for inference on a CPU."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from musicgen.layers.few_rows import least_multiple
from musicgen.layers.multiplications import MOST
from musicgen.layers.weight_codes import quantise, restore

_FEW = 16  # rows of input up to which the integer kernel is the faster one
_MULTIPLE = 64  # of which that kernel takes the width of the input: it reads whole vectors, past the end if need be


class Int8Linear(nn.Module):
    """A linear layer, for inference on a CPU, that reads 8-bit weights where the input has few rows.

    The kernel for few rows rounds inputs and outputs to bfloat16. Many rows (a prompt) are multiplied in float32 by
    the weights restored.
    """

    weight: Tensor
    scale: Tensor
    bias: Tensor
    ones: Tensor

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        weight, scale = quantise(layer.weight)
        bias = torch.zeros_like(scale) if layer.bias is None else layer.bias.detach()
        self.register_buffer("weight", weight)
        self.register_buffer("scale", scale)
        self.register_buffer("bias", bias)
        self.register_buffer("ones", torch.ones_like(scale, dtype=torch.bfloat16), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return (…, I) → (…, O)."""
        rows = x.flatten(0, -2)
        if len(rows) > _FEW or x.shape[-1] % _MULTIPLE:
            return F.linear(x, restore(self.weight, self.scale), self.bias)
        return torch.addcmul(self.bias, self._product(rows), self.scale).unflatten(0, x.shape[:-1])

    def into(self, out: Tensor) -> Callable[[Tensor], Tensor]:
        """Return a function of (rows, I) that writes to `out`, (rows, O)."""
        if len(out) > _FEW or self.weight.shape[1] % _MULTIPLE:
            return lambda x: out.copy_(self(x))
        return lambda x: torch.addcmul(self.bias, self._product(x), self.scale, out=out)

    def multiple(self) -> int:
        """Return of what the number of rows has to be a multiple for each to be computed as if it were alone."""
        out_width, width = self.weight.shape
        if width % _MULTIPLE:
            return MOST
        return _multiple_of_kernel(out_width, width)

    def _product(self, rows: Tensor) -> Tensor:
        """Multiply few rows by the integers."""
        return torch.ops.aten._weight_int8pack_mm(rows.bfloat16(), self.weight, self.ones).float()


@cache
def _multiple_of_kernel(out_width: int, width: int) -> int:
    with torch.random.fork_rng(devices=[]), torch.inference_mode():
        layer = Int8Linear(nn.Linear(width, out_width))
        return least_multiple(layer.into, width, out_width)


Model = TypeVar("Model", bound=nn.Module)


def with_int8_weights(model: Model) -> Model:
    """Replace the linear layers inside a model by 8-bit ones, in place, and return it: for inference on a CPU."""
    for name, child in model.named_children():
        if isinstance(child, nn.Linear):
            setattr(model, name, Int8Linear(child))
        else:
            with_int8_weights(child)
    return model
