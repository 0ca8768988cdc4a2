"""Heads that remember by the place in the metre: relative positions in musical time, exact, at linear cost.

Accompaniments repeat: nine of ten drum notes of a groove come again in four bars. An attention over tokens has to find
them, though bars differ in length and linear attention has few features. But time is known from the tokens (`Clock`).
So with t_i the time after token i (where the next one stands) and s_j the time before token j (where it stood itself),
a head of period P has

    w_ij = [t_i ≡ s_j mod P] r^((t_i − s_j) / P) φ(q_i)·φ(k_j),   out_i = Σ_{j≤i} w_ij v_j / Σ_{j≤i} w_ij

It sees what stood at the same place of this period and earlier ones, the latest with most weight. The kernel depends on
t_i − s_j alone: it is the comb that encodings in musical time make of waves (position/base.py). And it is linear
attention: φ(k_j) is filed under the row s_j mod P of a memory of P rows, and a query reads the row t_i mod P.

A row fades only when it is written to: its newest entry has the weight 1, and `newest` says of which period that was.
A query weighs from the newest entry that it sees on, which cancels in the fraction: so weights never vanish together,
however long a row was silent.

Some tokens move a language's time, by (steps, tick): on by so many whole steps, then to that tick of the step. A step
is a beat of a groove, or a bar of REMI. Time is counted in ticks from the first token.

B batch, T time, H metric heads, M features, D value width, c positions of a stretch, R rows of all heads together.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from musicgen.attention import GUARD
from musicgen.linear import Linear, eager_on_cpu, without_autocast

FADED = 1e-20  # what no weight falls below: far from GUARD, and far below what float32 can add to 1
MOST_BARS = 64  # of a period: a memory has a row a tick of it
MOST_ROWS = 1 << 16  # of all heads of a layer
# Positions a stretch: in the cache of the one, and large kernels for the other.
CHUNKS = {"cpu": 128, "cuda": 256}
MOST_STEPS = 1 << 20  # that a token goes on by


@dataclass(frozen=True, kw_only=True)
class Clock:
    """How the tokens of a language move its time."""

    bar_ticks: int
    step_ticks: int  # of the steps that moves count
    moves: tuple[tuple[int, ...], ...]  # (token, steps, tick) of each token that moves time

    def __post_init__(self) -> None:
        if min(self.bar_ticks, self.step_ticks) < 1:
            raise ValueError(
                f"a bar has {self.bar_ticks} ticks and a step {self.step_ticks}; both are at least 1"
            )
        for move in self.moves:
            if len(move) != 3 or min(move) < 0 or move[2] >= self.step_ticks:
                raise ValueError(
                    f"{list(move)} is not a move: a token, steps, and a tick below {self.step_ticks} are wanted"
                )
            if move[1] > MOST_STEPS:
                raise ValueError(f"{list(move)} goes on by more than {MOST_STEPS} steps")


class Times(NamedTuple):
    """How far each sequence is, in musical time and towards its goal."""

    ticks: Tensor  # after the last token: (B,)
    newest: Tensor  # what metric heads keep: (B, R), R = 0 without any
    goal: Tensor  # which one stands (performer.py), 0 before the first: (B,)


def latest(before: Tensor, given: Tensor, counts: Tensor) -> Tensor:
    """Return the latest value that counts at each place, (B, T), and the one before the first, (B, 1), until then."""
    place = torch.arange(1, given.shape[1] + 1, device=given.device) * counts
    return torch.cat([before, given], 1).gather(1, place.cummax(1).values)


class Timekeeper(nn.Module):
    """Reads the time off tokens, any number at once."""

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
        """Return the time after each token, (B, T), of sequences that stand at `ticks`, (B,).

        It may go back inside a step: the parts of a bar stand one after the other.
        """
        ticks = ticks.unsqueeze(1)
        steps = ticks // self.step_ticks + self.steps[tokens].cumsum(1)
        tick = self.tick[tokens]
        return latest(ticks, steps * self.step_ticks + tick, tick >= 0)

    def around(self, tokens: Tensor, ticks: Tensor) -> Tensor:
        """Return the times after and before each token, (2, B, T)."""
        after = self.after(tokens, ticks)
        return torch.stack([after, torch.cat([ticks.unsqueeze(1), after[:, :-1]], 1)])


@dataclass(frozen=True, kw_only=True)
class MetreConfig:
    """A metric head for each of `bars`."""

    bars: tuple[float, ...] = (1, 1, 2, 4)  # its period
    remembers: tuple[float, ...] = (2, 8, 8, 8)  # periods; r is 1 − 1 / this
    features: int = 4  # M

    def __post_init__(self) -> None:
        if not self.bars or len(self.bars) != len(self.remembers):
            raise ValueError(
                f"bars are {list(self.bars)} and remembers {list(self.remembers)}; each head has one of both"
            )
        possible = all(0 < bars <= MOST_BARS for bars in self.bars)
        if not possible or not all(1 < n < math.inf for n in self.remembers) or self.features < 1:
            raise ValueError(
                f"bars are {list(self.bars)} (above 0, {MOST_BARS} at most), remembers {list(self.remembers)} "
                f"(above 1) and features {self.features} (at least 1)"
            )

    def periods(self, clock: Clock) -> list[int]:
        """Return the period of each head in ticks."""
        ticks = [bars * clock.bar_ticks for bars in self.bars]
        for bars, period in zip(self.bars, ticks, strict=True):
            if period != int(period):
                raise ValueError(
                    f"{bars} bars are {period} ticks; a metric head's period is a whole number of them"
                )
        if sum(ticks) > MOST_ROWS:
            raise ValueError(
                f"the periods of metric heads are {int(sum(ticks))} ticks together; {MOST_ROWS} at most have a row each"
            )
        return [int(period) for period in ticks]


# The sums over whole sequences in training: the same numbers as those by stretches, below, without a memory of rows.
#
# A head sorts the times of a sequence by their row and then by their order. What one row holds is then one stretch, and
# the sum over it is a linear attention with decay, in blocks as in attention.py. Only the row that a block ends in can
# go on in the next, so that a block leaves one state. T tokens have T + 1 times: time e has the key of token e and the
# query of token e − 1. A layer forward and backward takes 22 ms so and 81 ms by stretches, which copy a memory of all
# rows each: on a CPU, 2 × 1,024 tokens, six heads of 32 values, one thread.
#
# n blocks of c places with E = n·c ≥ T + 1; values have a 1 after them.

BLOCKS = {"cpu": 32, "cuda": 64}  # places


class Sorted(NamedTuple):
    """The times of a head sorted by row, and how a query at one place sees a key at another."""

    order: Tensor  # which time stands at a place, numbered through all heads: (B·H·E,)
    place: Tensor  # at which place a time stands: (B·H·E,)
    within: Tensor  # how a query sees a key of its block: (B, H, n, c, c)
    entering: Tensor  # … and the state before it: (B, H, n, c, 1)
    leaving: Tensor  # how the state after a block sees its keys: (B, H, n, c, 1)
    between: Tensor  # how the state before a block sees what each block left: (B, H, n, n)


def sorted_times(rows: Tensor, periods: Tensor, ratios: Tensor) -> Sorted:
    """Sort times, given by their rows and the numbers of their periods, (B, H, T + 1) each; ratios are (H,).

    Weights count from the newest key that a query sees.
    """
    batch, heads, times = rows.shape
    block = BLOCKS.get(rows.device.type, BLOCKS["cuda"])
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
        return _power(ratios.view(-1, *[1] * (passed.ndim - 2)), passed.clamp(min=0)) * same

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


def sorted_sums(q: Tensor, k: Tensor, v: Tensor, times: Sorted) -> Tensor:
    """Return the weighted means of values, (B, T, H, D − 1), from q and k, (B, T, H, M), and v, (B, T, H, D).

    The last column of the values is the 1 whose sum is the denominator.
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
    out = (y[..., :-1] / (y[..., -1:] + GUARD)).flatten(0, 3)
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


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """What all layers need to know of the times in a stretch of c positions."""

    positions: slice
    within: Tensor  # how a query sees a key of the stretch: (B, H, c, c)
    query_rows: Tensor  # in a memory of B·R rows: (B·c·H,)
    query_weights: Tensor  # how it sees the row as the stretch before left it: (B, c, H, 1)
    key_rows: Tensor  # (B·c·H,)
    key_weights: Tensor  # how the row sees a key after the stretch: (B, c, H, 1)
    fading: Tensor  # … and its earlier entries: (B·R, 1)


Stretches = list[Stretch] | Sorted
"""All stretches of a pass; of whole sequences that are learned from, and of any on a GPU, all times sorted."""


class Metre(nn.Module):
    """What metric heads share in all layers: rows and periods."""

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
        """Return the number of the period in which each row was last written to, before the first token: (B, R)."""
        return torch.zeros(batch, self.rows, device=self.periods.device)

    def stretches(
        self, after: Tensor, before: Tensor, newest: Tensor
    ) -> tuple[list[Stretch], Tensor]:
        """Say where tokens stand, stretch by stretch, by the time after and before each, (B, T) both.

        Takes and returns the period of each row's newest entry, (B, R) float32.
        """
        size = CHUNKS.get(after.device.type, CHUNKS["cuda"])
        stretches = []
        for start in range(0, after.shape[1], size):
            at = slice(start, min(start + size, after.shape[1]))
            stretch, newest = self._stretch(at, after[:, at], before[:, at], newest)
            stretches.append(stretch)
        return stretches, newest

    def whole(self, after: Tensor, before: Tensor) -> Sorted | None:
        """Say the same of whole sequences, from which none goes on: where sorted times pay, so not of a few tokens.

        What lies in a block depends on all tokens, and with it the last bit; so on a CPU they are for training alone.
        """
        if eager_on_cpu(after) and not torch.is_grad_enabled():
            return None
        rows, periods = self._rows(torch.cat([before[:, :1], after], 1))
        return sorted_times(rows.mT, periods.mT, self.ratios)

    def step(
        self, after: Tensor, before: Tensor, newest: Tensor, places: Tensor
    ) -> tuple[tuple[np.ndarray, ...], Tensor]:
        """Say of one more token a row, (B,) both, by which rows and fading loops find it in memories at these places.

        The rows are those of its key and of what follows it, the fading is that of the key's row: (B·H,) each.
        """
        keys, periods = self._rows(before)
        queries, _ = self._rows(after)
        fading = _power(self.ratios, periods - _at(newest, keys))
        found = (self._flat(keys, places), self._flat(queries, places), fading.flatten())
        return tuple(x.numpy() for x in found), newest.scatter(1, keys, periods)

    def _stretch(
        self, positions: slice, after: Tensor, before: Tensor, newest: Tensor
    ) -> tuple[Stretch, Tensor]:
        queries, now = self._rows(after)  # (B, c, H) each
        keys, then = self._rows(before)
        past = torch.ones(2 * (after.shape[1],), dtype=torch.bool, device=after.device).tril()
        seen = past & _each_with_each(torch.eq, queries, keys)
        passed = _each_with_each(torch.sub, now, then)  # periods: (B, H, c, c)
        since = now - _at(newest, queries)  # … since the row was written to: (B, c, H)
        to_newest = passed.masked_fill(~seen, math.inf).amin(-1).mT.minimum(since)
        passed = (passed - to_newest.mT.unsqueeze(-1)).clamp(min=0)
        newer = newest.scatter_reduce(1, keys.flatten(1), then.flatten(1), "amax")
        stretch = Stretch(
            positions=positions,
            within=_power(self.ratios.view(-1, 1, 1), passed) * seen,
            query_rows=self._flat(queries),
            query_weights=_power(self.ratios, since - to_newest).unsqueeze(-1),
            key_rows=self._flat(keys),
            key_weights=_power(self.ratios, _at(newer, keys) - then).unsqueeze(-1),
            fading=_power(self.row_ratios, newer - newest).view(-1, 1),
        )
        return stretch, newer

    def _rows(self, ticks: Tensor) -> tuple[Tensor, Tensor]:
        """Return each head's row at these times, and the number of its period: (…) → (…, H) each."""
        ticks = ticks.unsqueeze(-1)
        return self.first + ticks % self.periods, (ticks // self.periods).float()

    def _flat(self, rows: Tensor, places: Tensor | None = None) -> Tensor:
        """Number the rows of a batch's memories through: (B, …) → (·,)."""
        batch = torch.arange(len(rows), device=rows.device) if places is None else places
        batch = batch * self.rows
        return (rows + batch.view(-1, *[1] * (rows.ndim - 1))).flatten()


def _power(ratio: Tensor, exponent: Tensor) -> Tensor:
    ratio = ratio.to(torch.promote_types(ratio.dtype, torch.float32))
    return (ratio**exponent).clamp(min=FADED)


def _each_with_each(
    compare: Callable[[Tensor, Tensor], Tensor], queries: Tensor, keys: Tensor
) -> Tensor:
    """Compare each query with each key: (B, c, H) both → (B, H, c, c)."""
    return compare(queries.mT.unsqueeze(-1), keys.mT.unsqueeze(-2))


def _at(newest: Tensor, rows: Tensor) -> Tensor:
    """Look up each row's newest entry: (B, …) → (B, …)."""
    return newest.gather(1, rows.flatten(1)).view(rows.shape)


LEAST = 1e-2  # of a feature: a row that was written to is never empty


class MetricHeads(nn.Module):
    """The metric heads of one layer."""

    def __init__(self, config: MetreConfig, width: int, head_width: int) -> None:
        super().__init__()
        self.heads, self.features, self.head_width = len(config.bars), config.features, head_width
        self.qkv = Linear(width, self.heads * (2 * config.features + head_width))

    def forward(
        self, x: Tensor, stretches: Stretches, memory: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Return (B, T, C) → (B, T, H·D), and the memory after it: (B, R, M, D + 1), but for sorted times."""
        qkv = self.qkv(x)
        with without_autocast(x.device):
            q, k, v = self._split(qkv.to(torch.promote_types(qkv.dtype, torch.float32)))
            if isinstance(stretches, Sorted):
                out = sorted_sums(q, k, v, stretches)
                return out.flatten(2).to(qkv.dtype), None
            batch, rows = len(x), len(stretches[0].fading)
            if memory is None:
                memory = v.new_zeros(batch, rows // batch, self.features, v.shape[-1])
            table, found = memory.view(rows, -1), []
            for stretch in stretches:
                y, table = self._stretch(q, k, v, stretch, table)
                found.append(y)
            y = torch.cat(found, 1)
            out = y[..., :-1] / (y[..., -1:] + GUARD)
        return out.flatten(2).to(qkv.dtype), table.view(batch, rows // batch, self.features, -1)

    def _split(self, qkv: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return features of queries and keys, (B, T, H, M), and values with a 1 after them, (B, T, H, D + 1)."""
        sizes = [self.features, self.features, self.head_width]
        q, k, v = qkv.unflatten(-1, (self.heads, -1)).split(sizes, -1)
        return q.clamp(min=LEAST), k.clamp(min=LEAST), F.pad(v, (0, 1), value=1.0)

    def _stretch(
        self, q: Tensor, k: Tensor, v: Tensor, stretch: Stretch, table: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the sums of one stretch, (B, c, H, D + 1), and the memory after it, (B·R, M·(D + 1))."""
        q, k, v = (x[:, stretch.positions] for x in (q, k, v))
        weights = torch.einsum("bihm,bjhm->bhij", q, k) * stretch.within
        read = _taken(table, stretch.query_rows).view(*q.shape, -1)  # (B, c, H, M, D + 1)
        # Matrix products this thin are slower than this sum.
        past = ((q * stretch.query_weights).unsqueeze(-1) * read).sum(-2)
        y = torch.einsum("bhij,bjhd->bihd", weights, v) + past
        filed = ((k * stretch.key_weights).unsqueeze(-1) * v.unsqueeze(-2)).flatten(3).flatten(0, 2)
        return y, _added(table * stretch.fading, stretch.key_rows, filed)


# Gradients of rows that are taken, and entries of rows, are added up in the same order each time.


def _taken(table: Tensor, rows: Tensor) -> Tensor:
    """Return some rows of the table, (·, M·(D + 1))."""
    return table.index_select(0, rows) if table.device.type == "cpu" else table[rows]


def _added(table: Tensor, rows: Tensor, entries: Tensor) -> Tensor:
    """Return the table with entries added to rows."""
    if table.device.type == "cpu":
        return table.index_add(0, rows, entries)
    return table.index_put((rows,), entries, accumulate=True)  # sorted; index_add on CUDA is not
