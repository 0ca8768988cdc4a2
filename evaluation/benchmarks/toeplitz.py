"""Log-linear attention (Luo et al. 2021): a learned weight for every distance, by FFT instead of a (T, T) matrix.

    out_i = Σ_j c_{i−j} (fq_i·fk_j) v_j / Σ_j c_{i−j} (fq_i·fk_j),  c = exp b

The sums over j are convolutions of each product of a feature and a value with c: O(T log T) time, but M·D columns of
memory. B batch, T time, H heads, M features, D value width.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from evaluation.benchmarks.bidirectional import WholePassage
from musicgen.attention.features import FeatureMap
from musicgen.attention.linear_attention import GUARD
from musicgen.model.block import Attention, Passage
from musicgen.model.config import ModelConfig

REACH = 512  # distances with a weight of their own; those further off share the last


def toeplitz_attend(fq: Tensor, fk: Tensor, v: Tensor, weights: Tensor) -> Tensor:
    """Attend with c by distance: fq, fk (B, T, H, M), v (B, T, H, D), c (H, 2T − 1) of −(T − 1) … T − 1."""
    y = _sums(fq, fk, functional.pad(v, (0, 1), value=1.0), weights)
    # FFTs leave rounding errors of the largest sum in the smallest, where the definition has none.
    return y[..., :-1] / y[..., -1:].clamp(min=GUARD)


def _sums(q: Tensor, k: Tensor, v: Tensor, weights: Tensor) -> Tensor:
    length = q.shape[1]
    products = torch.einsum("bthm,bthd->bhmdt", k, v)
    # On a circle of 2T places lag −l lies at 2T − l; place T, which no lag has, is empty.
    circle = torch.cat(
        [weights[:, length - 1 :], weights.new_zeros(len(weights), 1), weights[:, : length - 1]], 1
    )
    spectrum = torch.fft.rfft(products, 2 * length) * torch.fft.rfft(circle)[:, None, None]
    summed = torch.fft.irfft(spectrum, 2 * length)[..., :length]
    return torch.einsum("bthm,bhmdt->bthd", q, summed)


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
        whole = isinstance(passage, WholePassage)
        if whole and passage.present is not None:
            fk = fk * passage.present[..., None, None].to(fk.dtype)
        return toeplitz_attend(fq, fk, v, self.weights(x.shape[1], causal=not whole)), None
