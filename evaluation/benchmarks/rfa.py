"""Random feature attention, gated or not (Peng et al. 2021), as feature maps and a recurrence with forgetting.

Queries and keys have length one, so that the softmax kernel and the Gaussian one differ by a constant, which cancels.

- `gaussian`: φ(x) = √(2/M) [sin ωx, cos ωx] with E[φ(x)·φ(y)] = exp(−|σ(x − y)|²/2).
- `arccos`: φ(x) = √(2/M) max(ωx, 0), whose mean product is the arc-cosine kernel of order one.
- The gate: S_t = g_t S_{t−1} + (1 − g_t) φ(k_t) v_tᵀ, with g_t of the token and head.

B batch, T time, H heads, W width, M features, D value width.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from evaluation.benchmarks.bidirectional import WholePassage
from musicgen.attention.causal_sums import parallel_sums
from musicgen.attention.features import FeatureMap
from musicgen.layers.linear import Linear
from musicgen.layers.step_calls import Call, Scratch
from musicgen.model.block import Attention, Passage
from musicgen.model.config import ModelConfig

# Gaussian features are of either sign, so the sum of a query's weights may be about 0, and what it divides without
# bound. A sum below this share of the number of keys is taken as this.
SMALLEST_SUM = 1e-2
CHUNK = 64  # positions a block
KINDS = ("gaussian", "arccos")


class RandomFeatures(FeatureMap):
    """φ of unit vectors, scaled by a learned σ a dimension."""

    def __init__(self, width: int, features: int, kind: str = "gaussian") -> None:
        if kind not in KINDS:
            raise ValueError(f"RFA has no features {kind!r}; there are {', '.join(KINDS)}")
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

    def for_steps(self, qk: Tensor, out: Tensor, scratch: Scratch) -> list[Call]:
        """Return φ of one position as a call."""
        return [lambda: out.copy_(self.queries(qk))]


def gated_sums(q: Tensor, k: Tensor, v: Tensor, log_gates: Tensor) -> Tensor:
    """Return q_i Σ_{j≤i} (g_{j+1} ⋯ g_i)(1 − g_j) k_j v_jᵀ in blocks: (B, T, H, ·), log g (B, T, H) → (B, T, H, D).

    Products of gates are exponentials of differences of sums of log g, which are 0 or less.
    """
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))  # (B, H, T, ·)
    logs = log_gates.transpose(1, 2)
    k = k * -torch.expm1(logs).unsqueeze(-1)  # times 1 − g
    state = q.new_zeros(*q.shape[:2], q.shape[3], v.shape[3])  # (B, H, M, D)
    parts = []
    for start in range(0, q.shape[2], CHUNK):
        block = slice(start, start + CHUNK)
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
        if state is not None or isinstance(passage, WholePassage):
            raise ValueError("random feature attention is causal here, and reads whole sequences")
        values = functional.pad(v, (0, 1), value=1.0)
        if self.gate is None:
            begun = fq.new_zeros(len(x), self.heads, fq.shape[-1], values.shape[-1])
            y, _ = parallel_sums(fq, fk, values, None, begun, chunk=self.chunk)
            keys = torch.arange(1, x.shape[1] + 1, device=x.device).view(1, -1, 1, 1)
        else:
            y = gated_sums(fq, fk, values, functional.logsigmoid(self.gate(x)))
            keys = 1
        return y[..., :-1] / y[..., -1:].clamp(min=SMALLEST_SUM * keys), None
