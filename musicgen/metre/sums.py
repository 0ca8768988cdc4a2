"""The sums of metric heads in training, in two ways that give the same numbers as the stretches of heads.py.

Sorted sums are for whole sequences: few, large matrix products, and no memory of rows. A head sorts the times of a
sequence by their row and then by their order. What one row holds is then one stretch, and the sum over it is a linear
attention with decay, in blocks as in linear_attention.py. Only the row that a block ends in can go on in the next, so
that what a block leaves is one state and not a memory of all rows. A query stands at the time after its token, where
the next token's key stands. So T tokens have T + 1 times: time e has the key of token e and the query of token e − 1,
which sees the keys at earlier places of its stretch. In the stretches of heads.py each of some hundred positions fades
and copies a memory of all rows: on a GPU, with 1,500 rows, several times as many bytes as here. On a CPU a layer
forward and backward takes 82 ms by dense products and 33 ms so: 2 × 1,024 tokens, six heads, one thread.

Dense sums are for stretches on a CPU: few and dense matrix products, with a backward pass of their own, and the memory
handed on. A stretch of tokens touches few rows of a memory of many bars: those of the times in it. They are taken out,
U a head; queries and keys are spread over them, zero but at their own row, and so reading and filing are matrix
products:

    y = (q kᵀ ∘ within) v + q̃ S,    S ← fading · S + k̃ᵀ v,    q̃, k̃ (c × U·M), S (U·M × D)

All but S is computed for all stretches at once, filled up to the most rows that one of them touches. So the size of a
product, and with it the last bit, depends on all of them: this is for training alone. Plain autograd through a row for
each token would pass over T·H·M·D numbers some twenty times, and copy the memory and its gradient a stretch.

B batch, T time, H metric heads, M features, D value width and a 1; n stretches of c positions with R rows of all heads,
or n blocks of c places with E = n·c ≥ T + 1.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

BLOCK = {"cpu": 32, "cuda": 64}  # places


class Sorted(NamedTuple):
    """The times of a head sorted by row, and how a query at one place sees a key at another."""

    order: Tensor  # which time stands at a place, numbered through all heads: (B·H·E,)
    place: Tensor  # at which place a time stands: (B·H·E,)
    within: Tensor  # how a query sees a key of its block: (B, H, n, c, c)
    entering: Tensor  # … and the state before it: (B, H, n, c, 1)
    leaving: Tensor  # how the state after a block sees its keys: (B, H, n, c, 1)
    between: Tensor  # how the state before a block sees what each block left: (B, H, n, n)


def sorted_times(rows: Tensor, periods: Tensor, ratios: Tensor, faded: float) -> Sorted:
    """Sort times, given by their rows and the numbers of their periods, (B, H, T + 1) each; ratios are (H,).

    A weight is a power of the ratio; none falls below `faded`. They count from the newest key that a query sees.
    """
    batch, heads, times = rows.shape
    block = BLOCK.get(rows.device.type, BLOCK["cuda"])
    number = -(-times // block)
    more = number * block - times
    rows = F.pad(rows, (0, more), value=torch.iinfo(torch.int32).max)  # behind all others
    periods = F.pad(periods, (0, more))
    count = torch.arange(number * block, device=rows.device)
    order = (rows * len(count) + count).argsort(-1)  # none are equal
    place = torch.empty_like(order).scatter_(-1, order, count.expand_as(order))
    rows, periods = (x.gather(-1, order) for x in (rows, periods))
    newest = F.pad(periods[..., :-1], (1, 0))  # … at the place before, if the row is the same
    row, period, newest = (x.unflatten(-1, (number, block)) for x in (rows, periods, newest))

    def seen(same: Tensor, passed: Tensor) -> Tensor:
        ratio = ratios.view(-1, *[1] * (passed.ndim - 2))
        return (ratio ** passed.clamp(min=0)).clamp(min=faded) * same

    earlier = torch.ones(block, block, dtype=torch.bool, device=rows.device).tril(-1)
    same = earlier & (row.unsqueeze(-1) == row.unsqueeze(-2))
    last_row, last_period = row[..., -1:], period[..., -1:]  # (B, H, n, 1)
    before_row = F.pad(last_row[:, :, :-1], (0, 0, 1, 0), value=-1)
    before_period = F.pad(last_period[:, :, :-1], (0, 0, 1, 0))
    ended = torch.ones(number, number, dtype=torch.bool, device=rows.device).tril(-1)
    first = (torch.arange(batch * heads, device=rows.device) * len(count)).view(batch, heads, 1)
    return Sorted(
        order=(order + first).flatten(),
        place=(place + first).flatten(),
        within=seen(same, newest.unsqueeze(-1) - period.unsqueeze(-2)),
        entering=seen(row == before_row, newest - before_period).unsqueeze(-1),
        leaving=seen(row == last_row, last_period - period).unsqueeze(-1),
        between=seen(ended & (before_row == last_row.mT), before_period - last_period.mT),
    )


def sorted_sums(q: Tensor, k: Tensor, v: Tensor, times: Sorted, guard: float) -> Tensor:
    """Return the weighted means of values, (B, T, H, D − 1), from q and k, (B, T, H, M), and v, (B, T, H, D).

    The last column of the values is the 1 whose sum is the denominator, to which `guard` is added.
    """
    length, sizes = q.shape[1], (q.shape[-1], k.shape[-1], v.shape[-1])
    batch, heads, number, block, _ = times.within.shape
    more = number * block - length
    q = F.pad(q, (0, 0, 0, 0, 1, more - 1))  # aligned with the key of the token after
    k, v = (F.pad(x, (0, 0, 0, 0, 0, more)) for x in (k, v))
    given = torch.cat([q, k, v], -1).transpose(1, 2).flatten(0, 2)  # (B·H·E, 2M + D)
    there = _Moved.apply(given, times.order, times.place)
    q, k, v = there.view(batch, heads, number, block, -1).split(sizes, -1)
    own = (k * times.leaving).mT @ v  # (B, H, n, M, D)
    states = (times.between.to(own.dtype) @ own.flatten(3)).view(own.shape)
    y = ((q @ k.mT) * times.within) @ v + (q * times.entering) @ states
    out = (y[..., :-1] / (y[..., -1:] + guard)).flatten(0, 3)
    back = _Moved.apply(out, times.place, times.order)
    return back.view(batch, heads, number * block, -1)[:, :, 1 : length + 1].transpose(1, 2)


class _Moved(torch.autograd.Function):
    """Rows moved to other places, and their gradients back: each is read once, and none added to another."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, order: Tensor, place: Tensor) -> Tensor:
        ctx.save_for_backward(place)
        return x.index_select(0, order)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore
        (place,) = ctx.saved_tensors
        return dy.index_select(0, place), None, None


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
