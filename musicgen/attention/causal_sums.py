"""y_i = Σ_{j≤i} r^(i−j) (q_i·k_j) v_j in four ways: the arithmetic under causal linear attention.

B batch, T time, H heads, M features, D value width; n blocks of c positions. Outside, tensors are (B, T, H, ·); the
state S_i = Σ_{j≤i} r^(i−j) k_j v_jᵀ is (B, H, M, D), and y_i = q_i S_i. Powers of r are taken of differences i − j ≥ 0
only, so that they stay in (0, 1] at any length (PermuteFormer's r^i and r^−j, taken apart, overflow float32 near
position 700).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from musicgen.layers.precision import eager_on_cpu

CHUNK = 128  # the fastest of 64, 128 and 256 on two CPU cores at M = 128, D = 64

Sums = Callable[[Tensor, Tensor, Tensor, Tensor | None, Tensor], tuple[Tensor, Tensor]]
"""(q, k, v, decay (H,) or None, state before the first position) → (y, state after the last)."""


class _Weights(NamedTuple):
    """Powers of the decay in a block of c positions; None stands for ones."""

    within: Tensor  # r^(i−j) where j ≤ i, else 0: (H, c, c), or (1, c, c) without decay
    entering: Tensor | None  # r^(i+1), how position i sees the state before the block: (H, c, 1)
    leaving: Tensor | None  # r^(c−1−j), how the state after the block sees position j: (H, c, 1)
    whole: Tensor | None  # r^c: (H, 1, 1)


def _weights(length: int, decay: Tensor | None, like: Tensor) -> _Weights:
    if decay is None:
        return _Weights(like.new_ones(1, length, length).tril(), None, None, None)
    r = decay.to(torch.promote_types(like.dtype, torch.float32)).view(-1, 1, 1)
    i = torch.arange(length, device=like.device).view(-1, 1)
    within = (r ** (i - i.mT).clamp(min=0)).tril()
    parts = within, r ** (i + 1), r ** (length - 1 - i), r**length
    return _Weights(*(part.to(like.dtype) for part in parts))


def _times(x: Tensor, weight: Tensor | None) -> Tensor:
    return x if weight is None else x * weight


def _times_each(x: Tensor, weight: Tensor | None) -> Tensor:
    return x if weight is None else x * weight.unsqueeze(1)  # the same for all n blocks


def _block(q: Tensor, k: Tensor, v: Tensor, state: Tensor, w: _Weights) -> tuple[Tensor, Tensor]:
    """One block, (B, H, c, ·), seen as a masked matrix inside and as a state from before."""
    scores = (q @ k.mT) * w.within  # (B, H, c, c)
    past = _times(q @ state.to(q.dtype), w.entering)  # (B, H, c, D)
    own = k.mT @ _times(v, w.leaving)  # (B, H, M, D)
    y = (scores @ v).to(state.dtype) + past
    return y, _times(state, w.whole) + own


def exact_sums(
    q: Tensor, k: Tensor, v: Tensor, decay: Tensor | None, state: Tensor
) -> tuple[Tensor, Tensor]:
    """Take the whole sequence as one masked (T, T) matrix."""
    y, state = _block(_heads(q), _heads(k), _heads(v), state, _weights(q.shape[1], decay, q))
    return y.transpose(1, 2), state


def step_sums(
    q: Tensor, k: Tensor, v: Tensor, decay: Tensor | None, state: Tensor
) -> tuple[Tensor, Tensor]:
    """Go token by token; without gradients the state handed in is updated in place."""
    r = None if decay is None else decay.to(state.dtype).view(-1, 1, 1)
    ys = []
    for t in range(q.shape[1]):
        now = slice(t, t + 1)
        y, state = step(_heads(q[:, now]), _heads(k[:, now]), _heads(v[:, now]), r, state)
        ys.append(_heads(y))
    return ys[0] if len(ys) == 1 else torch.cat(ys, dim=1), state


def step(q: Tensor, k: Tensor, v: Tensor, r: Tensor | None, state: Tensor) -> tuple[Tensor, Tensor]:
    """Go on by one position, (B, H, 1, ·) and r (H, 1, 1): for generation, so few calls and no copy of the state."""
    if torch.is_grad_enabled():
        state = torch.addcmul(_times(state, r), k.mT, v)
    else:
        state = (state if r is None else state.mul_(r)).addcmul_(k.mT, v)
    return q @ state, state


def chunked_sums(
    q: Tensor, k: Tensor, v: Tensor, decay: Tensor | None, state: Tensor, *, chunk: int = CHUNK
) -> tuple[Tensor, Tensor]:
    """Go by blocks, in time and memory linear in T, in the way that suits the device."""
    learned_decay = decay is not None and decay.requires_grad
    sums = blockwise_sums if eager_on_cpu(v) and not learned_decay else parallel_sums
    return sums(q, k, v, decay, state, chunk=chunk)


def parallel_sums(
    q: Tensor, k: Tensor, v: Tensor, decay: Tensor | None, state: Tensor, *, chunk: int
) -> tuple[Tensor, Tensor]:
    """Take all blocks in the same few batched products: for GPUs and compilers, which want few large kernels.

    Plain autograd goes through it. A tail shorter than a block comes last, by itself: padding would age the state.
    """
    width = v.shape[-1]
    v, state = (functional.pad(x, (0, -width % 8)) for x in (v, state))  # as tensor cores like it
    full = q.shape[1] - q.shape[1] % chunk
    parts = []
    if full:
        y, state = _all_blocks(q[:, :full], k[:, :full], v[:, :full], decay, state, chunk)
        parts.append(y)
    if full < q.shape[1]:
        y, state = exact_sums(q[:, full:], k[:, full:], v[:, full:], decay, state)
        parts.append(y)
    y = parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
    return y[..., :width], state[..., :width].contiguous()  # not a view that keeps all states


def _all_blocks(
    q: Tensor, k: Tensor, v: Tensor, decay: Tensor | None, state: Tensor, chunk: int
) -> tuple[Tensor, Tensor]:
    w = _weights(chunk, decay, q)
    q, k, v = (x.unflatten(1, (-1, chunk)).permute(0, 3, 1, 2, 4) for x in (q, k, v))  # (B,H,n,c,·)
    scores = (q @ k.mT) * w.within.unsqueeze(1)  # (B, H, n, c, c)
    own = k.mT @ _times_each(v, w.leaving)  # (B, H, n, M, D)
    states = _running(torch.cat([state.unsqueeze(2), own], dim=2), decay, chunk)
    past = _times_each(q @ states[:, :, :-1].to(q.dtype), w.entering)
    y = (scores @ v).to(state.dtype) + past  # (B, H, n, c, D)
    return y.permute(0, 2, 3, 1, 4).flatten(1, 2), states[:, :, -1]


def _running(own: Tensor, decay: Tensor | None, chunk: int) -> Tensor:
    """Σ_{j≤i} r^(chunk·(i−j)) own_j along the blocks: (B, H, n + 1, M, D) → the same."""
    if decay is None:
        return own.cumsum(2)
    between = _weights(own.shape[2], decay.to(own.dtype) ** chunk, own).within  # (H, n + 1, n + 1)
    return (between @ own.flatten(3)).view(own.shape)


def blockwise_sums(
    q: Tensor, k: Tensor, v: Tensor, decay: Tensor | None, state: Tensor, *, chunk: int
) -> tuple[Tensor, Tensor]:
    """Go block by block: for CPUs, where a block's matrices stay in the cache.

    Its own backward keeps the inputs and a state a block. At B1 H8 M128 D64 T2048 a normalised attention then keeps
    13 MB besides its inputs, and takes 65 ms forward and backward on one core; autograd through `parallel_sums` keeps
    61 MB and takes 93 ms, fast-transformers' kernel 26 MB and 179 ms. The decay gets no gradient here.
    """
    y, state = _Blockwise.apply(q, k, v, decay, state, chunk)
    return y, state


class _Blockwise(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, decay: Tensor | None, state: Tensor, chunk: int
    ) -> tuple[Tensor, Tensor]:
        y = torch.empty_like(v)
        starts = range(0, q.shape[1], chunk)
        weights = _weights(min(chunk, q.shape[1]), decay, q)
        states = []
        for start in starts:
            block = slice(start, start + chunk)
            states.append(state)
            qs, ks, vs = (_heads(x[:, block]).contiguous() for x in (q, k, v))
            w = _shortened(weights, qs.shape[2], decay, q)
            out, state = _block(qs, ks, vs, state, w)
            y[:, block] = _heads(out)
        if any(ctx.needs_input_grad):
            ctx.save_for_backward(q, k, v, decay, *states)
            ctx.chunk = chunk
        return y, state

    @staticmethod
    @once_differentiable  # the states are saved without their own history
    def backward(ctx: Any, dy: Tensor, dstate: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore
        q, k, v, decay, *states = ctx.saved_tensors
        dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        weights = _weights(min(ctx.chunk, q.shape[1]), decay, q)
        for start in reversed(range(0, q.shape[1], ctx.chunk)):
            block = slice(start, start + ctx.chunk)
            qs, ks, vs, dys = (_heads(x[:, block]).contiguous() for x in (q, k, v, dy))
            w = _shortened(weights, qs.shape[2], decay, q)
            dqs, dks, dvs, dstate = _block_backward(qs, ks, vs, dys, states.pop(), dstate, w)
            dq[:, block], dk[:, block], dv[:, block] = _heads(dqs), _heads(dks), _heads(dvs)
        return dq, dk, dv, None, dstate, None


def _block_backward(
    q: Tensor, k: Tensor, v: Tensor, dy: Tensor, state: Tensor, dnext: Tensor, w: _Weights
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of `_block` to q, k, v and the state before, from those to y and to the state after."""
    scores, dscores = (q @ k.mT) * w.within, (dy @ v.mT) * w.within  # (B, H, c, c)
    seen = _times(dy, w.entering)
    dq = dscores @ k + seen @ state.mT
    dk = dscores.mT @ q + _times(v @ dnext.mT, w.leaving)
    dv = scores.mT @ dy + _times(k @ dnext, w.leaving)
    return dq, dk, dv, _times(dnext, w.whole) + q.mT @ seen


def _shortened(weights: _Weights, length: int, decay: Tensor | None, like: Tensor) -> _Weights:
    """Return the weights of the last block, which may be shorter."""
    return weights if length == weights.within.shape[-1] else _weights(length, decay, like)


def _heads(x: Tensor) -> Tensor:
    """Swap time and heads, (B, T, H, ·) ↔ (B, H, T, ·)."""
    return x.transpose(1, 2)
