"""The attention weights that a linear model never forms, from its queries and keys, block by block.

Where the encoding acts before a feature map of the softmax kernel (or attention is softmax), the weights are those that
the features estimate, exp(q·k/√W), as in the SPE paper's pictures and probes. Where it acts after the feature map, or
the map is another, they are what the model computes: r^(i−j) φ(q_i)·φ(k_j).

H heads, T time, W width of queries and keys as attention multiplies them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from musicgen.attention.features import Favor
from musicgen.common.learning import generator_from
from musicgen.model.block import Attention, Passage
from musicgen.model.config import needs_linear_attention
from musicgen.model.performer import Performer, State

WINDOW = 1024  # tokens that pass the layers at once


@dataclass(frozen=True, kw_only=True)
class Sides:
    """Queries and keys of one layer and one sequence."""

    q: Tensor  # (H, T, W)
    k: Tensor  # (H, T, W)
    exponential: bool  # the weights are exp(q·k/√W), else q·k
    decay: Tensor | None  # r, (H,): the encoding's own, or that of the model's horizons
    normaliser: tuple[Tensor, Tensor] | None  # other features for the denominator, (H, T, ·) each

    def products(self, rows: slice, columns: slice) -> Tensor:
        """Return what the weights are made of, (H, rows, columns): logarithms where exponential, else themselves."""
        found = self.q[:, rows] @ self.k[:, columns].mT
        if self.exponential:
            return found / math.sqrt(self.q.shape[-1]) + self._log_decays(rows, columns)
        return found * self._decays(rows, columns)

    def normalised(self, rows: slice) -> Tensor:
        """Return what some queries give to all keys up to the last: (H, rows, rows.stop), each row summing to 1."""
        columns = slice(0, rows.stop)
        products = self.products(rows, columns)
        later = torch.ones(products.shape[1:], dtype=torch.bool, device=products.device)
        later = later.triu(1 + rows.start)
        if self.exponential:
            return products.masked_fill(later, -math.inf).softmax(-1)
        weights = products.masked_fill(later, 0)
        total = weights
        if self.normaliser is not None:  # the positioned weights may be negative; these are not
            own = self.normaliser[0][:, rows] @ self.normaliser[1][:, columns].mT
            total = (own * self._decays(rows, columns)).masked_fill(later, 0)
        return weights / total.sum(-1, keepdim=True)

    def _decays(self, rows: slice, columns: slice) -> Tensor:
        return torch.as_tensor(self._log_decays(rows, columns)).exp()

    def _log_decays(self, rows: slice, columns: slice) -> Tensor | float:
        if self.decay is None:
            return 0.0
        i, j = (torch.arange(s.start, s.stop, device=self.q.device) for s in (rows, columns))
        lags = (i[:, None] - j).clamp(min=0)
        return lags * self.decay.float().log()[:, None, None]


@torch.inference_mode()
def sides_of(
    model: Performer, tokens: Tensor, layers: Sequence[int], seed: int = 0, pace: int | None = None
) -> dict[int, Sides]:
    """Return queries and keys of the given layers, counted from 0, for one sequence: tokens (T,).

    An encoding in musical time hears from the tokens what time it is, or is told that each takes `pace` ticks.
    """
    at = model.start(generator_from(seed))
    states: list[Any] = [None] * (max(layers) + 1)
    parts: dict[int, list[tuple[Tensor, ...]]] = {layer: [] for layer in layers}
    for start in range(0, len(tokens), WINDOW):
        window = tokens[None, start : start + WINDOW]
        passage, at = _passage(model, window, at, pace)
        x = model.embed(window, passage)
        for layer in range(len(states)):
            block: Any = model.blocks[layer]
            if layer in parts:
                inputs = block.attention_norm(x) if block.pre else x
                parts[layer].append(_sides(block.attention, inputs, passage))
            if layer + 1 < len(states):
                x, states[layer] = block(x, passage, states[layer])
    return {layer: _joined(found, model) for layer, found in parts.items()}


def estimates_softmax(model: Performer) -> bool:
    """Tell whether the model's weights are, or estimate, the exponentials of products."""
    if model.config.attention == "softmax":
        return True
    after = needs_linear_attention(type(model.position))
    return model.config.features_name == "favor" and not after


def _passage(
    model: Performer, window: Tensor, at: State, pace: int | None
) -> tuple[Passage, State]:
    passage, after = model.passage(window, at)
    if pace is None or not model.position.musical:
        return passage, after
    ticks = pace * torch.arange(at.position, after.position + 1, device=window.device)
    times = torch.stack([ticks[None, 1:], ticks[None, :-1]])  # after and before each token
    code = model.position.cover(at.code, at.position, after.position, times)
    return replace(passage, code=code), replace(after, code=code)


def _sides(attention: Attention, x: Tensor, passage: Passage) -> tuple[Tensor, ...]:
    """Return queries and keys of a window, and those of the normaliser where it has its own: (T, H, ·) each."""
    position, code, start = passage.position, passage.code, passage.start
    q, k, _ = attention.qkv(x).unflatten(-1, (3, attention.heads, -1)).unbind(2)
    q, k = position.qk(q, k, code, start, attention.layer)
    features = attention.features
    if features is None:
        return q[0], k[0]
    after = needs_linear_attention(type(position))
    if isinstance(features, Favor) and not after:
        return q[0], k[0]
    fq, fk = features.queries(q), features.keys(k)
    placed = position.features(fq, fk, code, start, attention.layer)
    own = () if position.normaliser_is_positioned else (fq, fk)
    return tuple(side[0] for side in (*placed, *own))


def _joined(parts: list[tuple[Tensor, ...]], model: Performer) -> Sides:
    q, k, *own = (torch.cat(side).transpose(0, 1).float() for side in zip(*parts, strict=True))
    return Sides(
        q=q,
        k=k,
        exponential=estimates_softmax(model),
        decay=model.position.decay,
        normaliser=(own[0], own[1]) if own else None,
    )
