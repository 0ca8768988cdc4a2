"""Products of the rows of a batch by matrices, each computed as if its row were alone.

A product a row is a call a row. One call for all rows may add up in another order, by a kernel made for more; so it is
tried once, and taken where this machine comes to the same, to the last bit.

B rows of the batch, n products a row.
"""

from __future__ import annotations

import math
from functools import cache, partial

import torch
from torch import Tensor

from musicgen.layers.step_calls import Call, Scratch

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
