"""The attention weights that a linear model never forms, from its queries and keys, block by block.

Where the encoding acts before a feature map of the softmax kernel (or attention is softmax), the weights are those that
the features estimate, exp(q·k/√W), as in the SPE paper's pictures and probes. Where it acts after the feature map, or
the map is another, they are what the model computes: r^(i−j) φ(q_i)·φ(k_j).

H heads, T time, W width of queries and keys as attention multiplies them.
"""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from musicgen.common.learning import generator_from
from musicgen.config import needs_linear_attention
from musicgen.features import Favor
from musicgen.performer import Attention, Passage, Performer, State
from musicgen.position.base import PERIODS, MusicalFrequencies, waves
from musicgen.position.flt import Flt
from musicgen.position.spe.base import StochasticPosition

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
    after = needs_linear_attention(type(model.position))
    estimated = model.config.features_name == "favor" and not after
    return Sides(
        q=q,
        k=k,
        exponential=model.config.attention == "softmax" or estimated,
        decay=model.position.decay,
        normaliser=(own[0], own[1]) if own else None,
    )


# Pictures of attention: the templates that an encoding has learned, and where a model looks (figures 1 and 7 to 12).
#
# Attention maps are computed some queries at a time and shrunk at once, so that their memory is that of the picture.

BLOCK = 256  # queries at once
PIXELS = 384  # of a map's side, at most
SHOWN = 8  # templates drawn one by one
# The paper's scale of colour is min(1, (a / 0.02)^0.4) at 3072 positions; so equal weights look alike at any length.
FULL, FULL_LENGTH, GAMMA = 0.02, 3072, 0.4


def paper_layers(layers: int) -> list[int]:
    """Return which layers to look at, counted from 0: the paper's 1, 3, 12, 20, 24 of 24, or those in their places."""
    return sorted({round((layer - 1) / 23 * (layers - 1)) for layer in (1, 3, 12, 20, 24)})


@torch.inference_mode()
def attention_maps(
    model: Performer, pieces: Sequence[np.ndarray], layers: Sequence[int], seed: int = 0
) -> dict[str, Any]:
    """Return the colour of each pixel of the maps, the mean attention over pieces of one length on the paper's scale.

    The result holds "pixels", (layers, heads, P, P) packed bytes (`unpack`), and how many positions a pixel covers.
    """
    length = len(pieces[0])
    device = model.embedding.weight.device
    sides = [
        sides_of(model, torch.from_numpy(ids.astype(np.int64)).to(device), layers, seed + number)
        for number, ids in enumerate(pieces)
    ]
    side = -(-length // PIXELS)
    found = torch.zeros(len(layers), model.config.heads, *[-(-length // side)] * 2)
    reach = torch.zeros(len(layers), model.config.heads, length)
    rows, full = max(1, BLOCK // side) * side, min(1.0, FULL * FULL_LENGTH / length)
    for i, layer in enumerate(layers):
        for start in range(0, length, rows):
            queries = slice(start, min(start + rows, length))
            weights = torch.stack([one[layer].normalised(queries) for one in sides]).mean(0).cpu()
            colours = (weights.clamp(min=0) / full).pow(GAMMA).clamp(max=1)
            found[i, :, start // side : -(-queries.stop // side)] = _shrunk(colours, length, side)
            lags = torch.arange(queries.start, queries.stop)[:, None] - torch.arange(queries.stop)
            reach[i, :, queries] = (weights * lags.clamp(min=0)).sum(-1)
    return {
        "layers": list(layers),
        "length": length,
        "pieces": len(pieces),
        "pixel": side,
        "full": full,
        "pixels": pack((found * 255).round().byte().numpy()),
        "distance": _distances(reach.numpy()),
    }


def templates(
    model: Performer, length: int, layer: int = 0, seed: int = 0
) -> dict[str, Any] | None:
    """Return what an encoding has learned to weigh lags of 0 … length − 1 by; None if it learns no such thing.

    "all" is every template by head and feature, largest magnitude 1, as packed bytes of −1 … 1 (H, D, N); "shown" are
    some of them, and what the realisations of one draw make of them. In musical time lags are ticks, of which there are
    "bar" a bar, and the mean of all features of a head is shown: bars and beats are waves of many features together.
    """
    position, bar = model.position, None
    if position.musical:
        assert model.config.clock is not None, "who counts musical time has a clock"
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
    largest = found.abs().amax(-1, keepdim=True).clamp(min=1e-12)
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
        "all": pack(((found / largest) * 127).round().to(torch.int8).numpy()),
        "bar": bar,
        "shown": [[int(n // width), int(n % width)] for n in numbers] if bar is None else of_heads,
        "limit": shown(found),
        "realised": None if realised is None else shown(realised),
    }


def pack(array: np.ndarray) -> dict[str, Any]:
    """Return an array of bytes as plain data."""
    packed = base64.b64encode(zlib.compress(np.ascontiguousarray(array).tobytes(), 9))
    return {"shape": list(array.shape), "dtype": str(array.dtype), "bytes": packed.decode()}


def unpack(data: dict[str, Any]) -> np.ndarray:
    """Return the array of `pack`."""
    content = zlib.decompress(base64.b64decode(data["bytes"]))
    return np.frombuffer(content, dtype=data["dtype"]).reshape(data["shape"])


def _shrunk(colours: torch.Tensor, length: int, side: int) -> torch.Tensor:
    """Return the mean of each square of `side` positions: (H, rows, columns) → (H, rows / side, P)."""
    below = -colours.shape[1] % side
    right = -(-length // side) * side - colours.shape[2]
    colours = torch.nn.functional.pad(colours, (0, right, 0, below))
    return torch.nn.functional.avg_pool2d(colours, side)


def _distances(reach: np.ndarray) -> list[list[list[float]]]:
    """Return how far back attention looks on average, in tokens, by layer, head and 64th of the positions."""
    parts = np.array_split(reach, min(64, reach.shape[-1]), axis=-1)
    return np.stack([part.mean(-1) for part in parts], axis=-1).round(2).tolist()


@torch.inference_mode()
def _realised(position: StochasticPosition, length: int, layer: int, seed: int) -> torch.Tensor:
    """Return the products q̄_m k̄_0 / R of one draw, at lags m: (H, D, N)."""
    code = position.begin(generator_from(seed))
    slot = 0 if position.config.shared else layer
    q, k = position.materialise(code.noise[slot], slot, 0, length)  # (N, H, D, R) each
    scale = position.scale**2 * position.realisations
    found = torch.einsum("nhdr,hdr->hdn", q, k[0]) / scale
    return position.gate_template(found, layer)
