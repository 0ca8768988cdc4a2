"""Heads that remember by the place in the metre: relative positions in musical time, exact, at linear cost.

Accompaniments repeat: in the grooves that one model here learns from, 94 of 100 drum notes come again four bars later.
An attention over tokens has to find them: a bar may be 50 tokens or 200 long, and the features of linear attention are
too few to single one of so many out. But time is known, from the tokens (clock.py). So with t_i the time behind token i
(where the next one is going to stand) and s_j the time before token j (where it stood itself), a head of period P has

    w_ij = [t_i ≡ s_j mod P] r^((t_i − s_j) / P) φ(q_i)·φ(k_j),   out_i = Σ_{j≤i} w_ij v_j / Σ_{j≤i} w_ij

It looks back only at what stood at the same place of earlier bars (periods), and of those at the latest with most
weight. That depends on t_i − s_j alone. And it is linear attention: φ(k_j) is filed under the row s_j mod P of a memory
of P rows, and a query reads the row t_i mod P; a step costs the same at any position.

A row fades only when it is written to: its newest entry has the weight 1, and `newest` says of which period that was.
The factor between then and now is the same above and below the fraction when nothing else is read.

B batch, T time, H metric heads, M features, D value width, R rows of all heads together.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from musicgen.attention import GUARD
from musicgen.clock import Clock, Timekeeper
from musicgen.linear import Linear
from musicgen.moment import Call, Moment
from musicgen.precision import without_autocast

LEAST = 1e-2  # of a feature: a row that was written to is never empty
FADED = 1e-20  # what no weight falls below: far from GUARD, and far below what float32 can add to 1
CHUNK = {"cpu": 128}  # positions a stretch: small ones stay in the cache
GPU_CHUNK = 512  # large kernels


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
        if min(self.bars) <= 0 or min(self.remembers) <= 1 or self.features < 1:
            raise ValueError(
                f"bars are {list(self.bars)} (above 0), remembers {list(self.remembers)} (above 1) "
                f"and features {self.features} (at least 1)"
            )

    def periods(self, clock: Clock) -> list[int]:
        """Return the period of each head in ticks."""
        ticks = [bars * clock.bar_ticks for bars in self.bars]
        for bars, period in zip(self.bars, ticks, strict=True):
            if period != int(period):
                raise ValueError(
                    f"{bars} bars are {period} ticks; a metric head's period is a whole number of them"
                )
        return [int(period) for period in ticks]


class Times(NamedTuple):
    """How far each sequence is, in musical time."""

    ticks: Tensor  # behind the last token: (B,)
    newest: Tensor  # the number of the period in which each row was last written to: (B, R)

    def select(self, rows: Tensor) -> Times:
        """Return copies of the given rows of the batch."""
        return Times(*(x.index_select(0, rows) for x in self))


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """What all layers need to know of the times in a stretch of c positions."""

    positions: slice
    within: Tensor  # [t ≡ s] r^((t − s) / P) where j ≤ i, else 0: (B, H, c, c)
    query_rows: Tensor  # in a memory of B·R rows: (B·c·H,)
    query_weights: Tensor  # how a query sees the row as the stretch before left it: (B, c, H, 1)
    key_rows: Tensor  # (B·c·H,)
    key_weights: Tensor  # how the row sees a key behind the stretch: (B, c, H, 1)
    fading: Tensor  # … and its earlier entries: (B·R, 1)


class Metre(nn.Module):
    """What metric heads share in all layers: rows, periods, and the time of each token."""

    periods: Tensor
    ratios: Tensor
    first: Tensor
    row_ratios: Tensor

    def __init__(self, config: MetreConfig, clock: Clock, vocabulary_size: int) -> None:
        super().__init__()
        periods = torch.tensor(config.periods(clock))
        ratios = 1 - 1 / torch.tensor(config.remembers, dtype=torch.float64)
        self.time = Timekeeper(clock, vocabulary_size)
        self.rows = int(periods.sum())
        self.register_buffer("periods", periods, persistent=False)
        self.register_buffer("ratios", ratios.float(), persistent=False)
        self.register_buffer("first", periods.cumsum(0) - periods, persistent=False)
        by_row = ratios.float().repeat_interleave(periods)
        self.register_buffer("row_ratios", by_row, persistent=False)

    def start(self, batch: int) -> Times:
        """Return the time before the first token."""
        ticks = self.periods.new_zeros(batch)
        return Times(ticks, ticks.new_zeros(batch, self.rows))

    def stretches(self, tokens: Tensor, times: Times) -> tuple[list[Stretch], Times]:
        """Say where the tokens stand, (B, T), stretch by stretch, and the time behind them."""
        behind = self.time.behind(tokens, times.ticks)
        before = torch.cat([times.ticks.unsqueeze(1), behind[:, :-1]], 1)
        stretches, newest = self.between(before, behind, times.newest)
        return stretches, Times(behind[:, -1], newest)

    def between(
        self, before: Tensor, behind: Tensor, newest: Tensor
    ) -> tuple[list[Stretch], Tensor]:
        """Say the same of the times before and behind each token, (B, T) each, and of the rows' newest entries."""
        size, stretches = CHUNK.get(behind.device.type, GPU_CHUNK), []
        for start in range(0, behind.shape[1], size):
            at = slice(start, min(start + size, behind.shape[1]))
            stretch, newest = self._stretch(at, behind[:, at], before[:, at], newest)
            stretches.append(stretch)
        return stretches, newest

    def step(self, tokens: Tensor, times: Times) -> tuple[Step, Times]:
        """Say where one more token a row stands, (B,), and the time behind it."""
        behind = self.time.behind_one(tokens, times.ticks)
        keys, periods = self._rows(times.ticks)
        queries, _ = self._rows(behind)
        fading = _power(self.ratios, periods - times.newest.gather(1, keys))
        step = Step(self._flat(keys), self._flat(queries), fading.view(-1, 1, 1))
        return step, Times(behind, times.newest.scatter(1, keys, periods))

    def _stretch(
        self, positions: slice, behind: Tensor, before: Tensor, newest: Tensor
    ) -> tuple[Stretch, Tensor]:
        queries, query_periods = self._rows(behind)  # (B, c, H) each
        keys, key_periods = self._rows(before)
        length = behind.shape[1]
        same = queries.transpose(1, 2).unsqueeze(-1) == keys.transpose(1, 2).unsqueeze(-2)
        past = torch.ones(length, length, dtype=torch.bool, device=behind.device).tril()
        now, then = query_periods.transpose(1, 2), key_periods.transpose(1, 2)
        passed = now.unsqueeze(-1) - then.unsqueeze(-2)
        within = _power(self.ratios.view(-1, 1, 1), passed.clamp(min=0)) * (same & past)
        after = newest.scatter_reduce(1, keys.flatten(1), key_periods.flatten(1), "amax")
        stretch = Stretch(
            positions=positions,
            within=within,
            query_rows=self._flat(queries),
            query_weights=_power(self.ratios, query_periods - _at(newest, queries)).unsqueeze(-1),
            key_rows=self._flat(keys),
            key_weights=_power(self.ratios, _at(after, keys) - key_periods).unsqueeze(-1),
            fading=_power(self.row_ratios, after - newest).view(-1, 1),
        )
        return stretch, after

    def _rows(self, ticks: Tensor) -> tuple[Tensor, Tensor]:
        """Return each head's row at these times, and the number of its period: (…) → (…, H) each."""
        ticks = ticks.unsqueeze(-1)
        return self.first + ticks % self.periods, ticks // self.periods

    def _flat(self, rows: Tensor) -> Tensor:
        """Number the rows of a batch's memories through: (B, …) → (·,)."""
        batch = torch.arange(len(rows), device=rows.device) * self.rows
        return (rows + batch.view(-1, *[1] * (rows.ndim - 1))).flatten()


class Step(NamedTuple):
    """Where one token of each sequence is filed, and where what follows it is looked up."""

    key_rows: Tensor  # in a memory of B·R rows: (B·H,)
    query_rows: Tensor  # (B·H,)
    fading: Tensor  # of the key's row: (B·H, 1, 1)


def _power(ratio: Tensor, exponent: Tensor) -> Tensor:
    return (ratio**exponent).clamp(min=FADED)


def _at(newest: Tensor, rows: Tensor) -> Tensor:
    return newest.gather(1, rows.flatten(1)).view(rows.shape)


class MetricHeads(nn.Module):
    """The metric heads of one layer."""

    def __init__(self, config: MetreConfig, width: int, head_width: int) -> None:
        super().__init__()
        self.heads, self.features, self.head_width = len(config.bars), config.features, head_width
        self.qkv = Linear(width, self.heads * (2 * config.features + head_width))

    @property
    def width(self) -> int:
        """Width of what all heads return together."""
        return self.heads * self.head_width

    def forward(
        self, x: Tensor, stretches: list[Stretch], memory: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return (B, T, C) → (B, T, H·D), and the memory behind it: (B, R, M, D + 1)."""
        qkv = self.qkv(x)
        with without_autocast(x.device):
            q, k, v = self._split(qkv.to(torch.promote_types(qkv.dtype, torch.float32)))
            batch, rows = len(x), len(stretches[0].fading)
            if memory is None:
                memory = v.new_zeros(batch, rows // batch, self.features, v.shape[-1])
            table = memory.view(rows, -1)
            ys = []
            for stretch in stretches:
                y, table = self._stretch(q, k, v, stretch, table)
                ys.append(y)
            y = torch.cat(ys, 1)
            out = y[..., :-1] / (y[..., -1:] + GUARD)
        return out.flatten(2).to(qkv.dtype), table.view(batch, rows // batch, self.features, -1)

    def for_steps(self, qkv: Tensor, memory: Tensor, out: Tensor, moment: Moment) -> list[Call]:
        """Return the same as calls for one token after the other, which update the memory in place.

        They read what `qkv` computes, (B, H·(2M + D)), and write (B, H, D). No product depends on how many rows it has.
        """
        batch, features = len(qkv), self.features
        heads = qkv.view(batch, self.heads, -1)
        table = memory.view(-1, *memory.shape[2:])  # (B·R, M, D + 1)
        row = table.new_empty(batch * self.heads, *table.shape[1:])
        qk = table.new_empty(batch, self.heads, 2 * features)
        fq, fk = qk.view(-1, 2 * features, 1).split(features, 1)  # (B·H, M, 1) each
        v = table.new_ones(batch, self.heads, self.head_width + 1)
        v_of_row = v.view(-1, 1, self.head_width + 1)
        y = torch.empty_like(v)

        def file() -> None:
            step = moment.metre
            torch.index_select(table, 0, step.key_rows, out=row)
            row.mul_(step.fading).addcmul_(fk, v_of_row)
            table.index_copy_(0, step.key_rows, row)

        def look_up() -> None:
            torch.index_select(table, 0, moment.metre.query_rows, out=row)
            torch.sum(row.mul_(fq), 1, out=y.view(-1, self.head_width + 1))

        return [
            partial(torch.clamp, heads[..., : 2 * features], min=LEAST, out=qk),
            partial(v[..., : self.head_width].copy_, heads[..., 2 * features :]),
            file,
            look_up,
            lambda: torch.div(y[..., :-1], y[..., -1:] + GUARD, out=out),
        ]

    def _split(self, qkv: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return features of queries and keys, (B, T, H, M), and values with a 1 behind them, (B, T, H, D + 1)."""
        sizes = [self.features, self.features, self.head_width]
        q, k, v = qkv.unflatten(-1, (self.heads, -1)).split(sizes, -1)
        return q.clamp(min=LEAST), k.clamp(min=LEAST), F.pad(v, (0, 1), value=1.0)

    def _stretch(
        self, q: Tensor, k: Tensor, v: Tensor, stretch: Stretch, table: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the sums of one stretch, (B, c, H, D + 1), and the memory behind it, (B·R, M·(D + 1))."""
        q, k, v = (x[:, stretch.positions] for x in (q, k, v))
        weights = torch.einsum("bihm,bjhm->bhij", q, k) * stretch.within
        read = table.index_select(0, stretch.query_rows).view(*q.shape, -1)  # (B, c, H, M, D + 1)
        # Matrix products this thin are slower than this sum.
        past = ((q * stretch.query_weights).unsqueeze(-1) * read).sum(-2)
        y = torch.einsum("bhij,bjhd->bihd", weights, v) + past
        filed = ((k * stretch.key_weights).unsqueeze(-1) * v.unsqueeze(-2)).flatten(3).flatten(0, 2)
        return y, (table * stretch.fading).index_add(0, stretch.key_rows, filed)
