"""Alternatives to causal linear attention: bidirectional, decay by token, the delta rule."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from musicgen.attention import GUARD, parallel_sums
from musicgen.config import ModelConfig
from musicgen.features import FeatureMap, Unit
from musicgen.linear import Linear
from musicgen.parts import UnitConfig
from musicgen.performer import Attention, Passage
from musicgen.position.base import horizon_decays

# Bidirectional linear attention: every position sees the whole sequence, at the same linear cost.
#
#     out_i = Σ_j r^|i−j| (fq_i·fk_j) v_j / Σ_j r^|i−j| (fq_i·fk_j)
#
# Without a decay r, these are two products. With one, they are the causal sums from both ends, minus the position
# itself, which both include. Padding is excluded from the keys.
#
# B batch, T time, H heads, M features, D value width.


def sums_both_ways(
    q: Tensor, k: Tensor, v: Tensor, decay: Tensor | None, state: Tensor, *, chunk: int
) -> tuple[Tensor, Tensor]:
    """Return the sums over all positions, (B, T, H, ·) → (B, T, H, D), and the unused state."""
    if decay is None:
        return torch.einsum("bthm,bhmd->bthd", q, torch.einsum("bthm,bthd->bhmd", k, v)), state
    before, _ = parallel_sums(q, k, v, decay, state, chunk=chunk)
    after, _ = parallel_sums(q.flip(1), k.flip(1), v.flip(1), decay, state, chunk=chunk)
    own = (q * k).sum(-1, keepdim=True) * v
    return before + after.flip(1) - own, state


@dataclass(frozen=True, kw_only=True)
class WholePassage(Passage):
    """A passage of whole sequences, some of which can have padding."""

    present: Tensor | None = None  # (B, T), False for padding; None: no padding


class WholeAttention(Attention):
    """Bidirectional attention."""

    def __init__(self, config: ModelConfig, features: FeatureMap) -> None:
        super().__init__(config, features)
        self.backend = partial(sums_both_ways, chunk=config.chunk)

    def mix(
        self, x: Tensor, fq: Tensor, fk: Tensor, v: Tensor, passage: Passage, state: Any
    ) -> tuple[Tensor, Any]:
        """Attend to all positions except for padding."""
        assert isinstance(passage, WholePassage), "bidirectional attention needs the padding"
        if passage.present is not None:
            fk = fk * passage.present[..., None, None].to(fk.dtype)
        return super().mix(x, fq, fk, v, passage, None)[0], None


GATED_CHUNK = 64  # positions per block
DECAYS = (8, 100_000)  # initial memory of the first and the last head, in tokens


def gated_sums(q: Tensor, k: Tensor, v: Tensor, log_gates: Tensor) -> Tensor:
    """Compute q_i Σ_{j≤i} (g_{j+1} ⋯ g_i) k_j v_jᵀ in blocks: (B, T, H, ·), log g (B, T, H) → (B, T, H, D).

    Products of gates are the exponentials of differences of cumulative sums of log g; these are at most 0.
    """
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))  # (B, H, T, ·)
    logs = log_gates.transpose(1, 2)
    state = q.new_zeros(*q.shape[:2], q.shape[3], v.shape[3])  # (B, H, M, D)
    parts = []
    for start in range(0, q.shape[2], GATED_CHUNK):
        block = slice(start, start + GATED_CHUNK)
        qs, ks, vs, sums = q[:, :, block], k[:, :, block], v[:, :, block], logs[:, :, block]
        sums = sums.cumsum(-1)  # (B, H, c)
        between = (sums.unsqueeze(-1) - sums.unsqueeze(-2)).tril().exp().tril()  # (B, H, c, c)
        inside = ((qs @ ks.mT) * between) @ vs
        parts.append(inside + (qs @ state) * sums.exp().unsqueeze(-1))
        left = (sums[..., -1:] - sums).exp().unsqueeze(-1)
        state = state * sums[..., -1:].exp().unsqueeze(-1) + (ks * left).mT @ vs
    return torch.cat(parts, 2).transpose(1, 2)


# Decay by token: a factor per head that depends on the token, as gated linear attention has per feature (Yang et al.
# 2024). The delta rule (Schlag et al. 2021) replaces the value that the state stores for a key:
#
#     S_t = g_t S_{t−1} + φ(k_t) v_tᵀ          S_t = S_{t−1} + β_t k_t (v_t − S_{t−1}ᵀ k_t)ᵀ,  |k_t| = 1
#
# Published models add a short convolution and an output gate to them; these do not.


class TokenDecayAttention(Attention):
    """Attention with a decay by token; `normed` like the delta rule, it is the control for it."""

    def __init__(
        self, config: ModelConfig, features: FeatureMap | None, *, normed: bool = False
    ) -> None:
        super().__init__(config, features)
        self.norm = nn.LayerNorm(config.head_width) if normed else None
        self.gate = Linear(config.width, config.heads)
        nn.init.zeros_(self.gate.weight)
        with torch.no_grad():
            self.gate.bias.copy_(horizon_decays(DECAYS, config.heads).logit())

    def mix(
        self, x: Tensor, fq: Tensor, fk: Tensor, v: Tensor, passage: Passage, state: Any
    ) -> tuple[Tensor, Any]:
        """Attend to the earlier positions, with the decay of the tokens since."""
        logs = functional.logsigmoid(self.gate(x))
        if self.norm is not None:
            return self.norm(gated_sums(fq, fk, v, logs)), None
        y = gated_sums(fq, fk, functional.pad(v, (0, 1), value=1.0), logs)
        return y[..., :-1] / (y[..., -1:] + GUARD), None


def delta_sums(q: Tensor, k: Tensor, v: Tensor, rates: Tensor) -> Tensor:
    """Compute q_t S_t by the delta rule in blocks: (B, T, H, ·), β (B, T, H) → (B, T, H, D).

    In a block that starts with the state S, S_t = S + Σ_{j≤t} k_j n_jᵀ, where all n solve one triangular system:
    (1 + tril(β k kᵀ, −1)) n = β (v − k S) (Yang et al. 2024).
    """
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))  # (B, H, T, ·)
    rates = rates.transpose(1, 2).unsqueeze(-1)
    state = q.new_zeros(*q.shape[:2], q.shape[3], v.shape[3])  # (B, H, M, D)
    parts = []
    for start in range(0, q.shape[2], GATED_CHUNK):
        qs, ks, vs, beta = (x[:, :, start : start + GATED_CHUNK] for x in (q, k, v, rates))
        system = (beta * (ks @ ks.mT)).tril(-1)  # the diagonal is 1, by `unitriangular`
        new = torch.linalg.solve_triangular(
            system, beta * (vs - ks @ state), upper=False, unitriangular=True
        )
        parts.append(qs @ state + (qs @ ks.mT).tril() @ new)
        state = state + ks.mT @ new
    return torch.cat(parts, 2).transpose(1, 2)


class DeltaAttention(Attention):
    """Attention by the delta rule; its output is normalised per head, since its weights do not sum to 1."""

    def __init__(self, config: ModelConfig, features: FeatureMap) -> None:
        super().__init__(config, features)
        self.rate = Linear(config.width, config.heads)
        nn.init.zeros_(self.rate.weight)
        nn.init.zeros_(self.rate.bias)
        self.norm = nn.LayerNorm(config.head_width)

    def mix(
        self, x: Tensor, fq: Tensor, fk: Tensor, v: Tensor, passage: Passage, state: Any
    ) -> tuple[Tensor, Any]:
        """Read the values that the earlier positions have stored."""
        return self.norm(delta_sums(fq, fk, v, self.rate(x).sigmoid())), None


def mixed(attention: Attention, mixer: str, config: ModelConfig, width: int) -> Attention:
    """Return the kind of attention named `mixer`, with the same projections."""
    if mixer in ("linear", "softmax"):
        return attention
    unit = Unit(UnitConfig(), width)
    if mixer == "decay_by_token":
        other: Attention = TokenDecayAttention(config, attention.features)
    elif mixer == "decay_by_token_normed":
        other = TokenDecayAttention(config, unit, normed=True)
    else:
        other = DeltaAttention(config, unit)
    other.qkv, other.output, other.metre = attention.qkv, attention.output, attention.metre
    return other
