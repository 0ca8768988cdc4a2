"""Causal linear attention in several forms that compute the same numbers, with one state between them.

B batch, T time, H heads, M features, D value width. For positive features φ, here handed in as fq and fk,

    out_i = Σ_{j≤i} r^(i−j) (fq_i·fk_j) v_j / Σ_{j≤i} r^(i−j) (fq_i·fk_j)

(Katharopoulos et al. 2020; the decay r: PermuteFormer). Of the backends, "exact" is the definition, for tests, pictures
and short sequences; "chunked" is for training and prompts, in time and memory linear in T; "recurrent" is for
generation, where they do not grow with the position. Each takes and returns the same state, so a sequence may be cut
anywhere and continued by another.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from musicgen.attention.causal_sums import (
    CHUNK,
    Sums,
    chunked_sums,
    exact_sums,
    step_sums,
)
from musicgen.layers.precision import eager_on_cpu, without_autocast

# The compiled causal product of pytorch-fast-transformers, an optional extra, behind the signature of our own sums.
#
# B batch, T time, H heads, M features, D value width.


def fast_transformers_sums(
    q: Tensor, k: Tensor, v: Tensor, decay: Tensor | None, state: Tensor
) -> tuple[Tensor, Tensor]:
    """Return y_i = Σ_{j≤i} (q_i·k_j) v_j from a state and the state after it, as `causal_sums.Sums`.

    The kernels know float32 alone: other precisions are converted to it, and y comes back in the state's. They know
    neither a state, which is added around them, nor a decay, which is refused.
    """
    if decay is not None:
        raise ValueError(
            "the fast-transformers backend knows no decay, which horizons or this positional encoding ask for: "
            "use backend 'chunked'"
        )
    product = _causal_dot_product()
    q, k, v = (x.float().transpose(1, 2).contiguous() for x in (q, k, v))  # (B, H, T, ·)
    y = product(q, k, v).to(state.dtype) + q.to(state.dtype) @ state
    return y.transpose(1, 2), state + (k.mT @ v).to(state.dtype)


def _causal_dot_product() -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    try:
        # An extra: type checkers need not have it.
        product = import_module("fast_transformers.causal_product")
    except ImportError as error:
        raise ValueError(
            "the fast-transformers backend needs the package pytorch-fast-transformers, which is not installed: "
            "run `make fast-transformers` in the clone of musicgen"
        ) from error
    return product.causal_dot_product


# Added to the denominator, so that 0/0 is 0. It lies below every sum of the features of `features.py`, which stay above
# 1e-27; the 1e-6 of the papers' code would swallow FAVOR+ keys of a large norm.
GUARD = 1e-30

Features = tuple[Tensor, Tensor]


class AttentionState(NamedTuple):
    """All that attention remembers of the past: the same size at any position, in float32 or float64."""

    sums: Tensor  # Σ r^(i−j) fk_j [v_j, 1]ᵀ: (B, H, M, D + 1); without the 1, (B, H, M, D), where there is a normaliser
    normaliser: Tensor | None = None  # Σ r^(i−j) gk_j of a normaliser (gq, gk): (B, H, Mn, 1)
    metre: Tensor | None = None  # memory of metric heads (metre/heads.py): (B, R, M, D + 1)

    def map(self, function: Callable[[Tensor], Tensor]) -> AttentionState:
        """Apply a function to each tensor."""
        rest = (None if x is None else function(x) for x in self[1:])
        return AttentionState(function(self.sums), *rest)


BACKENDS: dict[str, Sums] = {
    "exact": exact_sums,
    "chunked": chunked_sums,
    "recurrent": step_sums,
    "fast-transformers": fast_transformers_sums,
}


def attend(
    fq: Tensor,
    fk: Tensor,
    v: Tensor,
    *,
    decay: Tensor | None = None,
    normaliser: Features | None = None,
    state: AttentionState | None = None,
    backend: str = "chunked",
    chunk: int = CHUNK,
) -> tuple[Tensor, AttentionState]:
    """Attend by the named backend, or by "recurrent" where one token continues a state.

    fq, fk are (B, T, H, M) and v is (B, T, H, D); decay is r in (0, 1] a head, (H,). A normaliser (gq, gk), each
    (B, T, H, Mn), gives the denominator other features than the numerator; the decay applies to both. T need not be a
    multiple of the chunk. Returns the output (B, T, H, D) and the state after the last position.

    Where gradients are off, "recurrent" UPDATES THE STATE IN PLACE and returns it, which halves the time of a step:
    `map` it by `Tensor.clone` first to step from it twice.
    """
    sums = step_sums if state is not None and fq.shape[1] == 1 else BACKENDS[backend]
    dtype = _product_dtype(sums, fq, fk, v)
    if sums is chunked_sums:
        sums = partial(chunked_sums, chunk=chunk)
    width = v.shape[-1]
    before = (None, None) if state is None else (state.sums, state.normaliser)
    with without_autocast(v.device):
        if normaliser is None:
            # A column of ones after the values: the denominator comes with the numerator.
            v_and_one = functional.pad(v, (0, 1), value=1.0)
            y, after = _sums_from(sums, fq, fk, v_and_one, decay, before[0], dtype)
            out = _quotient(y[..., :width], y[..., width:] + GUARD)
            return out.to(v.dtype), AttentionState(after)
        y, after = _sums_from(sums, fq, fk, v, decay, before[0], dtype)
        one = v.new_ones(*v.shape[:-1], 1)
        total, total_after = _sums_from(sums, *normaliser, one, decay, before[1], dtype)
        return _quotient(y, total + GUARD).to(v.dtype), AttentionState(after, total_after)


def _quotient(y: Tensor, total: Tensor) -> Tensor:
    """Return y / total, (B, T, H, D) and (B, T, H, 1), without keeping y for the backward pass."""
    return _Quotient.apply(y, total) if eager_on_cpu(y) else y / total  # pyright: ignore[reportReturnType]


class _Quotient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, y: Tensor, total: Tensor) -> Tensor:
        out = y / total
        ctx.save_for_backward(out, total)  # `out` is kept in any case: the layer after needs it
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:  # pyright: ignore
        out, total = ctx.saved_tensors
        dy = gradient / total
        return dy, -(dy * out).sum(-1, keepdim=True)


def _sums_from(
    sums: Sums,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    decay: Tensor | None,
    state: Tensor | None,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    if {q.dtype, k.dtype, v.dtype} != {dtype}:
        q, k, v = q.to(dtype), k.to(dtype), v.to(dtype)
    if state is None:
        shape = q.shape[0], q.shape[2], q.shape[3], v.shape[3]  # (B, H, M, D)
        state = q.new_zeros(shape, dtype=torch.promote_types(dtype, torch.float32))
    return sums(q, k, v, decay, state)


def _product_dtype(sums: Sums, *tensors: Tensor) -> torch.dtype:
    """Return the precision of the matrix products; states and sums between blocks are float32 at least.

    Products are bfloat16 where a GPU's autocast or the inputs ask for it. float16 has no room for exponentials, and one
    step at a time or on a CPU bfloat16 gains nothing.
    """
    device = tensors[0].device.type
    dtype = tensors[0].dtype
    for tensor in tensors[1:]:
        dtype = torch.promote_types(dtype, tensor.dtype)
    if torch.is_autocast_enabled(device) and dtype is not torch.float64:
        dtype = torch.get_autocast_dtype(device)
    may_be_half = device != "cpu" and sums is not step_sums
    if dtype is torch.bfloat16 and may_be_half:
        return dtype
    return torch.promote_types(dtype, torch.float32)
