"""Pictures of attention: the templates that an encoding has learned, and where a model looks (figures 1 and 7 to 12).

Attention maps are computed some queries at a time and shrunk at once, so that their memory is that of the picture.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch

from evaluation.attention import sides_of
from musicgen.common.learning import generator_from
from musicgen.model.performer import Performer
from musicgen.position.flt import Flt
from musicgen.position.musical import PERIODS, MusicalFrequencies
from musicgen.position.phase import waves
from musicgen.position.spe.base import StochasticPosition

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
