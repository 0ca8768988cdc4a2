"""One generation step of many sequences, in loops compiled by numba.

A token of a narrow, deep model takes hundreds of small products, and torch would spend microseconds on launching each.
These loops run all layers in one call. They compute each row by itself, so that its results do not depend, to the last
bit, on the other rows of the batch. They equal `Performer.step` up to rounding.

Numba compiles them on first use, in a few seconds for each combination of types, and stores the result in the user's
cache folder.

B rows, L layers, C model width, I and O widths of a matrix, H heads, D head width, W width of encoded queries, M
features, N features of metric heads, V vocabulary. Queries and keys are 2H heads, queries first.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import numba
import numpy as np
from numba.core import config

from musicgen.common.processes import cache_folder

if cache_folder().is_absolute() and not config.CACHE_DIR:  # pyright: ignore[reportAttributeAccessIssue]
    config.CACHE_DIR = str(cache_folder() / "compiled")  # pyright: ignore[reportAttributeAccessIssue]
_ZERO, _ONE, _HALF = np.float32(0), np.float32(1), np.float32(0.5)
COPY, CONTRACT, ROTATE = range(3)  # how queries and keys are encoded: not at all, by SPE, by RoPE
RELU, ELU, FAVOR, GELU = range(4)  # feature maps and activations


class Matrices(NamedTuple):
    """A linear layer of all layers, transposed: weight = codes · scale."""

    codes: Any  # int8, or float32 with a scale of 1: (L, I, O)
    scale: Any  # (L, O)
    bias: Any  # (L, O)


class Norms(NamedTuple):
    """The two layer norms of each layer, and the final one."""

    first: Any  # weight and bias, (L, 2, C)
    second: Any  # (L, 2, C)
    last: Any  # (2, C)
    least: Any  # epsilon, added to the variance
    come_first: Any  # whether the model is pre-norm


class Features(NamedTuple):
    """The feature map."""

    kind: Any
    omega: Any  # (L, W, columns); without columns, there is no projection
    floor: Any  # of relu and elu
    bound: Any  # of favor (`Favor.bounds`): of |x| and |ωx| before scaling,
    norm: Any  # of |x| after scaling,
    projection: Any  # of |ωx| after scaling,
    offset: Any  # and a term of all exponents


class Encoding(NamedTuple):
    """The positional encoding of queries and keys in this step; fields of other kinds are empty."""

    kind: Any
    gains: Any  # of SPE: √(1 − δ) and √δ where gated, (L, 2H, K, D) with K = 2, else 1
    codes: Any  # of SPE, (1 or L, B, 2H, K·D, W)
    cosine: Any  # of RoPE, (B, 2H, D/2)
    sine: Any


class Places(NamedTuple):
    """The places of the rows' states in the common arrays."""

    slots: Any  # (B,)
    key_rows: Any  # memory rows of metric heads, (B · metric heads,)
    query_rows: Any
    decay: Any  # of the key rows


class Heads(NamedTuple):
    """The attention heads. The type is the same for float32 and int8 weights, so that it is compiled once for both."""

    features: Features
    decay: Any  # (H,)
    metric: Any  # number of metric heads, of their features, and the minimum of a feature
    guard: Any


class Model(NamedTuple):
    """Everything that is constant from token to token."""

    qkv: Matrices  # with those of the metric heads after the others
    output: Matrices
    inner: Matrices
    outer: Matrices
    head: Matrices  # with L = 1
    norms: Norms
    heads: Heads
    activation: Any


def compiled(function: Any, *, in_order: bool = False) -> Any:
    """Compile a function by numba; unless `in_order`, sums may be reordered, in the same way at each call."""
    fast = {"contract", "nsz"} if in_order else {"reassoc", "contract", "nsz"}
    options = {"fastmath": fast, "error_model": "numpy", "nogil": True}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no writable place for the cache
        return numba.njit(**options)(function)


_in_order = partial(compiled, in_order=True)


# Matrices are read four rows at a time, and for four rows of the batch together if there are that many, so that sums
# stay in registers and weights are converted once. Each sum is added up in the order of i, alone and together.


@_in_order
def accumulate(matrix: Any, x: Any, out: Any) -> None:
    """Add the product of x, (I,), and a matrix, (I, O), to out, (O,)."""
    size = x.shape[0]
    whole = size - size % 4
    for i in range(0, whole, 4):
        row0, row1, row2, row3 = matrix[i], matrix[i + 1], matrix[i + 2], matrix[i + 3]
        x0, x1, x2, x3 = x[i], x[i + 1], x[i + 2], x[i + 3]
        for o in range(out.shape[0]):
            out[o] = (
                out[o] + x0 * np.float32(row0[o]) + x1 * np.float32(row1[o])
                + x2 * np.float32(row2[o]) + x3 * np.float32(row3[o])
            )  # fmt: skip
    for i in range(whole, size):
        row0, x0 = matrix[i], x[i]
        for o in range(out.shape[0]):
            out[o] = out[o] + x0 * np.float32(row0[o])


@_in_order
def _accumulate_four(matrix: Any, x: Any, out: Any) -> None:
    """Do the same for four rows of the batch, (4, I) and (4, O); I is a multiple of four."""
    a, b, c, d = out[0], out[1], out[2], out[3]
    for i in range(0, x.shape[1], 4):
        row0, row1, row2, row3 = matrix[i], matrix[i + 1], matrix[i + 2], matrix[i + 3]
        a0, a1, a2, a3 = x[0, i], x[0, i + 1], x[0, i + 2], x[0, i + 3]
        b0, b1, b2, b3 = x[1, i], x[1, i + 1], x[1, i + 2], x[1, i + 3]
        c0, c1, c2, c3 = x[2, i], x[2, i + 1], x[2, i + 2], x[2, i + 3]
        d0, d1, d2, d3 = x[3, i], x[3, i + 1], x[3, i + 2], x[3, i + 3]
        for o in range(matrix.shape[1]):
            w0, w1 = np.float32(row0[o]), np.float32(row1[o])
            w2, w3 = np.float32(row2[o]), np.float32(row3[o])
            a[o] = a[o] + a0 * w0 + a1 * w1 + a2 * w2 + a3 * w3
            b[o] = b[o] + b0 * w0 + b1 * w1 + b2 * w2 + b3 * w3
            c[o] = c[o] + c0 * w0 + c1 * w1 + c2 * w2 + c3 * w3
            d[o] = d[o] + d0 * w0 + d1 * w1 + d2 * w2 + d3 * w3


@compiled
def product(codes: Any, scale: Any, bias: Any, x: Any, out: Any) -> None:
    """Write x · codes · scale + bias to `out`: x (B, I), codes (I, O), out (B, O)."""
    rows, size = x.shape
    together = 0 if size % 4 else rows - rows % 4
    out[:] = _ZERO
    for row in range(0, together, 4):
        _accumulate_four(codes, x[row : row + 4], out[row : row + 4])
    for row in range(together, rows):
        accumulate(codes, x[row], out[row])
    for row in range(rows):
        for o in range(out.shape[1]):
            out[row, o] = out[row, o] * scale[o] + bias[o]


@compiled
def normalise(x: Any, norm: Any, least: Any, out: Any) -> None:
    """Write the layer norm of x to `out`, (B, C) both; `norm` is weight and bias, (2, C)."""
    width = x.shape[1]
    for row in range(x.shape[0]):
        total = _ZERO
        for c in range(width):
            total += x[row, c]
        mean, squares = total / np.float32(width), _ZERO
        for c in range(width):
            squares += (x[row, c] - mean) * (x[row, c] - mean)
        scale = _ONE / np.sqrt(squares / np.float32(width) + least)
        for c in range(width):
            out[row, c] = (x[row, c] - mean) * scale * norm[0, c] + norm[1, c]


@compiled
def encode(encoding: Encoding, layer: int, row: int, h: int, x: Any, out: Any) -> None:
    """Apply the positional encoding to one head's query or key, (D,) → (W,)."""
    width = x.shape[0]
    if encoding.kind == COPY:
        for w in range(width):
            out[w] = x[w]
    elif encoding.kind == ROTATE:
        for pair in range(width // 2):
            cosine, sine = encoding.cosine[row, h, pair], encoding.sine[row, h, pair]
            even, odd = x[2 * pair], x[2 * pair + 1]
            out[2 * pair] = even * cosine - odd * sine
            out[2 * pair + 1] = odd * cosine + even * sine
    else:
        code = encoding.codes[layer if encoding.codes.shape[0] > 1 else 0, row, h]
        gains = encoding.gains[layer, h]
        gated = np.empty(gains.size, np.float32)
        for part in range(gains.shape[0]):
            for w in range(width):
                gated[part * width + w] = x[w] * gains[part, w]
        out[:] = _ZERO
        accumulate(code, gated, out)


@compiled
def feature(features: Features, omega: Any, is_key: bool, x: Any, out: Any) -> None:
    """Write the features of an encoded query or key, (W,) → (M,)."""
    width, columns = omega.shape
    if features.kind == FAVOR:
        _favor(features, omega, is_key, x, out)
        return
    if columns == 0:
        for m in range(width):
            out[m] = x[m]
    else:
        out[:] = _ZERO
        accumulate(omega, x, out)
    for m in range(out.shape[0]):
        if features.kind == RELU:
            out[m] = max(out[m], _ZERO) + features.floor
        elif out[m] > _ZERO:
            out[m] = out[m] + _ONE + features.floor
        else:
            out[m] = np.exp(out[m]) + features.floor


@compiled
def _favor(features: Features, omega: Any, is_key: bool, x: Any, out: Any) -> None:
    """Write the features of FAVOR+; `omega` is scaled so that |x| and |ωx| share a bound (features.py)."""
    width, columns = omega.shape
    squares = _ZERO
    for w in range(width):
        squares += x[w] * x[w]
    out[:columns] = _ZERO
    accumulate(omega, x, out[:columns])
    bound = max(features.bound, np.sqrt(squares))
    for m in range(columns):
        bound = max(bound, abs(out[m]))
    first = features.offset
    if is_key:
        first -= squares * (features.norm / bound) * (features.norm / bound) * _HALF
    factor = features.projection / bound
    for m in range(columns):
        projected = out[m]
        out[m] = np.exp(first + factor * projected)
        out[columns + m] = np.exp(first - factor * projected)


@compiled
def attend(fq: Any, fk: Any, v: Any, decay: Any, guard: Any, sums: Any, out: Any) -> None:
    """Add one token to the sums of a head, (M, D + 1), and write the head's output, (D,)."""
    width = v.shape[0]
    y = np.zeros(width + 1, np.float32)
    for m in range(fq.shape[0]):
        q, k = fq[m], fk[m]
        for d in range(width):
            total = sums[m, d] * decay + k * v[d]
            sums[m, d] = total
            y[d] += q * total
        total = sums[m, width] * decay + k
        sums[m, width] = total
        y[width] += q * total
    for d in range(width):
        out[d] = y[d] / (y[width] + guard)


@compiled
def metric_attend(heads: Heads, qkv: Any, memory: Any, at: int, places: Places, out: Any) -> None:
    """Add one token to the memory of a metric head, (rows, N, D + 1), and write the head's output, (D,)."""
    features, least = int(heads.metric[1]), heads.metric[2]
    width = out.shape[0]
    key_row, query_row = memory[places.key_rows[at]], memory[places.query_rows[at]]
    decay = places.decay[at]
    for m in range(features):
        k = max(qkv[features + m], least)
        for d in range(width):
            key_row[m, d] = key_row[m, d] * decay + k * qkv[2 * features + d]
        key_row[m, width] = key_row[m, width] * decay + k
    y = np.zeros(width + 1, np.float32)
    for m in range(features):
        q = max(qkv[m], least)
        for d in range(width + 1):
            y[d] += q * query_row[m, d]
    for d in range(width):
        out[d] = y[d] / (y[width] + heads.guard)


@compiled
def attention(
    heads: Heads, encoding: Encoding, places: Places, layer: int, qkv: Any, sums: Any, memory: Any,
    out: Any,
) -> None:  # fmt: skip
    """Write the output of all heads of a layer, (B, 3C + metric) → (B, C + metric), and update the states in place."""
    number, width = sums.shape[1], sums.shape[3] - 1
    encoded = np.empty((2, heads.features.omega.shape[1]), np.float32)
    features = np.empty((2, sums.shape[2]), np.float32)
    omega = heads.features.omega[layer]
    metric = int(heads.metric[0])
    for row in range(qkv.shape[0]):
        for h in range(number):
            for side in range(2):  # query and key
                side_h = side * number + h
                x = qkv[row, side_h * width : (side_h + 1) * width]
                encode(encoding, layer, row, side_h, x, encoded[side])
                feature(heads.features, omega, side == 1, encoded[side], features[side])
            v = qkv[row, (2 * number + h) * width : (2 * number + h + 1) * width]
            own = sums[places.slots[row], h]
            y = out[row, h * width : (h + 1) * width]
            attend(features[0], features[1], v, heads.decay[h], heads.guard, own, y)
        if metric:
            first, size = 3 * number * width, 2 * int(heads.metric[1]) + width
            for h in range(metric):
                own_qkv = qkv[row, first + h * size : first + (h + 1) * size]
                y = out[row, (number + h) * width : (number + h + 1) * width]
                metric_attend(heads, own_qkv, memory, row * metric + h, places, y)


@compiled
def activate(kind: int, x: Any) -> None:
    """Apply the activation of the feed-forward network in place, (B, O)."""
    for row in range(x.shape[0]):
        if kind == RELU:
            for i in range(x.shape[1]):
                x[row, i] = max(x[row, i], _ZERO)
        else:
            for i in range(x.shape[1]):
                value = x[row, i]
                x[row, i] = _HALF * value * np.float32(1 + math.erf(value * math.sqrt(0.5)))


@compiled
def add(branch: Any, x: Any) -> None:
    """Add a branch to x in place, (B, C) both."""
    for row in range(x.shape[0]):
        for c in range(x.shape[1]):
            x[row, c] += branch[row, c]


@compiled
def step(
    model: Model, encoding: Encoding, places: Places, x: Any, sums: Any, memory: Any, logits: Any
) -> None:
    """Write the logits, (B, V), of embeddings, (B, C), which are overwritten, and update the states in place.

    `sums` are (L, slots, H, M, D + 1), and `memory` (L, slots · R, N, D + 1).
    """
    batch, width = x.shape
    norms, pre, m = model.norms, model.norms.come_first, model
    normed, branch = np.empty((batch, width), np.float32), np.empty((batch, width), np.float32)
    qkv = np.empty((batch, m.qkv.codes.shape[2]), np.float32)
    found = np.empty((batch, m.output.codes.shape[1]), np.float32)
    inner = np.empty((batch, m.inner.codes.shape[2]), np.float32)
    branch_in = normed if pre else x
    for layer in range(sums.shape[0]):
        if pre:
            normalise(x, norms.first[layer], norms.least, normed)
        product(m.qkv.codes[layer], m.qkv.scale[layer], m.qkv.bias[layer], branch_in, qkv)
        attention(m.heads, encoding, places, layer, qkv, sums[layer], memory[layer], found)
        product(m.output.codes[layer], m.output.scale[layer], m.output.bias[layer], found, branch)
        add(branch, x)
        if pre:
            normalise(x, norms.second[layer], norms.least, normed)
        else:
            normalise(x, norms.first[layer], norms.least, x)
        product(m.inner.codes[layer], m.inner.scale[layer], m.inner.bias[layer], branch_in, inner)
        activate(m.activation, inner)
        product(m.outer.codes[layer], m.outer.scale[layer], m.outer.bias[layer], inner, branch)
        add(branch, x)
        if not pre:
            normalise(x, norms.second[layer], norms.least, x)
    if pre:
        normalise(x, norms.last, norms.least, normed)
    product(m.head.codes[0], m.head.scale[0], m.head.bias[0], branch_in, logits)
