"""Generating a token as a list of calls made ready once: what they share, and what changes from token to token.

Each row of a batch is a sequence of its own, at its own position.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
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


# Products of the rows of a batch by matrices, each computed as if its row were alone.
#
# A product a row is a call a row. One call for all rows may add up in another order, by a kernel made for more; so it
# is tried once, and taken where this machine comes to the same, to the last bit.
#
# B rows of the batch, n products a row.

_LINE = 16  # numbers of float32 in a line of the cache


def rows_apart(scratch: Scratch, like: Tensor, batch: int, *shape: int) -> Tensor:
    """Return a tensor (batch, *shape), each row of which begins where a line of the cache does.

    Where it does not, a library may add up in another order.
    """
    count = math.prod(shape)
    rows = scratch.empty(like, batch, -(-count // _LINE) * _LINE)
    return rows[:, :count].unflatten(1, shape)


def row_products(
    x: Tensor, matrices: Tensor, scratch: Scratch, plus: Tensor | None = None
) -> tuple[Tensor, list[Call]]:
    """Return calls that multiply (B, n, a, b) by (B, n, b, c) and add `plus`, (1, 1, c), after what they write to."""
    shape = *x.shape[:-1], matrices.shape[-1]
    if len(x) == 1 or not _one_call_does(x, matrices, plus, shape[-1]):
        out = rows_apart(scratch, x, *shape)
        rows = zip(x.unbind(), matrices.unbind(), out.unbind(), strict=True)
        return out, [_product(*row, plus) for row in rows]
    out, calls = scratch.empty(x, *shape), []
    if x.stride(0) != x.shape[1] * x.stride(1):
        beside, x = x, scratch.empty(x, *x.shape)
        calls.append(partial(x.copy_, beside))
    x, matrices, flat = (each.view(-1, *each.shape[2:]) for each in (x, matrices, out))
    return out, [*calls, _product(x, matrices, flat, plus)]


def products_by_one(
    x: Tensor, matrix: Tensor, out: Tensor, plus: Tensor | None = None
) -> list[Call]:
    """Return calls that multiply (B, a, b) by a matrix, (b, c), to `out`, (B, a, c), and add `plus`, (c,)."""
    if len(x) == 1 or not _one_call_does(x, matrix, plus, out.stride(-2)):
        return [_product(*row, plus) for row in zip(x, [matrix] * len(x), out, strict=True)]
    return [_product(x.view(-1, x.shape[-1]), matrix, out.view(-1, out.shape[-1]), plus)]


def _product(x: Tensor, matrices: Tensor, out: Tensor, plus: Tensor | None) -> Call:
    if plus is None:
        return partial(torch.mm if x.ndim == 2 else torch.bmm, x, matrices, out=out)
    return partial(torch.addmm if x.ndim == 2 else torch.baddbmm, plus, x, matrices, out=out)


def _one_call_does(x: Tensor, matrices: Tensor, plus: Tensor | None, apart: int) -> bool:
    """Say whether one call is enough; `apart`: numbers from one line of the result to the next."""
    if x.device.type != "cpu":
        return True  # there it holds to rounding in any case
    sizes = tuple(x.shape), tuple(matrices.shape)
    return _comes_to_the_same(*sizes, apart, x.dtype, plus is not None, torch.get_num_threads())


@cache
def _comes_to_the_same(
    of_x: tuple[int, ...],
    of_matrices: tuple[int, ...],
    apart: int,
    dtype: torch.dtype,
    added: bool,
    threads: int,
) -> bool:
    """Say whether one call computes all rows as one call a row does, to the last bit.

    `threads` tells answers apart: torch's number of them is what the products go by.
    """
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(of_x, generator=generator).to(dtype)
    matrices = torch.randn(of_matrices, generator=generator).to(dtype)
    one = matrices.ndim == 2
    *lines, width = *of_x[:-1], of_matrices[-1]
    plus = x.new_ones((width,) if one else (1, 1, width)) if added else None
    at_once, like_it = (x.new_empty(*lines, apart)[..., :width] for _ in range(2))
    alone = like_it if one else rows_apart(Scratch(), x, *lines, width)
    for row in zip(x, [matrices] * len(x) if one else matrices, alone, strict=True):
        _product(*row, plus)()
    flat = at_once.view(-1, *at_once.shape[2:])
    _product(x.flatten(0, 1), matrices if one else matrices.flatten(0, 1), flat, plus)()
    return torch.equal(alone, at_once)
