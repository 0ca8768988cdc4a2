"""The work of a generated token as loops that numba compiles, beside the calls of torch that say the same.

Compiled once a machine, in some seconds, and stored in the user's cache folder. Rows of a batch are computed one after
the other by the same instructions, so none depends on which others there are.

B rows of the batch, I and O widths of a matrix, H heads, W width of queries, M features, D value width, R rows of all
memories.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import float32, int8, int64, void
from numba.core import config

from musicgen.common.machine import cache_folder

if cache_folder().is_absolute() and not config.CACHE_DIR:  # pyright: ignore[reportAttributeAccessIssue]
    config.CACHE_DIR = str(cache_folder() / "compiled")  # pyright: ignore[reportAttributeAccessIssue]
# Sums may be added up in any order, which is the same at each call; infinities and NaN stay what they are.
_FREE = {"reassoc", "contract", "nsz"}
_ZERO = np.float32(0)


def compiled(*signature: Any, **more: Any) -> Callable[[Any], Any]:
    """Compile at once for these types, or load what an earlier process compiled."""
    options = {"fastmath": _FREE, "error_model": "numpy", "nogil": True, **more}

    def compile_(loop: Any) -> Any:
        try:
            return numba.njit(void(*signature), cache=True, **options)(loop)
        except RuntimeError:  # there is no place to store it
            return numba.njit(void(*signature), **options)(loop)

    return compile_


@compiled(float32[:, ::1], float32[::1], float32[:, ::1], float32[:, :])
def product(weight: Any, bias: Any, x: Any, out: Any) -> None:
    """Multiply rows (B, I) by a matrix (O, I) and add a bias, to (B, O)."""
    for o in range(weight.shape[0]):
        for row in range(x.shape[0]):
            total = _ZERO
            for i in range(x.shape[1]):
                total += weight[o, i] * x[row, i]
            out[row, o] = total + bias[o]


@compiled(int8[:, ::1], float32[::1], float32[::1], float32[:, ::1], float32[:, :])
def product_of_codes(codes: Any, scale: Any, bias: Any, x: Any, out: Any) -> None:
    """Do the same with a matrix of 8-bit codes, each row of which has a scale: weight = codes · scale."""
    for o in range(codes.shape[0]):
        for row in range(x.shape[0]):
            total = _ZERO
            for i in range(x.shape[1]):
                total += np.float32(codes[o, i]) * x[row, i]
            out[row, o] = total * scale[o] + bias[o]


@compiled(float32[:, ::1], float32[:, ::1], float32[::1], float32[::1], float32, float32[:, ::1])
def add_and_normalise(x: Any, branch: Any, weight: Any, bias: Any, least: Any, out: Any) -> None:
    """Add a branch to x, (B, C) both, in place, and write the layer norm of the sum; `least` keeps it from 0/0."""
    width = x.shape[1]
    for row in range(x.shape[0]):
        total = _ZERO
        for c in range(width):
            x[row, c] += branch[row, c]
            total += x[row, c]
        mean, squares = total / np.float32(width), _ZERO
        for c in range(width):
            squares += (x[row, c] - mean) * (x[row, c] - mean)
        scale = np.float32(1) / np.sqrt(squares / np.float32(width) + least)
        for c in range(width):
            out[row, c] = (x[row, c] - mean) * scale * weight[c] + bias[c]


@compiled(float32[:, :], float32[:, :, ::1], float32[:, :, ::1], float32[:, ::1])
def contract(x: Any, gains: Any, code: Any, out: Any) -> None:
    """Multiply heads, (H, W), by each of K gains, (H, K, W), and by the code of SPE, (H, K·W, R), to (H, R).

    As in position/spe/base.py: R realisations, and K is 2 where there is a gate.
    """
    heads, sides, width = gains.shape
    for h in range(heads):
        out[h] = 0
        for side in range(sides):
            for w in range(width):
                share = x[h, w] * gains[h, side, w]
                for r in range(out.shape[1]):
                    out[h, r] += share * code[h, side * width + w, r]


@compiled(
    float32[:, :, ::1], float32[:, ::1], float32, float32, float32, float32, float32[:, :, ::1]
)
def favor(
    x: Any, omega: Any, least: Any, norm: Any, projection: Any, offset: Any, out: Any
) -> None:
    """Write FAVOR+ features, (B, 2H, 2M), of queries beside keys, (B, 2H, W), by a projection, (W, M).

    As in attention/features.py, where `omega` is scaled so that |x| and ±ωx have one bound, `least` or more, which
    becomes `norm` of the one and `projection` of the other; `offset` is in all exponents.
    """
    batch, heads, width = x.shape
    columns = omega.shape[1]
    projected = np.empty(columns, np.float32)
    for row in range(batch):
        for h in range(heads):
            projected[:] = 0
            squares = _ZERO
            for w in range(width):
                value = x[row, h, w]
                squares += value * value
                for m in range(columns):
                    projected[m] += value * omega[w, m]
            bound = max(least, np.sqrt(squares))
            for m in range(columns):
                bound = max(bound, abs(projected[m]))
            first = offset
            if 2 * h >= heads:  # of keys
                first -= squares * (norm / bound) * (norm / bound) * np.float32(0.5)
            factor = projection / bound
            for m in range(columns):
                out[row, h, m] = np.exp(first + factor * projected[m])
                out[row, h, columns + m] = np.exp(first - factor * projected[m])


@compiled(
    float32[:, :, :],
    float32[:, :, :],
    float32[:, :, :],
    float32[::1],
    float32,
    float32[:, :, :, ::1],
    float32[:, :, :],
)
def attend(fq: Any, fk: Any, v: Any, decay: Any, guard: Any, sums: Any, out: Any) -> None:
    """Take one token into the sums of linear attention, (B, H, M, D + 1), and write what it attends to, (B, H, D).

    As in attention/linear_attention.py: features (B, H, M) of the query and the key, the value (B, H, D), r (H,).
    """
    batch, heads, features = fq.shape
    width = v.shape[2]
    value, found = np.ones(width + 1, np.float32), np.empty(width + 1, np.float32)
    for row in range(batch):
        for h in range(heads):
            for d in range(width):
                value[d] = v[row, h, d]
            found[:] = 0
            for m in range(features):
                q, k = fq[row, h, m], fk[row, h, m]
                for d in range(width + 1):
                    kept = sums[row, h, m, d] * decay[h] + k * value[d]
                    sums[row, h, m, d] = kept
                    found[d] += q * kept
            for d in range(width):
                out[row, h, d] = found[d] / (found[width] + guard)


@compiled(
    float32[:, :, :],
    float32[:, :, ::1],
    int64[::1],
    int64[::1],
    float32[::1],
    float32,
    float32,
    float32[:, :, :],
)
def attend_by_metre(
    qkv: Any,
    table: Any,
    key_rows: Any,
    query_rows: Any,
    fading: Any,
    least: Any,
    guard: Any,
    out: Any,
) -> None:
    """File one token in the memory of metric heads, (B·R, M, D + 1), and write what is found there, (B, H, D).

    As in metre/heads.py: qkv (B, H, 2M + D) before the features are kept from 0; rows and fading (B·H,).
    """
    batch, heads = out.shape[:2]
    features, width = table.shape[1], table.shape[2] - 1
    value, found = np.ones(width + 1, np.float32), np.empty(width + 1, np.float32)
    for row in range(batch):
        for h in range(heads):  # each has rows of its own
            at = row * heads + h
            filed, read = key_rows[at], query_rows[at]
            for d in range(width):
                value[d] = qkv[row, h, 2 * features + d]
            for m in range(features):
                k = max(qkv[row, h, features + m], least)
                for d in range(width + 1):
                    table[filed, m, d] = table[filed, m, d] * fading[at] + k * value[d]
            found[:] = 0
            for m in range(features):
                q = max(qkv[row, h, m], least)
                for d in range(width + 1):
                    found[d] += q * table[read, m, d]
            for d in range(width):
                out[row, h, d] = found[d] / (found[width] + guard)
