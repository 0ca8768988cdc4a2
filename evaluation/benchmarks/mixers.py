"""Other ways to attend than causal linear attention: both ways, random features, gates, the delta rule, Toeplitz."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from musicgen.attention import GUARD, parallel_sums
from musicgen.config import ModelConfig
from musicgen.features import FeatureMap
from musicgen.linear import Linear
from musicgen.performer import Attention, Passage
from musicgen.position.base import horizon_decays

# Linear attention without the causal mask: every position sees the whole sequence, at the same linear cost.
#
#     out_i = Σ_j r^|i−j| (fq_i·fk_j) v_j / Σ_j r^|i−j| (fq_i·fk_j)
#
# Without a decay r that is two products; with one it is the causal sums from both ends, less the position itself,
# which both have. Positions of padding are no keys. B batch, T time, H heads, M features, D value width.


def sums_both_ways(
    q: Tensor, k: Tensor, v: Tensor, decay: Tensor | None, state: Tensor, *, chunk: int
) -> tuple[Tensor, Tensor]:
    """Return the sums over all positions, (B, T, H, ·) → (B, T, H, D), and the state as it is: zeros."""
    if decay is None:
        return torch.einsum("bthm,bhmd->bthd", q, torch.einsum("bthm,bthd->bhmd", k, v)), state
    before, _ = parallel_sums(q, k, v, decay, state, chunk=chunk)
    after, _ = parallel_sums(q.flip(1), k.flip(1), v.flip(1), decay, state, chunk=chunk)
    own = (q * k).sum(-1, keepdim=True) * v
    return before + after.flip(1) - own, state


@dataclass(frozen=True, kw_only=True)
class WholePassage(Passage):
    """Where the tokens of whole sequences stand, and which are padding."""

    present: Tensor | None = None  # (B, T); None: no padding


def without_padding(fk: Tensor, passage: WholePassage) -> Tensor:
    """Return the features of keys, (B, T, H, M), which are 0 where there is only padding."""
    return fk if passage.present is None else fk * passage.present[..., None, None].to(fk.dtype)


class WholeAttention(Attention):
    """The attention of a block, over the whole sequence."""

    def __init__(self, config: ModelConfig, layer: int, features: FeatureMap) -> None:
        super().__init__(config, layer, features)
        self.backend = partial(sums_both_ways, chunk=config.chunk)

    def attend(
        self, x: Tensor, fq: Tensor, fk: Tensor, v: Tensor, passage: Passage, state: Any
    ) -> tuple[Tensor, Any]:
        """Attend to all positions that are no padding."""
        assert isinstance(passage, WholePassage), "whole sequences know their padding"
        fk = without_padding(fk, passage)
        return super().attend(x, fq, fk, v, passage, None)[0], None


# Random feature attention, gated or not (Peng et al. 2021), as feature maps and a recurrence with forgetting. Queries
# and keys have length one, so that the softmax kernel and the Gaussian one differ by a constant, which cancels.
#
# - `gaussian`: φ(x) = √(2/M) [sin ωx, cos ωx] with E[φ(x)·φ(y)] = exp(−|σ(x − y)|²/2).
# - `arccos`: φ(x) = √(2/M) max(ωx, 0), whose mean product is the arc-cosine kernel of order one.
# - The gate: S_t = g_t S_{t−1} + (1 − g_t) φ(k_t) v_tᵀ, with g_t of the token and head.
#
# B batch, T time, H heads, W width, M features, D value width.

# Gaussian features are of either sign, so the sum of a query's weights may be about 0, and what it divides without
# bound. A sum below this share of the number of keys is taken as this.
SMALLEST_SUM = 1e-2
GATED_CHUNK = 64  # positions a block
DECAYS = (8, 100_000)  # tokens that the heads remember, from the first to the last, at first


class RandomFeatures(FeatureMap):
    """φ of unit vectors, scaled by a learned σ a dimension."""

    def __init__(
        self, width: int, features: int, kind: Literal["gaussian", "arccos"] = "gaussian"
    ) -> None:
        if kind == "gaussian" and features % 2:
            raise ValueError(f"Gaussian features come in pairs; {features} is odd")
        super().__init__(width, features, features // 2 if kind == "gaussian" else features)
        self.kind = kind
        self.log_scale = nn.Parameter(torch.zeros(width))  # log σ

    def queries(self, x: Tensor) -> Tensor:
        """Return φ(q)."""
        u = self._projected(functional.normalize(x, dim=-1) * self.log_scale.exp())
        if self.kind == "gaussian":
            return torch.cat([u.sin(), u.cos()], -1) * (2 / self.features) ** 0.5
        return u.relu() * (2 / self.features) ** 0.5

    def keys(self, x: Tensor) -> Tensor:
        """Return φ(k)."""
        return self.queries(x)


def gated_sums(q: Tensor, k: Tensor, v: Tensor, log_gates: Tensor) -> Tensor:
    """Return q_i Σ_{j≤i} (g_{j+1} ⋯ g_i) k_j v_jᵀ in blocks: (B, T, H, ·), log g (B, T, H) → (B, T, H, D).

    Products of gates are exponentials of differences of sums of log g, which are 0 or less.
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


class RandomFeatureAttention(Attention):
    """The attention of a block by random features, causal; gated, if asked for."""

    def __init__(
        self, config: ModelConfig, layer: int, features: FeatureMap, *, gated: bool = False
    ) -> None:
        if config.horizons is not None:
            raise ValueError(
                "random feature attention has a gate instead of horizons; leave them out"
            )
        super().__init__(config, layer, features)
        self.gate = Linear(config.width, config.heads) if gated else None
        if self.gate is not None:
            nn.init.zeros_(self.gate.weight)
            nn.init.constant_(self.gate.bias, 3.0)  # remember about 20 tokens at first

    def attend(
        self, x: Tensor, fq: Tensor, fk: Tensor, v: Tensor, passage: Passage, state: Any
    ) -> tuple[Tensor, Any]:
        """Attend to the earlier positions, which a gate lets be forgotten."""
        _whole_and_causal("random feature attention", passage, state)
        values = functional.pad(v, (0, 1), value=1.0)
        if self.gate is None:
            begun = fq.new_zeros(len(x), self.heads, fq.shape[-1], values.shape[-1])
            y, _ = parallel_sums(fq, fk, values, None, begun, chunk=self.chunk)
            keys = torch.arange(1, x.shape[1] + 1, device=x.device).view(1, -1, 1, 1)
        else:
            logs = functional.logsigmoid(self.gate(x))
            y = gated_sums(fq, fk * -torch.expm1(logs).unsqueeze(-1), values, logs)
            keys = 1
        return y[..., :-1] / y[..., -1:].clamp(min=SMALLEST_SUM * keys), None


# Decay by token, a factor a head that the token decides, as gated linear attention has it for each feature (Yang et al.
# 2024); and the delta rule (Schlag et al. 2021), which replaces what the state holds under a key:
#
#     S_t = g_t S_{t−1} + φ(k_t) v_tᵀ          S_t = S_{t−1} + β_t k_t (v_t − S_{t−1}ᵀ k_t)ᵀ,  |k_t| = 1
#
# Neither has the short convolution and the output gate that published models add to it.


class TokenDecayAttention(Attention):
    """The attention of a block that decays by token; `normed` as the delta rule's, it is the control of that."""

    def __init__(
        self, config: ModelConfig, layer: int, features: FeatureMap | None, *, normed: bool = False
    ) -> None:
        super().__init__(config, layer, features)
        self.norm = nn.LayerNorm(config.head_width) if normed else None
        self.gate = Linear(config.width, config.heads)
        nn.init.zeros_(self.gate.weight)
        with torch.no_grad():
            self.gate.bias.copy_(horizon_decays(DECAYS, config.heads).logit())

    def attend(
        self, x: Tensor, fq: Tensor, fk: Tensor, v: Tensor, passage: Passage, state: Any
    ) -> tuple[Tensor, Any]:
        """Attend to the earlier positions, which later tokens let fade."""
        _whole_and_causal("decay by token", passage, state)
        logs = functional.logsigmoid(self.gate(x))
        if self.norm is not None:
            return self.norm(gated_sums(fq, fk, v, logs)), None
        y = gated_sums(fq, fk, functional.pad(v, (0, 1), value=1.0), logs)
        return y[..., :-1] / (y[..., -1:] + GUARD), None


class UnitFeatures(FeatureMap):
    """Queries and keys of length one, after a SiLU."""

    def queries(self, x: Tensor) -> Tensor:
        """Return φ(q)."""
        return functional.normalize(functional.silu(x), dim=-1)

    def keys(self, x: Tensor) -> Tensor:
        """Return φ(k)."""
        return self.queries(x)


def delta_sums(q: Tensor, k: Tensor, v: Tensor, rates: Tensor) -> Tensor:
    """Return q_t S_t by the delta rule in blocks: (B, T, H, ·), β (B, T, H) → (B, T, H, D).

    In a block that state S enters, S_t = S + Σ_{j≤t} k_j n_jᵀ, and one triangular system has all n: (1 + tril(β k kᵀ,
    −1)) n = β (v − k S) (Yang et al. 2024).
    """
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))  # (B, H, T, ·)
    rates = rates.transpose(1, 2).unsqueeze(-1)
    state = q.new_zeros(*q.shape[:2], q.shape[3], v.shape[3])  # (B, H, M, D)
    parts = []
    for start in range(0, q.shape[2], GATED_CHUNK):
        qs, ks, vs, beta = (x[:, :, start : start + GATED_CHUNK] for x in (q, k, v, rates))
        system = (beta * (ks @ ks.mT)).tril(-1)  # the ones of the diagonal are understood
        new = torch.linalg.solve_triangular(
            system, beta * (vs - ks @ state), upper=False, unitriangular=True
        )
        parts.append(qs @ state + (qs @ ks.mT).tril() @ new)
        state = state + ks.mT @ new
    return torch.cat(parts, 2).transpose(1, 2)


class DeltaAttention(Attention):
    """The attention of a block by the delta rule; what it finds is normalised by head, since no weights sum to 1."""

    def __init__(self, config: ModelConfig, layer: int, features: FeatureMap) -> None:
        super().__init__(config, layer, features)
        self.rate = Linear(config.width, config.heads)
        nn.init.zeros_(self.rate.weight)
        nn.init.zeros_(self.rate.bias)
        self.norm = nn.LayerNorm(config.head_width)

    def attend(
        self, x: Tensor, fq: Tensor, fk: Tensor, v: Tensor, passage: Passage, state: Any
    ) -> tuple[Tensor, Any]:
        """Read what the earlier positions wrote."""
        _whole_and_causal("the delta rule", passage, state)
        return self.norm(delta_sums(fq, fk, v, self.rate(x).sigmoid())), None


def _whole_and_causal(what: str, passage: Passage, state: Any) -> None:
    if state is not None or isinstance(passage, WholePassage):
        raise ValueError(f"{what} is causal here, and reads whole sequences")


# Log-linear attention (Luo et al. 2021): a learned weight for every distance, by FFT instead of a (T, T) matrix.
#
#     out_i = Σ_j c_{i−j} (fq_i·fk_j) v_j / Σ_j c_{i−j} (fq_i·fk_j),  c = exp b
#
# The sums over j are convolutions of each product of a feature and a value with c: O(T log T) time, but M·D columns
# of memory. B batch, T time, H heads, M features, D value width.

REACH = 512  # distances with a weight of their own; those further off share the last


def toeplitz_attend(fq: Tensor, fk: Tensor, v: Tensor, weights: Tensor) -> Tensor:
    """Attend with c by distance: fq, fk (B, T, H, M), v (B, T, H, D), c (H, 2T − 1) of −(T − 1) … T − 1."""
    length = fq.shape[1]
    products = torch.einsum("bthm,bthd->bhmdt", fk, functional.pad(v, (0, 1), value=1.0))
    # On a circle of 2T places lag −l lies at 2T − l; place T, which no lag has, is empty.
    circle = torch.cat(
        [weights[:, length - 1 :], weights.new_zeros(len(weights), 1), weights[:, : length - 1]], 1
    )
    spectrum = torch.fft.rfft(products, 2 * length) * torch.fft.rfft(circle)[:, None, None]
    summed = torch.fft.irfft(spectrum, 2 * length)[..., :length]
    y = torch.einsum("bthm,bhmdt->bthd", fq, summed)
    # FFTs leave rounding errors of the largest sum in the smallest, where the definition has none.
    return y[..., :-1] / y[..., -1:].clamp(min=GUARD)


class ToeplitzAttention(Attention):
    """The attention of a block, causal or not, with a learned weight a head and distance."""

    def __init__(self, config: ModelConfig, layer: int, features: FeatureMap | None) -> None:
        if config.horizons is not None:
            raise ValueError(
                "log-linear attention learns how much a distance weighs; leave out horizons"
            )
        super().__init__(config, layer, features)
        self.bias = nn.Parameter(torch.zeros(config.heads, 2 * REACH + 1))  # b, from −REACH on

    def weights(self, length: int, *, causal: bool) -> Tensor:
        """Return c of the distances −(T − 1) … T − 1, (H, 2T − 1); 0 ahead, where it is causal."""
        lags = torch.arange(1 - length, length, device=self.bias.device)
        found = self.bias[:, lags.clamp(-REACH, REACH) + REACH].exp()
        return found * (lags >= 0) if causal else found

    def attend(
        self, x: Tensor, fq: Tensor, fk: Tensor, v: Tensor, passage: Passage, state: Any
    ) -> tuple[Tensor, Any]:
        """Attend with a weight by distance, to all positions or to the earlier ones."""
        if state is not None:
            raise ValueError("log-linear attention has no state: it reads whole sequences alone")
        if whole := isinstance(passage, WholePassage):
            fk = without_padding(fk, passage)
        return toeplitz_attend(fq, fk, v, self.weights(x.shape[1], causal=not whole)), None


def mixed(
    attention: Attention, mixer: str, config: ModelConfig, layer: int, width: int
) -> Attention:
    """Return an attention of the same weights that mixes tokens in a way of this name."""
    if mixer in ("linear", "softmax"):
        return attention
    if mixer == "toeplitz":
        other: Attention = ToeplitzAttention(config, layer, attention.features)
    elif mixer == "decay_by_token":
        other = TokenDecayAttention(config, layer, attention.features)
    elif mixer == "decay_by_token_normed":
        unit = UnitFeatures(width, width, None)
        other = TokenDecayAttention(config, layer, unit, normed=True)
    elif mixer == "delta":
        other = DeltaAttention(config, layer, UnitFeatures(width, width, None))
    else:
        kind = "arccos" if mixer == "rfa_arccos" else "gaussian"
        features = RandomFeatures(width, config.shape().features, kind)
        gated = mixer == "rfa_gated"
        other = RandomFeatureAttention(config, layer, features, gated=gated)
    other.qkv, other.output, other.metre = attention.qkv, attention.output, attention.metre
    return other
