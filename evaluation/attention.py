"""Attention weights, which a linear model does not compute explicitly, from its queries and keys, block by block.

If the encoding is applied before a feature map of the softmax kernel (or attention is softmax), the weights are those
that the features approximate, exp(q·k/√W), as in the figures and probes of the SPE paper. If it is applied after the
feature map, or the feature map is another one, they are those that the model computes: r^(i−j) φ(q_i)·φ(k_j).

H: heads, T: time, W: width of queries and keys.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from musicgen.common.learning import generator_from
from musicgen.config import needs_linear_attention
from musicgen.features import Favor
from musicgen.performer import Attention, Passage, Performer, State
from musicgen.position.base import PERIODS, MusicalFrequencies, waves
from musicgen.position.flt import Flt
from musicgen.position.spe.base import StochasticPosition

WINDOW = 1024  # tokens per forward pass


@dataclass(frozen=True, kw_only=True)
class Sides:
    """Queries and keys of one layer and one sequence."""

    q: Tensor  # (H, T, W)
    k: Tensor  # (H, T, W)
    exponential: bool  # whether the weights are exp(q·k/√W) instead of q·k
    decay: Tensor | None  # r, (H,), of the encoding or of the model's horizons
    normaliser: (
        tuple[Tensor, Tensor] | None
    )  # separate features for the denominator, (H, T, ·) each

    def products(self, queries: Tensor) -> Tensor:
        """Return the unnormalised weights of some queries, or their logarithms if exponential: (H, queries, T)."""
        found = self.q[:, queries] @ self.k.mT
        if self.exponential:
            return found / math.sqrt(self.q.shape[-1]) + self._log_decays(queries)
        return found * self._decays(queries)

    def normalised(self, queries: Tensor) -> Tensor:
        """Return the causal attention of some queries, each row summing to 1: (H, queries, T)."""
        later = torch.arange(self.k.shape[1], device=self.k.device) > queries[:, None]
        products = self.products(queries)
        if self.exponential:
            return products.masked_fill(later, -math.inf).softmax(-1)
        weights = products.masked_fill(later, 0)
        total = weights
        if self.normaliser is not None:  # weights with positions may be negative, these are not
            own = self.normaliser[0][:, queries] @ self.normaliser[1].mT
            total = (own * self._decays(queries)).masked_fill(later, 0)
        return weights / total.sum(-1, keepdim=True)

    def _decays(self, queries: Tensor) -> Tensor:
        return torch.as_tensor(self._log_decays(queries)).exp()

    def _log_decays(self, queries: Tensor) -> Tensor | float:
        if self.decay is None:
            return 0.0
        lags = queries[:, None] - torch.arange(self.k.shape[1], device=self.k.device)
        return lags.clamp(min=0) * self.decay.float().log()[:, None, None]


@torch.inference_mode()
def sides_of(
    model: Performer, tokens: Tensor, layers: Sequence[int], seed: int = 0, pace: int | None = None
) -> dict[int, Sides]:
    """Return queries and keys of the given layers, counted from 0, for one sequence of tokens (T,).

    With `pace`, an encoding in musical time takes every token to last `pace` ticks.
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
    """Return queries and keys of a window, and those of the normaliser if it has its own: (T, H, ·) each."""
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
    after = needs_linear_attention(type(model.position))
    estimated = model.config.features_name == "favor" and not after
    return Sides(
        q=q,
        k=k,
        exponential=model.config.attention == "softmax" or estimated,
        decay=model.position.decay,
        normaliser=(own[0], own[1]) if own else None,
    )


# Data for figures: learned templates and attention maps (figures 1 and 7 to 12).
#
# Attention maps have evenly spaced queries, and keys averaged over as many positions.

PIXELS = 128  # side of a map, at most
SHOWN = 8  # templates to plot individually
# The paper's colour is min(1, (a / 0.02)^0.4) at 3072 positions; scaled, so that uniform attention always looks alike.
FULL, FULL_LENGTH, GAMMA = 0.02, 3072, 0.4


def paper_layers(layers: int) -> list[int]:
    """Return the layers to show, counted from 0: the paper's 1, 3, 12, 20, 24 of 24, scaled to the model's depth."""
    return sorted({round((layer - 1) / 23 * (layers - 1)) for layer in (1, 3, 12, 20, 24)})


@torch.inference_mode()
def attention_maps(
    model: Performer, pieces: Sequence[np.ndarray], layers: Sequence[int], seed: int = 0
) -> dict[str, Any]:
    """Return attention maps averaged over pieces of equal length, as colours 0 … 255 on the paper's scale.

    "pixels" are (layers, heads, P, P); "pixel" is the number of positions that each covers.
    """
    length, device = len(pieces[0]), model.embedding.weight.device
    sides = [
        sides_of(model, torch.from_numpy(ids.astype(np.int64)).to(device), layers, seed + number)
        for number, ids in enumerate(pieces)
    ]
    pixel = -(-length // PIXELS)
    queries = torch.arange(0, length, pixel, device=device)
    full = min(1.0, FULL * FULL_LENGTH / length)
    maps = []
    for layer in layers:
        weights = torch.stack([one[layer].normalised(queries) for one in sides]).mean(0).cpu()
        colours = (weights.clamp(min=0) / full).pow(GAMMA).clamp(max=1)
        padded = functional.pad(colours, (0, len(queries) * pixel - length))
        maps.append((padded.unflatten(-1, (-1, pixel)).mean(-1) * 255).round().byte().tolist())
    return {
        "layers": list(layers),
        "length": length,
        "pieces": len(pieces),
        "pixel": pixel,
        "full": full,
        "pixels": maps,
    }


def templates(
    model: Performer, length: int, layer: int = 0, seed: int = 0
) -> dict[str, Any] | None:
    """Return the weights that an encoding has learned for lags 0 … length − 1; None for encodings without templates.

    "limit" has those listed in "shown", and "realised" their approximation by one realisation of the noise. In musical
    time, lags are in ticks ("bar" is ticks per bar), and templates are averaged over the features of a head, because
    bars and beats emerge only from the sum of many waves.
    """
    position, bar = model.position, None
    if position.musical:
        assert model.config.clock is not None, "musical time requires a clock"
        bar = model.config.clock.bar_ticks
        length = max(PERIODS) * bar
    lags = torch.arange(length, device=model.embedding.weight.device)
    with torch.no_grad():
        if isinstance(position, Flt):
            found = cast(Any, position).mask(lags.float())[:, None]  # (H, 1, N)
        elif isinstance(position, StochasticPosition):
            found = cast(Any, position).template(lags, layer)
        elif isinstance(learned := getattr(position, "learned", None), MusicalFrequencies):
            found = waves(learned(), lags, like=learned.offsets)[0].movedim(0, -1)  # (H, D, N)
        else:
            return None
    heads, width = found.shape[:2]
    numbers = np.linspace(0, heads * width - 1, min(SHOWN, heads * width)).round().astype(int)
    realised = None
    if isinstance(position, StochasticPosition):
        realised = _realised(position, length, layer, seed)

    def shown(values: torch.Tensor) -> list[list[float]]:
        chosen = values.flatten(0, 1)[numbers] if bar is None else values.mean(1)[:SHOWN]
        return chosen.tolist()

    of_heads = [[head, None] for head in range(min(SHOWN, heads))]
    return {
        "layer": layer,
        "length": length,
        "heads": heads,
        "features": width,
        "realisations": getattr(position, "realisations", None),
        "bar": bar,
        "shown": [[int(n // width), int(n % width)] for n in numbers] if bar is None else of_heads,
        "limit": shown(found),
        "realised": None if realised is None else shown(realised),
    }


@torch.inference_mode()
def _realised(position: StochasticPosition, length: int, layer: int, seed: int) -> torch.Tensor:
    """Return the products q̄_m k̄_0 / R of one realisation of the noise at lags m: (H, D, N)."""
    code = position.begin(generator_from(seed))
    slot = 0 if position.config.shared else layer
    q, k = position.materialise(code.noise[slot], slot, 0, length)  # (N, H, D, R) each
    scale = position.scale**2 * position.realisations
    found = torch.einsum("nhdr,hdr->hdn", q, k[0]) / scale
    return position.gate_template(found, layer)
