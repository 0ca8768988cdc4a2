"""The interface of a positional encoding. All hooks are the identity here, which is the encoding `none`.

B batch, T time, H heads, D head width, M features, C model width, L layers.

One encoding serves all layers; parameters that differ between layers (a gate, say) have a leading dimension L. A
forward pass runs

    code = position.begin(generator)             once per training batch or generated sequence
    code = position.cover(code, start, stop)     once per forward pass, and passed on to the next one
    x = position.embed(x, start)                 once, after the token embedding
    own = position.of_layer(code, layer)         in each layer: the part of the code that it needs
    q, k = position.qk(q, k, own)                in each layer, before the feature map
    fq, fk = position.features(fq, fk, own)      in each layer, after the feature map

`start` is the position of the first of the T tokens: t for one generated token (T = 1), 0 for a whole sequence. If the
encoding counts musical time (`time: music`), `cover` also takes the times of each row's tokens. No hook may compute a
statistic over time. Whatever is costly and the same in all layers (tables of sines, permuted indices) belongs in
`cover`.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Generator, Tensor, nn

from musicgen.parts import PERIODS, Shape, musical_harmonics


def as_float64(x: Tensor) -> Tensor:
    """Return x in float64, moved to the CPU if its device lacks float64 (mps).

    Rounded to float32, a frequency would give a different wave at position 10⁶.
    """
    if x.device.type == "mps":
        x = x.cpu()
    return x.to(torch.float64)


def phases(frequencies: Tensor, places: Tensor, like: Tensor) -> Tensor:
    """Return 2π · frequency · place modulo 2π, from cycles per token or tick, (...), at places (*) → (*, ...).

    Computed in float64 and wrapped before it is rounded to the type of `like`, at least float32.
    """
    frequencies = as_float64(frequencies)
    places = as_float64(places).to(frequencies.device)
    cycles = places.view(*places.shape, *[1] * frequencies.ndim) * frequencies
    wrapped = cycles - cycles.floor()
    return wrapped.to(like.device, torch.promote_types(like.dtype, torch.float32)) * (2 * math.pi)


def waves(frequencies: Tensor, places: Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
    """Return the cosine and sine of the phases."""
    angles = phases(frequencies, places, like)
    return angles.cos(), angles.sin()


def geometric(count: int, width: int, base: float = 10_000.0) -> Tensor:
    """Return angles per token, base^(−2t/width) for t = 0 … count − 1 (Vaswani et al., 2017)."""
    return torch.exp(torch.arange(count) * (-2 * math.log(base) / width))


class MusicalFrequencies(nn.Module):
    """Learned frequencies in cycles per tick: (H, *waves), or (*slots, H, *waves) if slots are given."""

    harmonics: Tensor  # integers, which no change of type rounds
    period: Tensor  # ticks, (H, 1 …)

    def __init__(self, shape: Shape, *waves: int, slots: tuple[int, ...] = ()) -> None:
        super().__init__()
        bar = shape.bar_ticks
        assert bar is not None, "musical time needs a clock; ModelConfig checks this"
        self.phrase = max(PERIODS) * bar
        harmonics, period = musical_harmonics(bar, shape.heads, math.prod(waves))
        self.register_buffer(
            "harmonics", torch.from_numpy(harmonics).unflatten(1, waves), persistent=False
        )
        by_head = torch.from_numpy(period).view(-1, *[1] * len(waves))
        self.register_buffer("period", by_head, persistent=False)
        self.offsets = nn.Parameter(torch.zeros(*slots, shape.heads, *waves))

    def forward(self) -> Tensor:
        """Return the frequencies in float64."""
        first = as_float64(self.harmonics) / as_float64(self.period)
        return first + as_float64(self.offsets) / self.phrase


def horizon_decays(horizons: tuple[float, ...], heads: int) -> Tensor:
    """Return the decay 1 − 1/h of each head, (H,), for horizons h spaced geometrically from shortest to longest.

    The weights of the whole past then sum to h (RetNet: Sun et al. 2023, section 2.2).
    """
    shortest, longest = (torch.tensor(h, dtype=torch.float64).log() for h in horizons)
    places = torch.linspace(0, 1, heads, dtype=torch.float64)
    return (1 - torch.exp(-(shortest + (longest - shortest) * places))).float()


class Position(nn.Module):
    """The base class of all positional encodings, and the encoding `none`."""

    # Whether the denominator of attention is computed from the encoded features, like the numerator. If these can be
    # negative, it is computed from the features before encoding.
    normaliser_is_positioned: bool = True
    fixed_decay: Tensor | None

    def __init__(self, config: Any, shape: Shape) -> None:
        super().__init__()
        self.config = config
        self.shape = shape
        decay = None if shape.horizons is None else horizon_decays(shape.horizons, shape.heads)
        self.register_buffer("fixed_decay", decay, persistent=False)

    @property
    def musical(self) -> bool:
        """Whether places are musical times, which `cover` then requires, instead of token numbers."""
        return self.config.musical

    def places(self, start: int, stop: int, times: Tensor | None) -> Tensor:
        """Return the places of a window's tokens: their numbers, (T,), or the times of queries and keys, (2, B, T)."""
        if not self.musical:
            return torch.arange(start, stop)
        assert times is not None, "an encoding in musical time needs the times"
        return times

    @property
    def qk_width(self) -> int:
        """Width of queries and keys after `qk`, the input width of the feature map."""
        return self.shape.head_width

    @property
    def decay(self) -> Tensor | None:
        """The decay r in (0, 1] of each head's past per token, (H,), or None.

        The model's `horizons` fix it for any encoding; without them, an encoding can have its own.
        """
        return self.fixed_decay

    def begin(self, generator: Generator) -> Any:
        """Draw the code of a sequence (noise, say), which a batch and all layers share."""
        return None

    def cover(self, code: Any, start: int, stop: int, times: Tensor | None = None) -> Any:
        """Return the code prepared for positions start … stop − 1; it may drop earlier positions.

        `times` are musical, (2, B, T) in ticks: a query is at the time after its token, where the next token starts,
        and a key at the time before its own. Encodings that are not `musical` ignore them.

        Implementations must give a position the same numbers in any window, bound their memory by the window, and leave
        the given code unchanged.
        """
        return self.window(self.places(start, stop, times))

    def window(self, places: Tensor) -> Any:
        """Return the covered code of an encoding that draws nothing, for places (T,) or (2, B, T)."""
        return None

    def embed(self, x: Tensor, start: int) -> Tensor:
        """Encode the embeddings (absolute encodings), (B, T, C) → (B, T, C)."""
        return x

    def of_layer(self, code: Any, layer: int) -> Any:
        """Return what the hooks of one layer need of a covered code.

        If it differs only in tensors, torch.compile compiles a single layer for all of them.
        """
        return code

    def qk(self, q: Tensor, k: Tensor, code: Any) -> tuple[Tensor, Tensor]:
        """Encode queries and keys before the feature map: (B, T, H, D) → (B, T, H, qk_width)."""
        return q, k

    def features(self, fq: Tensor, fk: Tensor, code: Any) -> tuple[Tensor, Tensor]:
        """Encode the features after the feature map: (B, T, H, M) → (B, T, H, M')."""
        return fq, fk
