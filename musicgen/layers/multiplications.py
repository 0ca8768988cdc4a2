"""The ways to multiply a few rows with a matrix, each as a function that writes to memory it was given.

few_rows.py measures which one this machine is to take.

I width of the input, O width of the output.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, TypeVar

import torch
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.weak import WeakTensorKeyDictionary

from musicgen.layers.compiled.available import loops_for, shared_loops

# What is computed from weights once and used for many tokens: copies that have to go when the weights change.

Made = TypeVar("Made")


class Derived(Generic[Made]):
    """Things made of weights, each kept while the first of its weights lives and none of them changes."""

    def __init__(self) -> None:
        self._kept = WeakTensorKeyDictionary()
        # Fused optimisers leave the versions of what they change as they are.
        register_optimizer_step_post_hook(lambda *_: self._kept.clear())

    def __len__(self) -> int:
        return len(self._kept)

    def of(self, weights: Sequence[Tensor], make: Callable[[], Made]) -> Made:
        """Return what was made of these weights, or make it."""
        if any(weight.is_inference() for weight in weights):  # they do not say when they change
            return make()
        first, versions = weights[0], [(one._version, one.data_ptr()) for one in weights]
        if first not in self._kept or self._kept[first][0] != versions:
            self._kept[first] = versions, make()
        return self._kept[first][1]


# Matrices as 8-bit integers with one scale a row: a quarter of float32, on disk and in what a step reads.


def quantise(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return a matrix (O, I) as int8 in −127 … 127 and float32 scales (O,): weight ≈ int8 · scale."""
    weight = weight.detach().float()
    scale = weight.abs().amax(dim=1) / 127
    scale = torch.where(scale > 0, scale, torch.ones_like(scale))
    return (weight / scale[:, None]).round().to(torch.int8), scale


def restore(quantised: Tensor, scale: Tensor) -> Tensor:
    """Return the float32 matrix that int8 and scales stand for."""
    return quantised.float() * scale[:, None]


def codes_of(weight: Tensor) -> tuple[Tensor, Tensor] | None:
    """Return int8 and scales that a matrix is made of to the last bit, as one that was stored so is; or None."""
    codes, scale = quantise(weight)
    found = torch.zeros(len(scale), dtype=torch.bool)
    exact = torch.ones_like(scale)
    # A row's largest number, 127 · scale, was rounded: divided by 127 it may come back as a neighbour of the scale.
    for near in (scale, torch.nextafter(scale, scale * 2), torch.nextafter(scale, scale * 0)):
        fits = (restore(codes, near) == weight).all(1) & ~found
        exact, found = torch.where(fits, near, exact), found | fits
    return (codes, exact) if bool(found.all()) else None


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


def _by_loops(
    weight: Tensor, bias: Tensor | None, out: Tensor, *, coded: bool, shared: bool
) -> Product:
    """By a matrix's 8-bit codes or its floats, on one thread or shared by all."""
    loops = shared_loops() if shared else loops_for()
    assert loops is not None, "`possible` says whether they can be had"
    stored = codes_if_stored_so(weight) if coded else (weight.detach(),)
    assert stored is not None, "`way_for` says whether there are codes"
    multiply = loops.product_of_codes if coded else loops.product
    added = weight.new_zeros(len(weight)) if bias is None else bias.detach()
    given, written = [x.numpy() for x in (*stored, added)], out.numpy()
    if not shared:
        return lambda x: multiply(*given, x.numpy(), written)
    threads, limit = loops.limited(torch.get_num_threads())

    def multiply_together(x: Tensor) -> None:
        if limit is not None:
            limit()
        multiply(*given, x.numpy(), written, threads)

    return multiply_together


def codes_if_stored_so(weight: Tensor) -> tuple[Tensor, Tensor] | None:
    """Return the 8-bit codes that a matrix was stored as, and their scales, where loops can read them; else None."""
    return None if loops_for(weight) is None else _CODES.of([weight], lambda: codes_of(weight))


_CODES: Derived[tuple[Tensor, Tensor] | None] = Derived()
_PACKS: Derived[Tensor] = Derived()  # matrices as oneDNN lays them out for few rows
WAYS: dict[str, Callable[[Tensor, Tensor | None, Tensor], Product]] = {
    "codes": partial(_by_loops, coded=True, shared=False),
    "shared codes": partial(_by_loops, coded=True, shared=True),
    "shared": partial(_by_loops, coded=False, shared=True),
    "packed": _packed,
    "columns": _by_columns,
    "rows": _by_rows,
    "loops": partial(_by_loops, coded=False, shared=False),
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
