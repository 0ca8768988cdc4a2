"""The sums of metric heads over whole sequences in training: the same numbers as the stretches of heads.py.

Few, large matrix products, and no memory of rows. A head sorts the times of a sequence by their row and then by their
order. What one row holds is then one stretch, and the sum over it is a linear attention with decay, in blocks as in
linear_attention.py. Only the row that a block ends in can go on in the next, so that what a block leaves is one state
and not a memory of all rows. A query stands at the time after its token, where the next token's key stands. So T tokens
have T + 1 times: time e has the key of token e and the query of token e − 1, which sees the keys at earlier places of
its stretch. In the stretches of heads.py each of some hundred positions fades and copies a memory of all rows: on a
GPU, with 1,500 rows, several times as many bytes as here. On a CPU a layer forward and backward takes 81 ms so and
22 ms by sorted times: 2 × 1,024 tokens, six heads of 32 values, one thread.

B batch, T time, H metric heads, M features, D value width and a 1; n blocks of c places with E = n·c ≥ T + 1.
"""

from __future__ import annotations

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
