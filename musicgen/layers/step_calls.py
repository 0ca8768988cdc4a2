"""Generating a token as a list of calls made ready once: what they share, and what changes from token to token.

Each row of a batch is a sequence of its own, at its own position.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Call = Callable[[], object]
"""A step of the computation that knows the tensors it reads and the one it writes."""


class Scratch:
    """Memory for what is read only within a layer: all layers write to the same.

    Memory of its own would have left every cache when a layer's turn comes again: the weights of all others went
    through them meanwhile.
    """

    def __init__(self) -> None:
        self._held: dict[Any, list[Tensor]] = {}
        self._given: Counter[Any] = Counter()

    def next_layer(self) -> None:
        """Give the same memory out again, in the same order."""
        self._given.clear()

    def empty(self, like: Tensor, *shape: int) -> Tensor:
        """Return a tensor of the type of `like` that nothing else in the layer was given."""
        kind = like.dtype, like.device, shape
        held = self._held.setdefault(kind, [])
        if self._given[kind] == len(held):
            held.append(like.new_empty(shape))
        self._given[kind] += 1
        return held[self._given[kind] - 1]


@dataclass
class StepInputs:
    """What the calls of all layers share; `code` and `metre` are set before each step."""

    code: Any  # what the encoding's `cover_rows` made ready
    metre: Any = None  # the place of each row in its bar, for metric heads
    scratch: Scratch = field(default_factory=Scratch)


def bare(module: nn.Module) -> Callable[[Tensor], Tensor]:
    """Return what a module computes as a function that looks nothing up."""
    if isinstance(module, nn.LayerNorm):
        shape, weight, bias = module.normalized_shape, module.weight, module.bias
        return partial(
            torch.layer_norm, normalized_shape=shape, weight=weight, bias=bias, eps=module.eps
        )
    return module.forward


_TWO_VECTORS = 32  # numbers of float32, of the widest there are


def in_place(activation: Callable[..., Tensor], x: Tensor) -> Call:
    """Return an activation of x as a call."""
    if activation is F.relu:
        return x.relu_
    if activation is F.gelu and len(x) > 1 and x.shape[1] % _TWO_VECTORS == 0:
        # By torch's own kernel: contiguous input goes to oneDNN's, which takes 40 µs to start. Torch's computes what
        # is left after the last two whole vectors by other means, so that rows would not be alike.
        return partial(torch.ops.aten.gelu_.default, x.t())
    if activation is F.gelu and x.shape[1] % _TWO_VECTORS:
        return lambda: [row.copy_(activation(row)) for row in x.unbind()]
    return lambda: x.copy_(activation(x))
