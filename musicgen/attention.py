"""Causal linear attention: exact, blockwise and recurrent forms of the same sum, which share one state.

B batch, T time, H heads, M features, D value width. For positive features fq_i = φ(q_i) and fk_j = φ(k_j),

    out_i = Σ_{j≤i} r^(i−j) (fq_i·fk_j) v_j / Σ_{j≤i} r^(i−j) (fq_i·fk_j)

This is causally masked linear attention (Katharopoulos et al. 2020, equations 8–12) with the decay r of PermuteFormer
(Chen 2021). The backend "exact" builds the (T, T) matrix, for tests, figures and short sequences; "chunked" is linear
in T in time and memory, for training and prompts; "recurrent" is the RNN of equations 16–20, for generation. All take
and return the same state, so that a sequence can be cut anywhere and continued by another backend.

All compute y_i = Σ_{j≤i} r^(i−j) (q_i·k_j) v_j = q_i S_i from the state S_i = Σ_{j≤i} r^(i−j) k_j v_jᵀ, (B, H, M, D);
the denominator Z_i of the paper is one more column of S_i. A sequence has n blocks of c positions. Only powers r^(i−j)
with i ≥ j are formed, which stay in (0, 1] at any length.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache, partial, reduce
from importlib import import_module
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from musicgen.config import ModelConfig


def without_autocast(device: torch.device) -> AbstractContextManager[Any]:
    """Return a context with autocast off, for exponentials and long sums that need float32.

    It costs next to nothing where autocast is off already: each generated token enters it twice per layer.
    """
    if torch.is_autocast_enabled(device.type):
        return torch.autocast(device.type, enabled=False)
    return nullcontext()


def eager_on_cpu(x: Tensor) -> bool:
    """Return whether to use a function optimised for CPU caches instead of torch's own, which compilers understand."""
    return x.is_cpu and not torch.compiler.is_compiling()


Sums = Callable[[Tensor, Tensor, Tensor, Tensor | None, Tensor], tuple[Tensor, Tensor]]
"""(q, k, v, decay (H,) or None, state before the first position) → (y, state after the last)."""


class _Weights(NamedTuple):
    """Weights in a block of c positions, powers of the decay; None means ones."""

    within: Tensor  # r^(i−j) for j ≤ i, else 0: (H, c, c), or (1, c, c) without decay
    entering: Tensor | None  # r^(i+1), of the state before the block at position i: (H, c, 1)
    leaving: Tensor | None  # r^(c−1−j), of position j in the state after the block: (H, c, 1)
    whole: Tensor | None  # r^c, of the state before the block in the state after it: (H, 1, 1)


def _weights(length: int, decay: Tensor | None, like: Tensor) -> _Weights:
    if decay is None:
        return _Weights(like.new_ones(1, length, length).tril(), None, None, None)
    r = decay.to(torch.promote_types(like.dtype, torch.float32)).view(-1, 1, 1)
    i = torch.arange(length, device=like.device).view(-1, 1)
    within = (r ** (i - i.mT).clamp(min=0)).tril()
    parts = within, r ** (i + 1), r ** (length - 1 - i), r**length
    return _Weights(*(part.to(like.dtype) for part in parts))


def _scaled(x: Tensor, weight: Tensor | None) -> Tensor:
    return x if weight is None else x * weight


def _block(q: Tensor, k: Tensor, v: Tensor, state: Tensor, w: _Weights) -> tuple[Tensor, Tensor]:
    """Compute one block, (B, H, c, ·): return its outputs, (B, H, c, D), and the state after it."""
    own = k.mT @ _scaled(v, w.leaving)  # (B, H, M, D)
    return _outputs(q, k, v, state, w), _scaled(state, w.whole) + own


def _outputs(q: Tensor, k: Tensor, v: Tensor, before: Tensor, w: _Weights) -> Tensor:
    """Return y of a block, (…, c, D): a masked matrix within the block plus the state before it, (…, M, D)."""
    scores = (q @ k.mT) * w.within  # (…, c, c)
    past = _scaled(q @ before.to(q.dtype), w.entering)
    return (scores @ v).to(before.dtype) + past


def exact_sums(
    q: Tensor, k: Tensor, v: Tensor, decay: Tensor | None, state: Tensor
) -> tuple[Tensor, Tensor]:
    """Compute the sums by one masked (T, T) matrix."""
    y, state = _block(_heads(q), _heads(k), _heads(v), state, _weights(q.shape[1], decay, q))
    return y.transpose(1, 2), state


def step_sums(
    q: Tensor, k: Tensor, v: Tensor, decay: Tensor | None, state: Tensor
) -> tuple[Tensor, Tensor]:
    """Compute the sums token by token (equations 16–20); without gradients the given state is updated in place."""
    r = None if decay is None else decay.to(state.dtype).view(-1, 1, 1)
    ys = []
    by_token = (_heads(x).split(1, 2) for x in (q, k, v))  # (B, H, 1, ·) each
    for query, key, value in zip(*by_token, strict=True):
        if torch.is_grad_enabled():
            state = torch.addcmul(_scaled(state, r), key.mT, value)
        else:
            state = (state if r is None else state.mul_(r)).addcmul_(key.mT, value)
        ys.append(_heads(query @ state))
    return ys[0] if len(ys) == 1 else torch.cat(ys, dim=1), state


def chunked_sums(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    decay: Tensor | None,
    state: Tensor,
    *,
    chunk: int = ModelConfig.chunk,
) -> tuple[Tensor, Tensor]:
    """Compute the sums by blocks, linear in T in time and memory, in the way that suits the device."""
    learned_decay = decay is not None and decay.requires_grad
    sums = blockwise_sums if eager_on_cpu(v) and not learned_decay else parallel_sums
    return sums(q, k, v, decay, state, chunk=chunk)


def parallel_sums(
    q: Tensor, k: Tensor, v: Tensor, decay: Tensor | None, state: Tensor, *, chunk: int
) -> tuple[Tensor, Tensor]:
    """Compute all blocks in a few batched products: for GPUs and compilers, which want few large kernels.

    Plain autograd differentiates it. A shorter last block is computed by itself, since padding would decay the state.
    """
    width = v.shape[-1]
    v, state = (functional.pad(x, (0, -width % 8)) for x in (v, state))  # for tensor cores
    full = q.shape[1] - q.shape[1] % chunk
    parts = []
    if full:
        sums = fused_blocks if can_fuse(q, v, decay, chunk) else _all_blocks
        y, state = sums(q[:, :full], k[:, :full], v[:, :full], decay, state, chunk)
        parts.append(y)
    if full < q.shape[1]:
        y, state = exact_sums(q[:, full:], k[:, full:], v[:, full:], decay, state)
        parts.append(y)
    y = parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
    return y[..., :width], state[..., :width].contiguous()  # a view would keep all states in memory


def can_fuse(q: Tensor, v: Tensor, decay: Tensor | None, chunk: int) -> bool:
    """Return whether the kernels of `fused.py` can compute blocks: on a GPU with Triton, with a fixed decay."""
    fits = chunk >= 16 and chunk & (chunk - 1) == 0 and q.dtype in (torch.float32, torch.bfloat16)
    learned = decay is not None and decay.requires_grad
    return q.is_cuda and fits and not learned and _fuses(q.shape[-1], v.shape[-1], chunk, q.dtype)


@torch.compiler.assume_constant_result
def _fuses(*sizes: Any) -> bool:
    return kernels_agree(*sizes)


@cache
def kernels_agree(
    features: int, width: int, chunk: int, dtype: torch.dtype, device: str = "cuda"
) -> bool:
    """Return whether the kernels run at these sizes and agree with `exact_sums`, values and gradients."""
    try:
        import_module("musicgen.fused")  # which needs Triton
        drawn = torch.linspace(0.1, 1, 2 * chunk * (2 * features + width), device=device)
        drawn = drawn.sin().view(1, 2 * chunk, 1, -1).to(dtype)
        given = drawn.split([features, features, width], -1)
        first = torch.ones(1, 1, features, width, device=device)
        decay = first.new_full((1,), 1 - 1 / chunk)
        results = []
        for sums in (partial(fused_blocks, chunk=chunk), exact_sums):
            q, k, v, state = (x.detach().clone().requires_grad_() for x in (*given, first))
            with torch.enable_grad():
                y, last = sums(q, k, v, decay, state)
                loss = y.square().mean() + last.square().mean()
                found = torch.autograd.grad(loss, (q, k, v, state))
            results.append([y, last, *found])
        return all(
            (a - b).abs().max() <= 0.03 * b.abs().max() for a, b in zip(*results, strict=True)
        )
    except Exception as error:  # a compiler can fail in any way, and training goes on without it
        reason = f"{type(error).__name__}: {error}"
        warnings.warn(f"linear attention is not fused: {reason}", stacklevel=2)
        return False


def fused_blocks(
    q: Tensor, k: Tensor, v: Tensor, decay: Tensor | None, state: Tensor, chunk: int
) -> tuple[Tensor, Tensor]:
    """Compute all blocks in the kernels of `fused.py`."""
    y, states = torch.ops.musicgen.block_sums(q, k, v, decay, state, chunk)
    return y, states[:, :, -1]


def _all_blocks(
    q: Tensor, k: Tensor, v: Tensor, decay: Tensor | None, state: Tensor, chunk: int
) -> tuple[Tensor, Tensor]:
    within, *others = _weights(chunk, decay, q)
    w = _Weights(within.unsqueeze(1), *(x if x is None else x.unsqueeze(1) for x in others))
    q, k, v = (x.unflatten(1, (-1, chunk)).permute(0, 3, 1, 2, 4) for x in (q, k, v))  # (B,H,n,c,·)
    own = k.mT @ _scaled(v, w.leaving)  # (B, H, n, M, D)
    states = _decayed_cumsum(torch.cat([state.unsqueeze(2), own], dim=2), decay, chunk)
    y = _outputs(q, k, v, states[:, :, :-1], w)  # (B, H, n, c, D)
    return y.permute(0, 2, 3, 1, 4).flatten(1, 2), states[:, :, -1]


def _decayed_cumsum(own: Tensor, decay: Tensor | None, chunk: int) -> Tensor:
    """Return Σ_{j≤i} r^(chunk·(i−j)) own_j for each block i: (B, H, n + 1, M, D) → (B, H, n + 1, M, D)."""
    if decay is None:
        return own.cumsum(2)
    between = _weights(own.shape[2], decay.to(own.dtype) ** chunk, own).within  # (H, n + 1, n + 1)
    return (between @ own.flatten(3)).view(own.shape)


def blockwise_sums(
    q: Tensor, k: Tensor, v: Tensor, decay: Tensor | None, state: Tensor, *, chunk: int
) -> tuple[Tensor, Tensor]:
    """Compute the sums block by block: for CPUs, where a block's matrices stay in the cache.

    A custom backward pass stores the inputs and one state per block. With B = 1, H = 8, M = 128, D = 64 and T = 2,048
    it takes 13 MB, and 65 ms forward and backward on one core; autograd through `parallel_sums` takes 61 MB and 93 ms.
    The decay gets no gradient here.
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
            w = _weights_of(weights, qs.shape[2], decay, q)
            out, state = _block(qs, ks, vs, state, w)
            y[:, block] = _heads(out)
        if any(ctx.needs_input_grad):
            ctx.save_for_backward(q, k, v, decay, *states)
            ctx.chunk = chunk
        return y, state

    @staticmethod
    @once_differentiable  # the states are saved without their autograd history
    def backward(ctx: Any, dy: Tensor, dstate: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore
        q, k, v, decay, *states = ctx.saved_tensors
        dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        weights = _weights(min(ctx.chunk, q.shape[1]), decay, q)
        for start in reversed(range(0, q.shape[1], ctx.chunk)):
            block = slice(start, start + ctx.chunk)
            qs, ks, vs, dys = (_heads(x[:, block]).contiguous() for x in (q, k, v, dy))
            w = _weights_of(weights, qs.shape[2], decay, q)
            dqs, dks, dvs, dstate = _block_backward(qs, ks, vs, dys, states.pop(), dstate, w)
            dq[:, block], dk[:, block], dv[:, block] = _heads(dqs), _heads(dks), _heads(dvs)
        return dq, dk, dv, None, dstate, None


def _block_backward(
    q: Tensor, k: Tensor, v: Tensor, dy: Tensor, state: Tensor, dnext: Tensor, w: _Weights
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the gradients of `_block` for q, k, v and the state before it, given those for y and the state after."""
    scores, dscores = (q @ k.mT) * w.within, (dy @ v.mT) * w.within  # (B, H, c, c)
    entering = _scaled(dy, w.entering)
    dq = dscores @ k + entering @ state.mT
    dk = dscores.mT @ q + _scaled(v @ dnext.mT, w.leaving)
    dv = scores.mT @ dy + _scaled(k @ dnext, w.leaving)
    return dq, dk, dv, _scaled(dnext, w.whole) + q.mT @ entering


def _weights_of(weights: _Weights, length: int, decay: Tensor | None, like: Tensor) -> _Weights:
    """Return the weights of a block of this length: the given ones, unless it is a shorter last block."""
    return weights if length == weights.within.shape[-1] else _weights(length, decay, like)


def _heads(x: Tensor) -> Tensor:
    """Swap time and heads, (B, T, H, ·) ↔ (B, H, T, ·)."""
    return x.transpose(1, 2)


def fast_transformers_sums(
    q: Tensor, k: Tensor, v: Tensor, decay: Tensor | None, state: Tensor
) -> tuple[Tensor, Tensor]:
    """Compute the sums by the compiled kernel of pytorch-fast-transformers, an optional extra.

    The kernel supports float32 only, and no initial state, which is added here. Raises ValueError for a decay.
    """
    if decay is not None:
        raise ValueError(
            "the fast-transformers backend does not support decay, which horizons or this positional encoding need: "
            "use backend 'chunked'"
        )
    try:
        # Imported by name, since type checkers may not have the extra.
        product = import_module("fast_transformers.causal_product").causal_dot_product
    except ImportError as error:
        raise ValueError(
            "the fast-transformers backend needs the package pytorch-fast-transformers, which is not installed: "
            "run `make fast-transformers` in the clone of musicgen"
        ) from error
    q, k, v = (x.float().transpose(1, 2).contiguous() for x in (q, k, v))  # (B, H, T, ·)
    y = product(q, k, v).to(state.dtype) + q.to(state.dtype) @ state
    return y.transpose(1, 2), state + (k.mT @ v).to(state.dtype)


# Added to the denominator, so that 0/0 is 0. All sums of the features of `features.py` are above e⁻⁵⁶ / M; the 1e-6 of
# the papers' code would swamp FAVOR+ keys of a large norm.
GUARD = 1e-30


class AttentionState(NamedTuple):
    """The recurrent state of an attention layer, of constant size, in float32 or float64."""

    sums: Tensor  # S and Z: Σ r^(i−j) fk_j [v_j, 1]ᵀ, (B, H, M, D + 1); with a normaliser, S alone, (B, H, M, D)
    normaliser: Tensor | None = None  # Z of a normaliser (gq, gk): Σ r^(i−j) gk_j, (B, H, Mn, 1)
    metre: Tensor | None = None  # memory of the metric heads (metre.py): (B, R, M, D + 1)


def map_state(state: Any, function: Callable[[Tensor], Tensor]) -> Any:
    """Return a layer's state with a function applied to each of its tensors."""
    return type(state)(*(None if x is None else function(x) for x in state))


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
    normaliser: tuple[Tensor, Tensor] | None = None,
    norm: Callable[[Tensor], Tensor] | None = None,
    state: AttentionState | None = None,
    backend: str | Sums = "chunked",
    chunk: int = ModelConfig.chunk,
) -> tuple[Tensor, AttentionState]:
    """Compute causal linear attention: return the output, (B, T, H, D), and the state after the last position.

    fq, fk are (B, T, H, M) and v is (B, T, H, D); decay is r in (0, 1] per head, (H,). A normaliser (gq, gk), each
    (B, T, H, Mn), gives the denominator features of its own; the decay applies to both. A norm replaces the
    denominator. The backend is a name or a function; a single token that continues a state always uses "recurrent".

    Without gradients, "recurrent" UPDATES THE STATE IN PLACE and returns it, which halves the time of a step.
    """
    sums = BACKENDS[backend] if isinstance(backend, str) else backend
    sums = step_sums if state is not None and fq.shape[1] == 1 else sums
    dtype = _product_dtype(sums, fq, fk, v)
    if sums is chunked_sums:
        sums = partial(chunked_sums, chunk=chunk)
    width = v.shape[-1]
    before = (None, None) if state is None else (state.sums, state.normaliser)
    with without_autocast(v.device):
        if norm is not None:
            y, after = _sums_from(sums, fq, fk, v, decay, before[0], dtype)
            return norm(y).to(v.dtype), AttentionState(after)
        if normaliser is None:
            # A column of ones after the values gives the denominator along with the numerator.
            v_and_one = functional.pad(v, (0, 1), value=1.0)
            y, after = _sums_from(sums, fq, fk, v_and_one, decay, before[0], dtype)
            out = y[..., :width] / (y[..., width:] + GUARD)
            return out.to(v.dtype), AttentionState(after)
        y, after = _sums_from(sums, fq, fk, v, decay, before[0], dtype)
        one = v.new_ones(*v.shape[:-1], 1)
        total, total_after = _sums_from(sums, *normaliser, one, decay, before[1], dtype)
        return (y / (total + GUARD)).to(v.dtype), AttentionState(after, total_after)


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
    """Return the precision of the matrix products; states and sums between blocks are at least float32.

    Products are bfloat16 on a GPU if autocast or the inputs ask for it. The range of float16 is too small for
    exponentials, and for single steps or on a CPU bfloat16 gains nothing.
    """
    device = tensors[0].device.type
    dtype = reduce(torch.promote_types, (tensor.dtype for tensor in tensors))
    if torch.is_autocast_enabled(device) and dtype is not torch.float64:
        dtype = torch.get_autocast_dtype(device)
    may_be_half = device != "cpu" and sums is not step_sums
    if dtype is torch.bfloat16 and may_be_half:
        return dtype
    return torch.promote_types(dtype, torch.float32)
