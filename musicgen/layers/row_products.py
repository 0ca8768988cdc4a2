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


def whole_lines(scratch: Scratch, like: Tensor, *shape: int) -> Tensor:
    """Return a tensor whose last dimension always begins where a line of the cache does.

    A library may add up in another order where it does not.
    """
    width = shape[-1]
    return scratch.empty(like, *shape[:-1], -(-width // _LINE) * _LINE)[..., :width]


def row_products(
    x: Tensor, matrices: Tensor, out: Tensor, scratch: Scratch, plus: Tensor | None = None
) -> list[Call]:
    """Return calls that multiply (B, n, a, b) by (B, n, b, c) to `out`, (B, n, a, c), and add `plus`, (1, 1, c)."""
    if len(x) == 1 or not _equal_at_once(
        x.device.type, x.dtype, tuple(x.shape), tuple(matrices.shape), tuple(matrices.stride()), plus is not None,
        torch.get_num_threads(),
    ):  # fmt: skip
        rows = zip(x.unbind(), matrices.unbind(), out.unbind(), strict=True)
        return [_product(*row, plus) for row in rows]
    copied: list[Call] = []
    if x.stride(0) != x.shape[1] * x.stride(1):
        beside, x = x, scratch.empty(x, *x.shape)
        copied.append(partial(x.copy_, beside))
    together = (each.view(-1, *each.shape[2:]) for each in (x, matrices, out))
    return [*copied, _product(*together, plus)]


def _product(x: Tensor, matrices: Tensor, out: Tensor, plus: Tensor | None) -> Call:
    if plus is None:
        return partial(torch.bmm, x, matrices, out=out)
    return partial(torch.baddbmm, plus, x, matrices, out=out)


@cache
def _equal_at_once(
    device: str, dtype: torch.dtype, of_x: tuple[int, ...], of_matrices: tuple[int, ...],
    strides: tuple[int, ...], added: bool, threads: int,
) -> bool:  # fmt: skip
    """Say whether one call computes all rows as one call a row does, to the last bit."""
    if device != "cpu":
        return True  # there it holds to rounding in any case
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(of_x, generator=generator).to(dtype)
    reach = 1 + sum((size - 1) * stride for size, stride in zip(of_matrices, strides, strict=True))
    matrices = torch.randn(reach, generator=generator).to(dtype).as_strided(of_matrices, strides)
    plus = x.new_ones(1, 1, of_matrices[-1]) if added else None
    shape = (*of_x[:-1], of_matrices[-1])
    alone, at_once = (whole_lines(Scratch(), x, *shape) for _ in range(2))
    for row in zip(x.unbind(), matrices.unbind(), alone.unbind(), strict=True):
        _product(*row, plus)()
    parts = (each.view(-1, *each.shape[2:]) for each in (x, matrices, at_once))
    _product(*parts, plus)()
    return torch.equal(alone, at_once)
