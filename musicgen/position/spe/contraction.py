"""The code of SPE contracted with one token a row, row by row of the batch: each has a code of its own.

H heads, D head width, R realisations; "queries beside keys" are 2H heads, the queries' first.
"""

from __future__ import annotations

from functools import partial
from types import ModuleType

import torch
from torch import Tensor

from musicgen.layers.compiled.available import loops_for
from musicgen.layers.step_calls import Call, StepInputs


def contraction(
    qk: Tensor, out: Tensor, inputs: StepInputs, *, layer: int, slot: int, gated: bool
) -> list[Call]:
    """Return calls that contract queries beside keys, (B, 2H, D), to (B, 2H, R), by the codes that `inputs` bring."""
    loops = loops_for(qk, out)
    contract = _by_torch if loops is None else partial(_by_loops, loops)
    return contract(qk, out, inputs, layer=layer, slot=slot, gated=gated)


def _by_loops(
    loops: ModuleType,
    qk: Tensor,
    out: Tensor,
    inputs: StepInputs,
    *,
    layer: int,
    slot: int,
    gated: bool,
) -> list[Call]:
    _, heads, width = qk.shape
    ones = torch.ones(heads, 1, width).numpy()
    rows = [*zip(qk.numpy(), out.numpy(), strict=True)]
    sides = slice(heads // 2), slice(heads // 2, None)
    loop = loops.contract

    def contract() -> None:
        gains = inputs.code.sides_mix[layer].numpy() if gated else ones
        for (x, y), codes in zip(rows, inputs.code.rows[slot], strict=True):
            if len(codes) == 1:
                loop(x, gains, codes[0].numpy(), y)
                continue
            for side, code in zip(sides, codes, strict=True):
                loop(x[side], gains[side], code.numpy(), y[side])

    return [contract]


def _by_torch(
    qk: Tensor, out: Tensor, inputs: StepInputs, *, layer: int, slot: int, gated: bool
) -> list[Call]:
    """A product a row: together, the rows would go through a kernel that adds up in another order."""
    batch, heads, width = qk.shape
    mixed = inputs.scratch.empty(qk, batch, heads, 2 if gated else 1, width)
    rows = mixed.flatten(2).unsqueeze(2).unbind()  # (2H, 1, 2D or D) each
    placed = out.unsqueeze(2).unbind()  # (2H, 1, R) each
    together = [[both] for both in zip(rows, placed, strict=True)]
    by_side = [[*zip(x.chunk(2), y.chunk(2), strict=True)] for ((x, y),) in together]

    def mix() -> None:
        torch.mul(qk.unsqueeze(2), inputs.code.sides_mix[layer], out=mixed)

    def contract() -> None:
        for row, codes in enumerate(inputs.code.rows[slot]):
            sides = together[row] if len(codes) == 1 else by_side[row]
            for code, (x, y) in zip(codes, sides, strict=True):
                _product(x, code, y)

    return [mix if gated else partial(mixed.copy_, qk.unsqueeze(2)), contract]


def _product(x: Tensor, code: Tensor, out: Tensor) -> None:
    """Multiply matrices, (n, 1, D) by (n, D, R) to (n, 1, R)."""
    if out.is_mps:  # there a product may never reach an `out` that begins inside a tensor
        out.copy_(torch.bmm(x, code))
    else:
        torch.bmm(x, code, out=out)
