"""Linear attention over blocks in Triton kernels, for GPUs: the sums of `parallel_sums`, with their gradients.

Training is bound by memory traffic, and in attention by that of scores and of permuted or scaled copies. Here these
stay on the chip: a program has one block of one head, and reads q, k and v where they are. One product sums the states
between blocks, as in `parallel_sums`.

B batch, T time, H heads, n blocks of c positions, M features, D value width. `attention.py` has the equations; the
module is imported only where there are Triton and a GPU (`can_fuse`).
"""

from typing import Any

import torch
import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor


@triton.jit
def _tile(at, rows, columns, row_stride, width: tl.constexpr):
    """Load a tile of a matrix with contiguous rows; columns from `width` on are zeros."""
    return tl.load(
        at + rows[:, None] * row_stride + columns[None, :], mask=columns[None, :] < width, other=0.0
    )


@triton.jit
def _put(at, tile, rows, columns, row_stride, width: tl.constexpr):
    tl.store(
        at + rows[:, None] * row_stride + columns[None, :], tile, mask=columns[None, :] < width
    )


@triton.jit
def _head(x, block, sequence, H: tl.constexpr, C: tl.constexpr, WIDTH: tl.constexpr, length):
    """Return the address of a block of one head in (B, T, H, WIDTH), given the number of the sequence and head."""
    row = (sequence // H) * length + block * C
    return x + (row.to(tl.int64) * H + sequence % H) * WIDTH


@triton.jit
def _decays(log_decay, sequence, H: tl.constexpr, C: tl.constexpr):
    """Return r^(i−j) for j ≤ i else 0, r^(i+1) and r^(c−1−j)."""
    log_r = tl.load(log_decay + sequence % H)
    i = tl.arange(0, C)
    apart = i[:, None] - i[None, :]
    within = tl.where(apart >= 0, tl.exp2(log_r * tl.maximum(apart, 0)), 0.0)
    return within, tl.exp2(log_r * (i + 1))[:, None], tl.exp2(log_r * (C - 1 - i))[:, None]


@triton.jit
def _products(x, weight, like):
    """Return x · weight in the type of `like`, for a product."""
    return (x.to(tl.float32) * weight).to(like.dtype)


@triton.jit
def _outer(
    a, b, own, log_decay, length,
    H: tl.constexpr, C: tl.constexpr, M: tl.constexpr, D: tl.constexpr,
    PM: tl.constexpr, PD: tl.constexpr, FORWARD: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Compute a block's part of the state after it, kᵀ (v r^(c−1−j)), or of the gradient before it, qᵀ (dy r^(i+1))."""
    block, sequence = tl.program_id(0), tl.program_id(1)
    rows, ms, ds = tl.arange(0, C), tl.arange(0, PM), tl.arange(0, PD)
    left = _tile(_head(a, block, sequence, H, C, M, length), rows, ms, H * M, M)
    right = _tile(_head(b, block, sequence, H, C, D, length), rows, ds, H * D, D)
    _, entering, leaving = _decays(log_decay, sequence, H, C)
    scaled = _products(right, leaving if FORWARD else entering, left)
    found = tl.dot(tl.trans(left), scaled, input_precision=PRECISION)
    at = own + (sequence.to(tl.int64) * tl.num_programs(0) + block) * M * D
    tl.store(at + ms[:, None] * D + ds[None, :], found, mask=(ms[:, None] < M) & (ds[None, :] < D))


@triton.jit
def _state(states, block, sequence, count, ms, ds, M: tl.constexpr, D: tl.constexpr):
    at = states + (sequence.to(tl.int64) * count + block) * M * D
    mask = (ms[:, None] < M) & (ds[None, :] < D)
    return tl.load(at + ms[:, None] * D + ds[None, :], mask=mask, other=0.0)


@triton.jit
def _outputs(
    q, k, v, states, y, log_decay, length,
    H: tl.constexpr, C: tl.constexpr, M: tl.constexpr, D: tl.constexpr,
    PM: tl.constexpr, PD: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Compute the outputs of a block, given the state before it."""
    block, sequence = tl.program_id(0), tl.program_id(1)
    rows, ms, ds = tl.arange(0, C), tl.arange(0, PM), tl.arange(0, PD)
    qs = _tile(_head(q, block, sequence, H, C, M, length), rows, ms, H * M, M)
    ks = _tile(_head(k, block, sequence, H, C, M, length), rows, ms, H * M, M)
    within, entering, _ = _decays(log_decay, sequence, H, C)
    scores = tl.dot(qs, tl.trans(ks), input_precision=PRECISION) * within
    vs = _tile(_head(v, block, sequence, H, C, D, length), rows, ds, H * D, D)
    found = tl.dot(scores.to(vs.dtype), vs, input_precision=PRECISION)
    before = _state(states, block, sequence, tl.num_programs(0) + 1, ms, ds, M, D).to(qs.dtype)
    found += tl.dot(qs, before, input_precision=PRECISION) * entering
    _put(_head(y, block, sequence, H, C, D, length), found, rows, ds, H * D, D)


@triton.jit
def _gradients(
    q, k, v, dy, states, after, dq, dk, dv, log_decay, length,
    H: tl.constexpr, C: tl.constexpr, M: tl.constexpr, D: tl.constexpr,
    PM: tl.constexpr, PD: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Compute the gradients of a block's inputs from those of its outputs and of the state after it."""
    block, sequence = tl.program_id(0), tl.program_id(1)
    rows, ms, ds = tl.arange(0, C), tl.arange(0, PM), tl.arange(0, PD)
    qs = _tile(_head(q, block, sequence, H, C, M, length), rows, ms, H * M, M)
    ks = _tile(_head(k, block, sequence, H, C, M, length), rows, ms, H * M, M)
    vs = _tile(_head(v, block, sequence, H, C, D, length), rows, ds, H * D, D)
    dys = _tile(_head(dy, block, sequence, H, C, D, length), rows, ds, H * D, D)
    within, entering, leaving = _decays(log_decay, sequence, H, C)
    count = tl.num_programs(0)
    d_after = _state(after, block, sequence, count, ms, ds, M, D).to(qs.dtype)
    scores = (tl.dot(qs, tl.trans(ks), input_precision=PRECISION) * within).to(qs.dtype)
    d_v = tl.dot(tl.trans(scores), dys, input_precision=PRECISION)
    d_v += tl.dot(ks, d_after, input_precision=PRECISION) * leaving
    _put(_head(dv, block, sequence, H, C, D, length), d_v, rows, ds, H * D, D)
    d_scores = (tl.dot(dys, tl.trans(vs), input_precision=PRECISION) * within).to(qs.dtype)
    d_k = tl.dot(tl.trans(d_scores), qs, input_precision=PRECISION)
    d_k += tl.dot(vs, tl.trans(d_after), input_precision=PRECISION) * leaving
    _put(_head(dk, block, sequence, H, C, M, length), d_k, rows, ms, H * M, M)
    before = _state(states, block, sequence, count + 1, ms, ds, M, D).to(qs.dtype)
    d_q = tl.dot(d_scores, ks, input_precision=PRECISION)
    d_q += tl.dot(dys, tl.trans(before), input_precision=PRECISION) * entering
    _put(_head(dq, block, sequence, H, C, M, length), d_q, rows, ms, H * M, M)


class _Launch:
    """The sizes of a call, and its kernels: one program per block and head."""

    def __init__(self, q: Tensor, v: Tensor, decay: Tensor | None, chunk: int) -> None:
        batch, self.length, heads, features = q.shape
        width, self.chunk = v.shape[3], chunk
        self.grid = (self.length // chunk, batch * heads)
        self.shape = (batch, heads, self.grid[0], features, width)  # of one state per block
        r = q.new_ones(heads) if decay is None else decay
        self.log_decay = r.detach().float().log2()
        self.sizes: dict[str, Any] = {
            "H": heads, "C": chunk, "M": features, "D": width,
            "PM": max(16, triton.next_power_of_2(features)), "PD": max(16, triton.next_power_of_2(width)),
            "PRECISION": "ieee" if q.dtype is torch.float32 else "tf32", "num_warps": 8,
        }  # fmt: skip

    def run(self, kernel: Any, *given: Tensor, **more: bool) -> None:
        """Run a kernel; its results are among the given tensors."""
        kernel[self.grid](*given, self.log_decay, self.length, **more, **self.sizes)

    def outer(self, a: Tensor, b: Tensor, *, forward: bool) -> Tensor:
        """Return the products of each block, (B, H, n, M, D)."""
        own = a.new_empty(self.shape, dtype=torch.float32)
        self.run(_outer, a, b, own, FORWARD=forward)
        return own

    def between(self, count: int) -> Tensor:
        """Return r^(c (i − j)) for j ≤ i else 0, (H, count, count)."""
        i = torch.arange(count, device=self.log_decay.device)
        apart = i.view(-1, 1) - i
        return (self.log_decay.view(-1, 1, 1) * (self.chunk * apart.clamp(min=0))).exp2().tril()


@torch.library.custom_op("musicgen::block_sums", mutates_args=())
def block_sums(
    q: Tensor, k: Tensor, v: Tensor, decay: Tensor | None, state: Tensor, chunk: int
) -> tuple[Tensor, Tensor]:
    """Return y, (B, T, H, D), and the states before each block and after the last, (B, H, n + 1, M, D), in float32."""
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    launch = _Launch(q, v, decay, chunk)
    own = torch.cat([state.float().unsqueeze(2), launch.outer(k, v, forward=True)], 2)
    states = (launch.between(own.shape[2]) @ own.flatten(3)).view(own.shape)
    y = torch.empty_like(v, dtype=torch.float32)
    launch.run(_outputs, q, k, v, states, y)
    return y, states


@block_sums.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, decay: Tensor | None, state: Tensor, chunk: int) -> Any:
    size = state.shape[0], state.shape[1], q.shape[1] // chunk + 1, *state.shape[2:]
    y = v.new_empty(v.shape, dtype=torch.float32)
    return y, state.new_empty(size, dtype=torch.float32)


@torch.library.custom_op("musicgen::block_gradients", mutates_args=())
def block_gradients(
    q: Tensor, k: Tensor, v: Tensor, decay: Tensor | None, states: Tensor, dy: Tensor, dlast: Tensor, chunk: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Return the gradients of q, k, v and the first state, from those of y and of the last state."""
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    dy = dy.to(v.dtype).contiguous()
    launch = _Launch(q, v, decay, chunk)
    # Backwards in time: the gradient of the state after each block, and last that of the first state.
    own = launch.outer(q, dy, forward=False).flip(2)
    own = torch.cat([dlast.float().unsqueeze(2), own], 2)
    after = (launch.between(own.shape[2]) @ own.flatten(3)).view(own.shape).flip(2)
    dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
    launch.run(_gradients, q, k, v, dy, states, after[:, :, 1:].contiguous(), dq, dk, dv)
    return dq, dk, dv, after[:, :, 0].contiguous()


@block_gradients.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, decay: Tensor | None, states: Tensor, *_: Any) -> Any:
    empty = torch.empty_like
    first = states.new_empty(states.shape[0], states.shape[1], *states.shape[3:])
    return empty(q), empty(k), empty(v), first


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    q, k, v, decay, _, ctx.chunk = inputs
    ctx.save_for_backward(q, k, v, decay, output[1])


def _backward(ctx: Any, dy: Tensor, dstates: Tensor) -> tuple[Tensor | None, ...]:
    q, k, v, decay, states = ctx.saved_tensors
    found = block_gradients(q, k, v, decay, states, dy, dstates[:, :, -1], ctx.chunk)
    return *found[:3], None, found[3], None


block_sums.register_autograd(_backward, setup_context=_save)
