"""The ways to multiply a few rows with a matrix, each as a function that writes to memory it was given.

few_rows.py measures which one this machine is to take.

I width of the input, O width of the output.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor

from musicgen.layers.compiled import loops_for
from musicgen.layers.derived import Derived
from musicgen.layers.eight_bits import codes_of

MOST = 8  # rows that are computed together
Product = Callable[[Tensor], object]
"""From (rows, I); the result lies where the product was asked to write."""


def _by_rows(weight: Tensor, bias: Tensor | None, out: Tensor) -> Product:
    turned = weight.t()
    if bias is None:
        return lambda x: torch.mm(x, turned, out=out)
    return lambda x: torch.addmm(bias, x, turned, out=out)


def _by_columns(weight: Tensor, bias: Tensor | None, out: Tensor) -> Product:
    columns = out.new_empty(len(weight), len(out))
    turned = columns.t()
    if bias is None:
        finish = partial(out.copy_, turned)
    else:
        finish = partial(torch.add, turned, bias, out=out)

    def multiply(x: Tensor) -> None:
        torch.mm(weight, x.t(), out=columns)
        finish()

    return multiply


def _packed(weight: Tensor, bias: Tensor | None, out: Tensor) -> Product:
    packed = _PACKS.of([weight], lambda: _pack(weight))
    call = torch.ops.mkldnn._linear_pointwise

    def multiply(x: Tensor) -> None:
        out.copy_(call(x, packed, bias, "none", [], ""))

    return multiply


def _pack(weight: Tensor) -> Tensor:
    return torch.ops.mkldnn._reorder_linear_weight(weight.detach().contiguous(), MOST)


def _by_loops(weight: Tensor, bias: Tensor | None, out: Tensor) -> Product:
    loops, matrix, added = loops_for(weight), weight.detach().numpy(), _bias(weight, bias)
    assert loops is not None, "`possible` says whether they can be had"
    multiply, written = loops.product, out.numpy()
    return lambda x: multiply(matrix, added, x.numpy(), written)


def _by_codes(weight: Tensor, bias: Tensor | None, out: Tensor) -> Product:
    loops, stored = loops_for(weight), codes_if_stored_so(weight)
    assert loops is not None, "`way_for` says whether they can be had"
    assert stored is not None, "… and whether there are codes"
    codes, scale = (each.numpy() for each in stored)
    multiply, added, written = loops.product_of_codes, _bias(weight, bias), out.numpy()
    return lambda x: multiply(codes, scale, added, x.numpy(), written)


def _bias(weight: Tensor, bias: Tensor | None) -> np.ndarray:
    return weight.new_zeros(len(weight)).numpy() if bias is None else bias.detach().numpy()


def codes_if_stored_so(weight: Tensor) -> tuple[Tensor, Tensor] | None:
    """Return the 8-bit codes that a matrix was stored as, and their scales, where loops can read them; else None."""
    return None if loops_for(weight) is None else _CODES.of([weight], lambda: codes_of(weight))


_CODES: Derived[tuple[Tensor, Tensor] | None] = Derived()
_PACKS: Derived[Tensor] = Derived()  # matrices as oneDNN lays them out for few rows
WAYS: dict[str, Callable[[Tensor, Tensor | None, Tensor], Product]] = {
    "codes": _by_codes,
    "packed": _packed,
    "columns": _by_columns,
    "rows": _by_rows,
    "loops": _by_loops,
}
LOOPS = ("loops", "codes")  # compute any number of rows, each by itself


def possible(coded: bool = False) -> list[str]:
    """Return the ways that there are on this machine; 8-bit codes are one for a matrix that was stored so."""
    has_packed = torch.backends.mkldnn.is_available() and hasattr(
        torch.ops.mkldnn, "_reorder_linear_weight"
    )
    has_loops = loops_for() is not None
    has = {"packed": has_packed, "loops": has_loops, "codes": has_loops and coded}
    return [name for name in WAYS if has.get(name, True)]
