"""The sums of metric heads in training on a CPU: few and dense matrix products, with a backward pass of their own.

A stretch of tokens touches few rows of a memory of many bars: those of the times in it. They are taken out, U a head;
queries and keys are spread over them, zero but at their own row, and so reading and filing are matrix products:

    y = (q kᵀ ∘ within) v + q̃ S,    S ← fading · S + k̃ᵀ v,    q̃, k̃ (c × U·M), S (U·M × D)

All but S is computed for all stretches at once, filled up to the most rows that one of them touches. So the size of a
product, and with it the last bit, depends on all of them: this is for training alone. Plain autograd through a row for
each token would pass over T·H·M·D numbers some twenty times, and copy the memory and its gradient a stretch.

B batch, T time, H metric heads, M features, D value width and a 1, n stretches of c positions, R rows of all heads.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable


class Touched(NamedTuple):
    """The rows of the memory that each stretch touches, filled up with row B·R, which nobody reads."""

    within: Tensor  # how a query sees a key of its stretch: (B, H, n, c, c)
    rows: Tensor  # (n, B·H·U)
    reader: Tensor  # how a query sees a row: (B, H, n, c, U, 1), 0 but at its own
    writer: Tensor  # how a row sees a key after the stretch: (B, H, n, c, U, 1)
    fading: Tensor  # … and its earlier entries: (n, B·H·U, 1)


def touched(
    within: Tensor, queries: tuple[Tensor, Tensor], keys: tuple[Tensor, Tensor], fading: Tensor
) -> Touched:
    """Return what stretches touch, by the rows of their queries and keys with their weights, (n, B, c, H) each.

    `within` is (n, B, H, c, c) here, and `fading` that of every row of the memory, (n, B·R).
    """
    length, nobody = within.shape[-1], fading.shape[1]
    both, weights = (
        torch.cat(pair, 2).permute(1, 3, 0, 2) for pair in zip(queries, keys, strict=True)
    )
    ascending, order = both.sort(-1)  # (B, H, n, 2c)
    place = F.pad((ascending.diff(dim=-1) != 0).cumsum(-1), (1, 0))  # among the rows of its stretch
    most = int(place.max()) + 1
    rows = both.new_full((*both.shape[:-1], most), nobody).scatter(-1, place, ascending)
    own = torch.empty_like(place).scatter(-1, order, place)  # of each query, then of each key
    at = own.unsqueeze(-1) == torch.arange(most, device=own.device)  # (B, H, n, 2c, U)
    reader, writer = (at * weights.unsqueeze(-1)).unsqueeze(-1).split(length, 3)
    rows = rows.permute(2, 0, 1, 3).flatten(1)
    faded = F.pad(fading, (0, 1)).gather(1, rows).unsqueeze(-1)
    return Touched(within.permute(1, 2, 0, 3, 4), rows, reader, writer, faded)


def touched_sums(
    q: Tensor, k: Tensor, v: Tensor, stretches: Touched, table: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the sums, (B, T, H, D), and the memory after the last stretch, (B·R, M·D).

    Queries and keys are (B, T, H, M), values (B, T, H, D); the memory handed in is not changed.
    """
    y, after = _TouchedSums.apply(q, k, v, table, stretches)
    return y, after


class _TouchedSums(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, table: Tensor, near: Touched
    ) -> tuple[Tensor, Tensor]:
        table = F.pad(table, (0, 0, 0, 1))
        qs, ks, vs = (_blocks(x, near) for x in (q, k, v))
        memory = _through(table, near, _spread(ks, near.writer).mT @ vs, range(len(near.rows)))
        weights = (qs @ ks.mT).mul_(near.within)
        y = (weights @ vs).add_(_spread(qs, near.reader) @ memory)
        if any(ctx.needs_input_grad):
            ctx.save_for_backward(q, k, v, memory)
            ctx.near = near
        return _tokens(y, v), table[:-1]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor, dtable: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore
        (q, k, v, memory), near = ctx.saved_tensors, ctx.near
        dtable = F.pad(dtable, (0, 0, 0, 1))
        qs, ks, vs, dys = (_blocks(x, near) for x in (q, k, v, dy))
        read = _spread(qs, near.reader).mT @ dys
        filed = _through(dtable, near, read, reversed(range(len(near.rows))))
        weights = (qs @ ks.mT).mul_(near.within)
        dweights = (dys @ vs.mT).mul_(near.within)
        dq = (dweights @ ks).add_(_gathered(dys @ memory.mT, near.reader))
        dk = (dweights.mT @ qs).add_(_gathered(vs @ filed.mT, near.writer))
        dv = (weights.mT @ dys).add_(_spread(ks, near.writer) @ filed)
        return _tokens(dq, q), _tokens(dk, k), _tokens(dv, v), dtable[:-1], None


def _through(table: Tensor, near: Touched, more: Tensor, order: Iterable[int]) -> Tensor:
    """Return the rows that stretches find in a memory, (B, H, n, U·M, D), each of which fades them and adds its own.

    The memory is changed in place; what each adds is (B, H, n, U·M, D) too.
    """
    width = more.shape[-1]
    batch, heads, number = more.shape[:3]
    added = more.permute(2, 0, 1, 3, 4).reshape(number, -1, table.shape[1])  # (n, B·H·U, M·D)
    found = torch.empty_like(added)
    for index in order:
        rows = near.rows[index]
        torch.index_select(table, 0, rows, out=found[index])
        table.index_copy_(0, rows, torch.addcmul(added[index], found[index], near.fading[index]))
    return found.view(number, batch, heads, -1, width).permute(1, 2, 0, 3, 4)


def _spread(x: Tensor, at: Tensor) -> Tensor:
    """Spread queries or keys over the rows touched, (B, H, n, c, M) → (B, H, n, c, U·M)."""
    return (x.unsqueeze(-2) * at).flatten(-2)


def _gathered(x: Tensor, at: Tensor) -> Tensor:
    """Take the gradient back from there, (B, H, n, c, U·M) → (B, H, n, c, M)."""
    return (x.unflatten(-1, (at.shape[-2], -1)) * at).sum(-2)


def _blocks(x: Tensor, near: Touched) -> Tensor:
    """(B, T, H, ·) → (B, H, n, c, ·), one after the other in memory, filled up with zeros."""
    number, length = len(near.rows), near.within.shape[-1]
    x = F.pad(x, (0, 0, 0, 0, 0, number * length - x.shape[1])).unflatten(1, (number, length))
    return x.permute(0, 3, 1, 2, 4).contiguous()


def _tokens(x: Tensor, like: Tensor) -> Tensor:
    """(B, H, n, c, ·) → (B, T, H, ·)."""
    return x.permute(0, 2, 3, 1, 4).flatten(1, 2)[:, : like.shape[1]]
