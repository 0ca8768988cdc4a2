"""Metric heads: attention by the place in the bar, with exact relative positions in musical time and linear cost.

Accompaniments repeat: nine in ten drum notes of a groove recur within four bars. Attention over tokens has to find them
although bars differ in their number of tokens and linear attention has few features. But the time of each token is
known (`Clock`). Let t_i be the time after token i, where the next token starts, and s_j the time before token j, where
token j itself starts. A head of period P computes

    w_ij = [t_i ≡ s_j mod P] r^((t_i − s_j) / P) φ(q_i)·φ(k_j),   out_i = Σ_{j≤i} w_ij v_j / Σ_{j≤i} w_ij

It attends to the tokens at the same place in this period and earlier ones, the latest with the largest weight. The
kernel depends on t_i − s_j alone: it is the comb that encodings in musical time build from waves (position/base.py). It
is also linear attention: φ(k_j) v_jᵀ is added to row s_j mod P of a memory of P rows, and a query reads row t_i mod P.

A row decays only when it is written to, so that its newest entry always has weight 1; `newest` holds the number of that
entry's period. Each query counts its weights from the newest entry that it sees. The common factor cancels in the
fraction, so that weights never underflow together, however long a row was silent.

A move (token, steps, tick) says that the token advances time by whole steps and then sets the tick within the step. A
step is a beat in the groove language and a bar in REMI. Time is counted in ticks from the first token.

B batch, T time, H metric heads, M features, D value width, c positions of a chunk, R memory rows of all heads together.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from musicgen.attention import GUARD, eager_on_cpu, without_autocast
from musicgen.linear import Linear
from musicgen.parts import Clock, MetreConfig

MIN_WEIGHT = 1e-20  # of powers of r: well above GUARD, and too small to change a float32 of 1
CHUNKS = {"cpu": 128, "cuda": 256}  # positions: few fit a CPU's cache, a GPU wants large kernels


def forward_fill(initial: Tensor, values: Tensor, valid: Tensor) -> Tensor:
    """Return the last valid value up to each place, (B, T); `initial`, (B, 1), comes before the first."""
    place = torch.arange(1, values.shape[1] + 1, device=values.device) * valid
    return torch.cat([initial, values], 1).gather(1, place.cummax(1).values)


class Timekeeper(nn.Module):
    """Computes musical time from tokens by a language's clock."""

    steps: Tensor
    tick: Tensor

    def __init__(self, clock: Clock, vocabulary_size: int) -> None:
        super().__init__()
        self.step_ticks = clock.step_ticks
        steps = torch.zeros(vocabulary_size, dtype=torch.long)
        tick = torch.full((vocabulary_size,), -1)
        for token, on, to in clock.moves:
            steps[token], tick[token] = on, to
        self.register_buffer("steps", steps, persistent=False)
        self.register_buffer("tick", tick, persistent=False)

    def after(self, tokens: Tensor, ticks: Tensor) -> Tensor:
        """Return the time after each token, (B, T); `ticks`, (B,), is the time before the first.

        Time can go back within a step, as when a bar is written part after part.
        """
        ticks = ticks.unsqueeze(1)
        steps = ticks // self.step_ticks + self.steps[tokens].cumsum(1)
        tick = self.tick[tokens]
        return forward_fill(ticks, steps * self.step_ticks + tick, tick >= 0)

    def around(self, tokens: Tensor, ticks: Tensor) -> Tensor:
        """Return the times after and before each token, (2, B, T)."""
        after = self.after(tokens, ticks)
        return torch.stack([after, torch.cat([ticks.unsqueeze(1), after[:, :-1]], 1)])


# Sums over whole sequences in training: the same numbers as by chunks, below, without a memory of rows.
#
# Each head sorts the times of a sequence by row, and within a row by order. The entries of a row are then consecutive,
# and the sum over them is linear attention with decay, computed in blocks as in attention.py. Only the last row of a
# block can continue in the next one, so that a block passes on one state. T tokens have T + 1 times: time e is that
# of the key of token e and of the query of token e − 1. Forward and backward through a layer take 22 ms, and 81 ms by
# chunks, each of which copies the memory of all rows (one CPU thread, 2 × 1,024 tokens, six heads of 32 values).
#
# n blocks of c places with E = n·c ≥ T + 1; a column of ones follows the values.

BLOCKS = {"cpu": 32, "cuda": 64}  # places


class SortedTimes(NamedTuple):
    """The times of each head sorted by row, and the weights between queries and keys at the sorted places."""

    order: Tensor  # the time at each place, numbered across all heads: (B·H·E,)
    place: Tensor  # the place of each time, the inverse of `order`: (B·H·E,)
    within: Tensor  # weight of a key for a query of the same block: (B, H, n, c, c)
    entering: Tensor  # weight of the state before the block for a query: (B, H, n, c, 1)
    leaving: Tensor  # weight of a key in the state after its block: (B, H, n, c, 1)
    between: Tensor  # weight of each block's own state in the state before a block: (B, H, n, n)


def sort_times(rows: Tensor, periods: Tensor, ratios: Tensor) -> SortedTimes:
    """Sort times, given by their memory rows and period numbers, (B, H, T + 1) each; ratios are (H,).

    The weights of a query count from the newest key that it sees.
    """
    batch, heads, times = rows.shape
    block = BLOCKS.get(rows.device.type, BLOCKS["cuda"])
    number = -(-times // block)
    padding = number * block - times
    rows = F.pad(rows, (0, padding), value=torch.iinfo(torch.int32).max)  # sorted last
    periods = F.pad(periods, (0, padding))
    count = torch.arange(number * block, device=rows.device)
    order = (rows * len(count) + count).argsort(-1)  # by unique keys
    place = torch.empty_like(order).scatter_(-1, order, count.expand_as(order))
    rows, periods = (x.gather(-1, order) for x in (rows, periods))
    newest = F.pad(periods[..., :-1], (1, 0))  # of the place before, used only within a row
    row, period, newest = (x.unflatten(-1, (number, block)) for x in (rows, periods, newest))

    def weights(same: Tensor, passed: Tensor) -> Tensor:
        return _power(ratios.view(-1, *[1] * (passed.ndim - 2)), passed.clamp(min=0)) * same

    earlier = torch.ones(block, block, dtype=torch.bool, device=rows.device).tril(-1)
    same = earlier & (row.unsqueeze(-1) == row.unsqueeze(-2))
    last_row, last_period = row[..., -1:], period[..., -1:]  # (B, H, n, 1)
    before_row = F.pad(last_row[:, :, :-1], (0, 0, 1, 0), value=-1)
    before_period = F.pad(last_period[:, :, :-1], (0, 0, 1, 0))
    ended = torch.ones(number, number, dtype=torch.bool, device=rows.device).tril(-1)
    first = (torch.arange(batch * heads, device=rows.device) * len(count)).view(batch, heads, 1)
    return SortedTimes(
        order=(order + first).flatten(),
        place=(place + first).flatten(),
        within=weights(same, newest.unsqueeze(-1) - period.unsqueeze(-2)),
        entering=weights(row == before_row, newest - before_period).unsqueeze(-1),
        leaving=weights(row == last_row, last_period - period).unsqueeze(-1),
        between=weights(ended & (before_row == last_row.mT), before_period - last_period.mT),
    )


def sorted_attend(q: Tensor, k: Tensor, v: Tensor, times: SortedTimes) -> Tensor:
    """Return weighted means of values, (B, T, H, D − 1), from q and k, (B, T, H, M), and v, (B, T, H, D).

    The last column of `v` is ones, whose weighted sum is the denominator.
    """
    length, sizes = q.shape[1], (q.shape[-1], k.shape[-1], v.shape[-1])
    batch, heads, number, block, _ = times.within.shape
    padding = number * block - length
    q = F.pad(q, (0, 0, 0, 0, 1, padding - 1))  # aligned with the key of the next token
    k, v = (F.pad(x, (0, 0, 0, 0, 0, padding)) for x in (k, v))
    unsorted = torch.cat([q, k, v], -1).transpose(1, 2).flatten(0, 2)  # (B·H·E, 2M + D)
    by_row = _Permute.apply(unsorted, times.order, times.place)
    q, k, v = by_row.view(batch, heads, number, block, -1).split(sizes, -1)
    own = (k * times.leaving).mT @ v  # (B, H, n, M, D)
    states = (times.between.to(own.dtype) @ own.flatten(3)).view(own.shape)
    y = ((q @ k.mT) * times.within) @ v + (q * times.entering) @ states
    out = (y[..., :-1] / (y[..., -1:] + GUARD)).flatten(0, 3)
    out = _Permute.apply(out, times.place, times.order)
    return out.view(batch, heads, number * block, -1)[:, :, 1 : length + 1].transpose(1, 2)


class _Permute(torch.autograd.Function):
    """Permute rows; the gradient is gathered by the inverse, where autograd of an index would scatter-add."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, order: Tensor, inverse: Tensor) -> Tensor:
        ctx.save_for_backward(inverse)
        return x.index_select(0, order)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore
        (inverse,) = ctx.saved_tensors
        return dy.index_select(0, inverse), None, None


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """The memory rows and weights of the times in a chunk of c positions; all layers share them."""

    positions: slice
    within: Tensor  # weight of a key for a query of the same chunk: (B, H, c, c)
    query_rows: Tensor  # in a memory of B·R rows: (B·c·H,)
    query_weights: Tensor  # weight of the row before the chunk for a query: (B, c, H, 1)
    key_rows: Tensor  # (B·c·H,)
    key_weights: Tensor  # weight of a key in its row after the chunk: (B, c, H, 1)
    decay: Tensor  # weight of a row before the chunk in the row after it: (B·R, 1)


MetreLayout = list[Chunk] | SortedTimes
"""The places of a pass in the metre: chunks, or sorted times for whole sequences in training or on a GPU."""


class Metre(nn.Module):
    """The memory rows and periods of the metric heads, which all layers share."""

    periods: Tensor
    ratios: Tensor
    first: Tensor
    row_ratios: Tensor

    def __init__(self, config: MetreConfig, clock: Clock) -> None:
        super().__init__()
        periods = torch.tensor(config.periods(clock))
        ratios = 1 - 1 / torch.tensor(config.remembers, dtype=torch.float64)
        self.rows = int(periods.sum())
        self.register_buffer("periods", periods, persistent=False)
        self.register_buffer("ratios", ratios.float(), persistent=False)
        self.register_buffer("first", periods.cumsum(0) - periods, persistent=False)
        by_row = ratios.float().repeat_interleave(periods)
        self.register_buffer("row_ratios", by_row, persistent=False)

    def start(self, batch: int) -> Tensor:
        """Return `newest` before the first token: zeros, (B, R)."""
        return torch.zeros(batch, self.rows, device=self.periods.device)

    def layout(
        self, around: Tensor, newest: Tensor, *, whole: bool = False
    ) -> tuple[MetreLayout, Tensor]:
        """Return the places of tokens, given the times after and before each, (2, B, T).

        Takes and returns the period of each row's newest entry, (B, R) float32; `whole` sequences are not continued.
        """
        after, before = around
        # The block of a sorted entry depends on later tokens, and with it the last bit of sums. So on a CPU, times are
        # sorted only in training.
        if whole and (torch.is_grad_enabled() or not eager_on_cpu(after)):
            rows, periods = self._rows(torch.cat([before[:, :1], after], 1))
            return sort_times(rows.mT, periods.mT, self.ratios), newest
        size = CHUNKS.get(after.device.type, CHUNKS["cuda"])
        chunks = []
        for start in range(0, after.shape[1], size):
            at = slice(start, min(start + size, after.shape[1]))
            chunk, newest = self._chunk(at, after[:, at], before[:, at], newest)
            chunks.append(chunk)
        return chunks, newest

    def _chunk(
        self, positions: slice, after: Tensor, before: Tensor, newest: Tensor
    ) -> tuple[Chunk, Tensor]:
        queries, now = self._rows(after)  # (B, c, H) each
        keys, then = self._rows(before)
        past = torch.ones(2 * (after.shape[1],), dtype=torch.bool, device=after.device).tril()
        seen = past & _pairwise(torch.eq, queries, keys)
        passed = _pairwise(torch.sub, now, then)  # in periods: (B, H, c, c)
        since = now - _look_up(newest, queries)  # since the last entry before the chunk: (B, c, H)
        to_newest = passed.masked_fill(~seen, math.inf).amin(-1).mT.minimum(since)
        passed = (passed - to_newest.mT.unsqueeze(-1)).clamp(min=0)
        newer = newest.scatter_reduce(1, keys.flatten(1), then.flatten(1), "amax")
        chunk = Chunk(
            positions=positions,
            within=_power(self.ratios.view(-1, 1, 1), passed) * seen,
            query_rows=self._flat(queries),
            query_weights=_power(self.ratios, since - to_newest).unsqueeze(-1),
            key_rows=self._flat(keys),
            key_weights=_power(self.ratios, _look_up(newer, keys) - then).unsqueeze(-1),
            decay=_power(self.row_ratios, newer - newest).view(-1, 1),
        )
        return chunk, newer

    def _rows(self, ticks: Tensor) -> tuple[Tensor, Tensor]:
        """Return each head's memory row and period number at these times: (…) → (…, H) each."""
        ticks = ticks.unsqueeze(-1)
        return self.first + ticks % self.periods, (ticks // self.periods).float()

    def _flat(self, rows: Tensor) -> Tensor:
        """Number rows across the memories of a batch: (B, …) → (·,)."""
        batch = torch.arange(len(rows), device=rows.device) * self.rows
        return (rows + batch.view(-1, *[1] * (rows.ndim - 1))).flatten()


def _power(ratio: Tensor, exponent: Tensor) -> Tensor:
    ratio = ratio.to(torch.promote_types(ratio.dtype, torch.float32))
    return (ratio**exponent).clamp(min=MIN_WEIGHT)


def _pairwise(compare: Callable[[Tensor, Tensor], Tensor], queries: Tensor, keys: Tensor) -> Tensor:
    """Compare each query with each key: (B, c, H) both → (B, H, c, c)."""
    return compare(queries.mT.unsqueeze(-1), keys.mT.unsqueeze(-2))


def _look_up(newest: Tensor, rows: Tensor) -> Tensor:
    """Return the period of the newest entry of each of these rows: (B, R) and (B, …) → (B, …)."""
    return newest.gather(1, rows.flatten(1)).view(rows.shape)


MIN_FEATURE = 1e-2  # keeps the weight of every entry in the memory above 0


class MetricHeads(nn.Module):
    """The metric heads of one layer."""

    def __init__(self, config: MetreConfig, width: int, head_width: int) -> None:
        super().__init__()
        self.heads, self.features, self.head_width = len(config.bars), config.features, head_width
        self.qkv = Linear(width, self.heads * (2 * config.features + head_width))

    def forward(
        self, x: Tensor, layout: MetreLayout, memory: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Return the heads' output, (B, T, C) → (B, T, H·D), and the memory after it, (B, R, M, D + 1).

        With sorted times there is no memory: None.
        """
        qkv = self.qkv(x)
        with without_autocast(x.device):
            q, k, v = self._split(qkv.to(torch.promote_types(qkv.dtype, torch.float32)))
            if isinstance(layout, SortedTimes):
                out = sorted_attend(q, k, v, layout)
                return out.flatten(2).to(qkv.dtype), None
            batch, rows = len(x), len(layout[0].decay)
            if memory is None:
                memory = v.new_zeros(batch, rows // batch, self.features, v.shape[-1])
            table, sums = memory.view(rows, -1), []
            for chunk in layout:
                y, table = self._chunk(q, k, v, chunk, table)
                sums.append(y)
            y = torch.cat(sums, 1)
            out = y[..., :-1] / (y[..., -1:] + GUARD)
        return out.flatten(2).to(qkv.dtype), table.view(batch, rows // batch, self.features, -1)

    def _split(self, qkv: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return features of queries and keys, (B, T, H, M), and values with a column of ones, (B, T, H, D + 1)."""
        sizes = [self.features, self.features, self.head_width]
        q, k, v = qkv.unflatten(-1, (self.heads, -1)).split(sizes, -1)
        return q.clamp(min=MIN_FEATURE), k.clamp(min=MIN_FEATURE), F.pad(v, (0, 1), value=1.0)

    def _chunk(
        self, q: Tensor, k: Tensor, v: Tensor, chunk: Chunk, table: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the sums of one chunk, (B, c, H, D + 1), and the memory after it, (B·R, M·(D + 1))."""
        q, k, v = (x[:, chunk.positions] for x in (q, k, v))
        weights = torch.einsum("bihm,bjhm->bhij", q, k) * chunk.within
        read = _gather_rows(table, chunk.query_rows).view(*q.shape, -1)  # (B, c, H, M, D + 1)
        # Faster than a matrix product, which would be too thin.
        past = ((q * chunk.query_weights).unsqueeze(-1) * read).sum(-2)
        y = torch.einsum("bhij,bjhd->bihd", weights, v) + past
        entries = ((k * chunk.key_weights).unsqueeze(-1) * v.unsqueeze(-2)).flatten(3).flatten(0, 2)
        return y, _add_to_rows(table * chunk.decay, chunk.key_rows, entries)


# Both operations, and their gradients, add up in a deterministic order.


def _gather_rows(table: Tensor, rows: Tensor) -> Tensor:
    """Return these rows of the table, (·, M·(D + 1))."""
    return table.index_select(0, rows) if table.device.type == "cpu" else table[rows]


def _add_to_rows(table: Tensor, rows: Tensor, entries: Tensor) -> Tensor:
    """Return the table with entries added to rows; a row can be named more than once."""
    if table.device.type == "cpu":
        return table.index_add(0, rows, entries)
    return table.index_put((rows,), entries, accumulate=True)  # sorts on CUDA, unlike index_add
