"""The ways to multiply a few rows with a matrix, each as a function that writes to memory it was given.

few_rows.py measures which one this machine is to take.

I width of the input, O width of the output.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import ModuleType

import numpy as np
import torch
from torch import Tensor

from musicgen.layers.compiled.available import loops_for, shared_loops
from musicgen.layers.derived import Derived
from musicgen.layers.weight_codes import codes_of

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
    return _alone(_loops().product, [weight.detach().numpy(), _bias(weight, bias)], out)


def _by_codes(weight: Tensor, bias: Tensor | None, out: Tensor) -> Product:
    return _alone(_loops().product_of_codes, [*_codes(weight), _bias(weight, bias)], out)


def _by_shared_loops(weight: Tensor, bias: Tensor | None, out: Tensor) -> Product:
    return _shared("product", [weight.detach().numpy(), _bias(weight, bias)], out)


def _by_shared_codes(weight: Tensor, bias: Tensor | None, out: Tensor) -> Product:
    return _shared("product_of_codes", [*_codes(weight), _bias(weight, bias)], out)


def _alone(multiply: Callable[..., None], given: Sequence[np.ndarray], out: Tensor) -> Product:
    written = out.numpy()
    return lambda x: multiply(*given, x.numpy(), written)


def _shared(name: str, given: Sequence[np.ndarray], out: Tensor) -> Product:
    loops, written = shared_loops(), out.numpy()
    assert loops is not None, "`possible` says whether they can be had"
    multiply = getattr(loops, name)
    threads, limit = loops.limited(torch.get_num_threads())

    def limited(x: Tensor) -> None:
        limit()
        multiply(*given, x.numpy(), written, threads)

    return (lambda x: multiply(*given, x.numpy(), written, threads)) if limit is None else limited


def _loops() -> ModuleType:
    loops = loops_for()
    assert loops is not None, "`possible` says whether they can be had"
    return loops


def _codes(weight: Tensor) -> list[np.ndarray]:
    stored = codes_if_stored_so(weight)
    assert stored is not None, "`way_for` says whether there are codes"
    return [each.numpy() for each in stored]


def _bias(weight: Tensor, bias: Tensor | None) -> np.ndarray:
    return weight.new_zeros(len(weight)).numpy() if bias is None else bias.detach().numpy()


def codes_if_stored_so(weight: Tensor) -> tuple[Tensor, Tensor] | None:
    """Return the 8-bit codes that a matrix was stored as, and their scales, where loops can read them; else None."""
    return None if loops_for(weight) is None else _CODES.of([weight], lambda: codes_of(weight))


_CODES: Derived[tuple[Tensor, Tensor] | None] = Derived()
_PACKS: Derived[Tensor] = Derived()  # matrices as oneDNN lays them out for few rows
WAYS: dict[str, Callable[[Tensor, Tensor | None, Tensor], Product]] = {
    "codes": _by_codes,
    "shared codes": _by_shared_codes,
    "shared": _by_shared_loops,
    "packed": _packed,
    "columns": _by_columns,
    "rows": _by_rows,
    "loops": _by_loops,
}
LOOPS = ("codes", "shared codes", "shared", "loops")  # compute any number of rows, each by itself
# Numbers of a matrix that several threads may share: for fewer, to meet takes longer than to multiply.
LARGE = 1 << 18


def possible(numbers: int, coded: bool = False) -> list[str]:
    """Return the ways for a matrix of so many numbers on this machine; 8-bit codes are one if it was stored so."""
    has_packed = torch.backends.mkldnn.is_available() and hasattr(
        torch.ops.mkldnn, "_reorder_linear_weight"
    )
    has_loops = loops_for() is not None
    has_shared = numbers >= LARGE and shared_loops() is not None
    has = {
        "packed": has_packed, "loops": has_loops, "codes": has_loops and coded,
        "shared": has_shared, "shared codes": has_shared and coded,
    }  # fmt: skip
    return [name for name in WAYS if has.get(name, True)]
