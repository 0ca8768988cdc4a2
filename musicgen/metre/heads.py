"""The metric heads of a layer: each looks back, in a memory that does not grow, at the places that rows.py names.

B batch, T time, H metric heads, M features, D value width, c positions of a stretch, R rows of all heads together.
"""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from musicgen.attention.linear_attention import GUARD
from musicgen.layers.compiled.available import loops_for
from musicgen.layers.linear import Linear
from musicgen.layers.precision import without_autocast
from musicgen.layers.row_products import row_products
from musicgen.layers.step_calls import Call, StepInputs
from musicgen.metre.dense_sums import touched_sums
from musicgen.metre.rows import MetreConfig, Stretch, Stretches
from musicgen.metre.sorted_sums import sorted_sums

LEAST = 1e-2  # of a feature: a row that was written to is never empty


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
        self, x: Tensor, stretches: Stretches, memory: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Return (B, T, C) → (B, T, H·D), and the memory after it: (B, R, M, D + 1), but for sorted times."""
        qkv = self.qkv(x)
        with without_autocast(x.device):
            q, k, v = self._split(qkv.to(torch.promote_types(qkv.dtype, torch.float32)))
            if stretches.sorted is not None:
                out = sorted_sums(q, k, v, stretches.sorted, GUARD)
                return out.flatten(2).to(qkv.dtype), None
            batch, rows = len(x), len(stretches.each[0].fading)
            if memory is None:
                memory = v.new_zeros(batch, rows // batch, self.features, v.shape[-1])
            table = memory.view(rows, -1)
            if stretches.dense is not None:
                y, table = touched_sums(q, k, v, stretches.dense, table)
            else:
                y, table = self._by_token(q, k, v, stretches.each, table)
            out = y[..., :-1] / (y[..., -1:] + GUARD)
        return out.flatten(2).to(qkv.dtype), table.view(batch, rows // batch, self.features, -1)

    def for_steps(self, qkv: Tensor, memory: Tensor, out: Tensor, inputs: StepInputs) -> list[Call]:
        """Return the same as calls for one token after the other, which update the memory in place.

        They read what `qkv` computes, (B, H·(2M + D)), and write (B, H, D).
        """
        batch, features, width = len(qkv), self.features, self.head_width
        scratch, heads = inputs.scratch, qkv.view(batch, self.heads, -1)
        table = memory.view(-1, *memory.shape[2:])  # (B·R, M, D + 1)
        loops = loops_for(qkv, memory, out)
        if loops is not None and memory.is_contiguous():
            given, memories, found = heads.numpy(), table.numpy(), out.numpy()
            attend = loops.attend_by_metre
            return [lambda: attend(given, memories, *inputs.metre.arrays, LEAST, GUARD, found)]
        row = scratch.empty(table, batch * self.heads, *table.shape[1:])
        qk = scratch.empty(table, batch, self.heads, 2 * features)
        fk = qk.view(-1, 2 * features, 1)[:, features:]  # (B·H, M, 1)
        v = scratch.empty(table, batch, self.heads, width + 1).fill_(1)
        v_of_row = v.view(-1, 1, width + 1)
        guard = scratch.empty(table, 1, 1, width + 1).zero_()
        guard[..., width] = GUARD
        fq, found = qk[..., None, :features], row.view(batch, self.heads, features, -1)
        y, products = row_products(fq, found, scratch, guard)

        given = heads[..., : 2 * features]
        clamped: list[Call] = [partial(torch.clamp, given, min=LEAST, out=qk)]
        if given.dtype is not qk.dtype:  # which `clamp` does not bring together
            clamped = [partial(qk.copy_, given), partial(qk.clamp_, min=LEAST)]

        def file() -> None:
            step = inputs.metre
            torch.index_select(table, 0, step.key_rows, out=row)
            row.mul_(step.fading).addcmul_(fk, v_of_row)
            table.index_copy_(0, step.key_rows, row)

        return [
            *clamped,
            partial(v[..., :width].copy_, heads[..., 2 * features :]),
            file,
            lambda: torch.index_select(table, 0, inputs.metre.query_rows, out=row),
            *products,
            partial(torch.div, y[..., 0, :width], y[..., 0, width:], out=out),
        ]

    def _split(self, qkv: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return features of queries and keys, (B, T, H, M), and values with a 1 after them, (B, T, H, D + 1)."""
        sizes = [self.features, self.features, self.head_width]
        q, k, v = qkv.unflatten(-1, (self.heads, -1)).split(sizes, -1)
        return q.clamp(min=LEAST), k.clamp(min=LEAST), F.pad(v, (0, 1), value=1.0)

    def _by_token(
        self, q: Tensor, k: Tensor, v: Tensor, stretches: list[Stretch], table: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the sums, (B, T, H, D + 1), and the memory: in few and large calls, for GPUs and compilers."""
        ys = []
        for stretch in stretches:
            y, table = self._stretch(q, k, v, stretch, table)
            ys.append(y)
        return torch.cat(ys, 1), table

    def _stretch(
        self, q: Tensor, k: Tensor, v: Tensor, stretch: Stretch, table: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the sums of one stretch, (B, c, H, D + 1), and the memory after it, (B·R, M·(D + 1))."""
        q, k, v = (x[:, stretch.positions] for x in (q, k, v))
        weights = torch.einsum("bihm,bjhm->bhij", q, k) * stretch.within
        read = table[stretch.query_rows].view(*q.shape, -1)  # (B, c, H, M, D + 1)
        # Matrix products this thin are slower than this sum.
        past = ((q * stretch.query_weights).unsqueeze(-1) * read).sum(-2)
        y = torch.einsum("bhij,bjhd->bihd", weights, v) + past
        filed = ((k * stretch.key_weights).unsqueeze(-1) * v.unsqueeze(-2)).flatten(3).flatten(0, 2)
        return y, _added(table * stretch.fading, stretch.key_rows, filed)


def _added(table: Tensor, rows: Tensor, entries: Tensor) -> Tensor:
    """Return the table with entries added to rows, in the same order each time."""
    if table.device.type == "cpu":
        return table.index_add(0, rows, entries)
    return table.index_put((rows,), entries, accumulate=True)  # sorted; index_add on CUDA is not
