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
from musicgen.features import Favor
from musicgen.performer import Attention, Passage, Performer
from musicgen.position.base import PERIODS, MusicalFrequencies, phases, waves
from musicgen.position.flt import Flt
from musicgen.position.spe.base import StochasticPosition
from musicgen.position.spe.convolutional import ConvSpe, filtered
from musicgen.position.spe.sine import SineSpe


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
    start = model.start(generator_from(seed))
    passage, after = model.passage(tokens[None], start)
    if pace is not None and model.position.musical:
        ticks = pace * torch.arange(len(tokens) + 1, device=tokens.device)
        times = torch.stack([ticks[None, 1:], ticks[None, :-1]])  # after and before each token
        code = model.position.cover(start.code, 0, after.position, times)
        passage = replace(passage, code=code)
    x = model.embed(tokens[None], passage)
    found = {}
    for layer in range(max(layers) + 1):
        block: Any = model.blocks[layer]
        if layer in layers:
            inputs = block.attention_norm(x) if block.pre else x
            found[layer] = _sides(block.attention, inputs, passage.of_layer(layer))
        if layer < max(layers):
            x, _ = block(x, passage.of_layer(layer), None)
    return found


def _sides(attention: Attention, x: Tensor, passage: Passage) -> Sides:
    """Return queries and keys of a layer, and those of the normaliser if it has its own."""
    position, code = passage.position, passage.code
    q, k, _ = attention.qkv(x).unflatten(-1, (3, attention.heads, -1)).unbind(2)
    sides = position.qk(q, k, code)
    features = attention.features
    estimated = isinstance(features, Favor) and not position.config.needs_linear_attention
    own = ()
    if features is not None and not estimated:
        fq, fk = features.queries(sides[0]), features.keys(sides[1])
        sides = position.features(fq, fk, code)
        own = () if position.normaliser_is_positioned else (fq, fk)
    q, k, *own = (side[0].transpose(0, 1).float() for side in (*sides, *own))
    return Sides(
        q=q,
        k=k,
        exponential=features is None or estimated,
        decay=position.decay,
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
            found = template(position, lags, layer)
        elif isinstance(learned := getattr(position, "learned", None), MusicalFrequencies):
            found = waves(learned(), lags, like=learned.offsets)[0].movedim(0, -1)  # (H, D, N)
        else:
            return None
    kept = [found]
    if isinstance(position, StochasticPosition):
        kept.append(_realised(position, length, layer, seed))
    if bar is not None:
        kept = [values.mean(1, keepdim=True) for values in kept]
    heads, width = kept[0].shape[:2]
    numbers = np.linspace(0, heads * width - 1, min(SHOWN, heads * width)).round().astype(int)
    limit, *realised = [values.flatten(0, 1)[numbers].tolist() for values in kept]
    return {
        "layer": layer,
        "length": length,
        "realisations": getattr(position, "realisations", None),
        "bar": bar,
        "shown": [[int(n // width), int(n % width)] for n in numbers],  # heads and features
        "limit": limit,
        "realised": realised[0] if realised else None,
    }


@torch.inference_mode()
def _realised(position: StochasticPosition, length: int, layer: int, seed: int) -> torch.Tensor:
    """Return the products q̄_m k̄_0 / R of one realisation of the noise at lags m: (H, D, N)."""
    code = position.begin(generator_from(seed))
    slot = 0 if position.config.shared else layer
    q, k = code_sides(position, code.noise[slot], slot, 0, length)  # (N, H, D, R) each
    scale = position.scale**2 * position.realisations
    found = torch.einsum("nhdr,hdr->hdn", q, k[0]) / scale
    return _gated(position, found, layer)


# The templates that stochastic encodings realise, in closed form, and their codes as tensors.
#
# D head width, K sines, P taps, R realisations, N lags.


def template(position: StochasticPosition, lags: Tensor, layer: int = 0) -> Tensor:
    """Return the template that a layer realises at lags m − n, gate included: (N,) → (H, D, N)."""
    slot, of = 0 if position.config.shared else layer, cast(Any, position)
    if isinstance(position, SineSpe):
        waves_of_slot = of.frequencies[slot].to(of.gains), of.offsets[slot], of.gains[slot]
        found = sine_template(*waves_of_slot, lags) / (2 * of.config.sines)
    else:
        taps = of.config.taps
        of_queries, of_keys = torch.fft.rfft(of.filters[slot], 2 * taps)
        # Σ_p filter_q[p] filter_k[p + lag]: (H, D, 2P), negative lags last
        correlation = torch.fft.irfft(of_keys * of_queries.conj(), 2 * taps)
        found = correlation[..., lags % (2 * taps)] * (lags.abs() < taps)
    return _gated(position, found, layer)


def sine_template(frequencies: Tensor, offsets: Tensor, gains: Tensor, lags: Tensor) -> Tensor:
    """Return P_d at the given lags by equation 18 of SPE: (..., K) each and (N,) → (..., N)."""
    angles = 2 * math.pi * frequencies.unsqueeze(-1) * lags + offsets.unsqueeze(-1)  # (..., K, N)
    return (gains.square().unsqueeze(-1) * angles.cos()).sum(-2)


def _gated(position: StochasticPosition, ungated: Tensor, layer: int) -> Tensor:
    """Return a layer's gated template δ + (1 − δ) P (equation 23): (H, D, N) → (H, D, N)."""
    if not position.config.gated:
        return ungated
    gate = torch.sigmoid(position.gates[layer]).unsqueeze(-1)
    return gate + (1 - gate) * ungated


def code_sides(
    position: StochasticPosition, noise: Any, slot: int, start: int, stop: int
) -> tuple[Tensor, Tensor]:
    """Return q̄ and k̄ of a few positions, scaled, in the parameters' type: (T, H, D, R) each."""
    of = cast(Any, position)
    if isinstance(position, ConvSpe):
        filters = of.filters[slot] * of.scale
        q, k = filtered(filters, noise, start, stop, of.filters.dtype).unbind()
        return q, k
    places = torch.arange(start, stop)
    angles = phases(of.frequencies[slot], places, of.raw_gains)  # (T, H, D, K)
    angles = torch.stack([angles + of.offsets[slot], angles], 1)  # (T, 2, H, D, K)
    gains = of.gains[slot] * of.amplitude
    both = torch.stack([angles.cos() * gains, angles.sin() * gains], -1)  # Ω(f, ·) λ
    code = torch.einsum("tshdw,hdwr->tshdr", both.flatten(-2), noise.to(both.dtype))
    q, k = code.to(of.raw_gains.dtype).unbind(1)
    return q, k
