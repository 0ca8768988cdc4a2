"""The contract of a positional encoding: hooks, all identity here, which is the encoding `none`.

B batch, T time, H heads, D head width, M features, C model width, L layers.

One encoding serves all layers. What differs between layers (a gate, say) it holds with a leading L. A forward pass runs

    code = position.begin(generator)             once a training batch or a generated sequence
    code = position.cover(code, start, stop)     once a forward pass, then kept for the next one
    x = position.embed(x, start)                 once, after the token embedding
    q, k = position.qk(q, k, code, start, layer)             in each layer, before the feature map
    fq, fk = position.features(fq, fk, code, start, layer)   in each layer, after the feature map

`start` is the position of the first of the T tokens: t for one generated token (T = 1), 0 for a whole sequence. Where
the encoding counts musical time (`time: music`), `cover` is given the time of each row's tokens as well. No hook takes
a statistic over time. What is costly and equal in all layers (tables of sines, permuted indices) belongs in `cover`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor, nn


def exact(x: Tensor) -> Tensor:
    """Return x in float64, on the CPU where its device knows no float64 (mps).

    A frequency rounded to float32 is another wave at position 10⁶.
    """
    if x.device.type == "mps":
        x = x.cpu()
    return x.to(torch.float64)


def phases(frequencies: Tensor, places: Tensor, like: Tensor) -> Tensor:
    """Return 2π · frequency · place, less whole turns: cycles a token, or a tick, (...) at places (*) → (*, ...).

    Formed in float64 and wrapped to [0, 1) before it is rounded to the type of `like`, float32 at least.
    """
    frequencies = exact(frequencies)
    places = exact(places).to(frequencies.device)
    cycles = places.view(*places.shape, *[1] * frequencies.ndim) * frequencies
    wrapped = cycles - cycles.floor()
    return wrapped.to(like.device, torch.promote_types(like.dtype, torch.float32)) * (2 * math.pi)


def waves(frequencies: Tensor, places: Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
    """Return cosine and sine of the phases, each in their shape."""
    angles = phases(frequencies, places, like)
    return angles.cos(), angles.sin()


def geometric(count: int, width: int, base: float = 10_000.0) -> Tensor:
    """Return the angles a token base^(−2t/width), t = 0 … count − 1 (Vaswani et al., 2017)."""
    return torch.exp(torch.arange(count) * (-2 * math.log(base) / width))


# Frequencies in musical time are learned from harmonics of bars, down to sixteenths.
#
# Waves of the harmonics n = 1 … 16 P of a period of P bars, added up, are a comb with a tooth at every multiple of the
# period, a sixteenth wide: the kernel [t ≡ s mod P] of a metric head (metre.py). Heads take periods of 1, 2, 4 and 8
# bars in turn, and as many of the harmonics as they have waves, spread evenly. What is learned is added in cycles of
# the longest period: in cycles a tick, the first hundred steps would blur the teeth.

PERIODS = (1, 2, 4, 8)  # bars, head by head
FINEST = 16  # waves a bar
# Its multiples, less whole turns, are spread evenly however many there are.
_GOLDEN = (math.sqrt(5) - 1) / 2


class MusicalFrequencies(nn.Module):
    """Cycles a tick, (H, *), or (S, H, *) where slots are given, in float64."""

    harmonics: Tensor  # whole numbers, as no change of type rounds those
    period: Tensor  # ticks, (H, 1 …)

    def __init__(self, shape: Shape, *waves: int, slots: tuple[int, ...] = ()) -> None:
        super().__init__()
        bar = shape.bar_ticks
        assert bar is not None, "who counts musical time has a clock; ModelConfig sees to it"
        self.phrase = max(PERIODS) * bar
        bars = torch.tensor([PERIODS[head % len(PERIODS)] for head in range(shape.heads)])
        turns = torch.arange(1, math.prod(waves) + 1, dtype=torch.float64) * _GOLDEN % 1
        most = bars * max(1, min(FINEST, bar // 2))
        harmonics = 1 + (turns * most.unsqueeze(1)).long()  # (H, ·)
        self.register_buffer("harmonics", harmonics.unflatten(1, waves), persistent=False)
        period = (bars * bar).view(-1, *[1] * len(waves))
        self.register_buffer("period", period, persistent=False)
        self.offsets = nn.Parameter(torch.zeros(*slots, shape.heads, *waves))

    def forward(self) -> Tensor:
        """Return the frequencies, derived in float64."""
        first = exact(self.harmonics) / exact(self.period)
        return first + exact(self.offsets) / self.phrase


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The sizes of the model that an encoding is built for."""

    layers: int
    heads: int
    head_width: int  # D
    width: int  # C
    features: int  # M, after a feature map of head_width; for encodings with a `features` hook
    horizons: tuple[float, ...] | None = None  # tokens the heads remember: shortest, longest
    bar_ticks: int | None = None  # of the language's clock; only encodings in musical time use it


@dataclass(frozen=True, kw_only=True)
class Window:
    """What `cover` made ready: tensors with a row a position, the first being that of `start`."""

    start: int
    rows: tuple[Tensor, ...]  # (T, ...) each; in musical time (2, B, T, ...), or (B, T, ...)
    axis: int = 0  # that of T

    def at(self, start: int, length: int) -> tuple[Tensor, ...]:
        """Return the rows of `length` positions from `start`."""
        first = start - self.start
        covered = self.rows[0].shape[self.axis]
        if first < 0 or first + length > covered:
            raise IndexError(
                f"positions {start} … {start + length - 1} are asked for, but `cover` made "
                f"{self.start} … {self.start + covered - 1} ready"
            )
        whole = length == covered
        return self.rows if whole else tuple(r.narrow(self.axis, first, length) for r in self.rows)


@dataclass(frozen=True, kw_only=True)
class NoneConfig:
    """No positional encoding: order is known only through causality."""


def ratios(horizons: tuple[float, ...], heads: int) -> Tensor:
    """Return 1 − 1/h a head, (H,), for horizons h from the shortest to the longest in equal ratios.

    The past weighs so much at each step, which sums to h tokens (RetNet: Sun et al. 2023, section 2.2).
    """
    shortest, longest = (torch.tensor(h, dtype=torch.float64).log() for h in horizons)
    places = torch.linspace(0, 1, heads, dtype=torch.float64)
    return (1 - torch.exp(-(shortest + (longest - shortest) * places))).float()


class Position(nn.Module):
    """Leave everything as it is: the base of every encoding, and the encoding `none`."""

    # Whether attention's denominator is computed from the positioned features, as its numerator is; else, where those
    # may be negative, from the features before.
    normaliser_is_positioned: bool = True
    # Whether it means what it says only where attention weights are, or estimate, exp(q·k/√W).
    wants_softmax_kernel: bool = False
    forgetting: Tensor | None

    def __init__(self, config: Any, shape: Shape) -> None:
        super().__init__()
        self.config = config
        self.shape = shape
        forgetting = None if shape.horizons is None else ratios(shape.horizons, shape.heads)
        self.register_buffer("forgetting", forgetting, persistent=False)

    @property
    def musical(self) -> bool:
        """Whether a token's place is its musical time, which `cover` then needs to be given, and not its number."""
        return getattr(self.config, "time", "tokens") == "music"

    def places(self, start: int, stop: int, times: Tensor | None) -> Tensor:
        """Return where the tokens of a window stand: (T,) numbers, or the times (2, B, T), queries' and keys'."""
        if not self.musical:
            return torch.arange(start, stop)
        assert times is not None, "an encoding in musical time is given the times"
        return times

    @property
    def qk_width(self) -> int:
        """Width of queries and keys after `qk`, which the feature map is built for."""
        return self.shape.head_width

    @property
    def decay(self) -> Tensor | None:
        """Factor in (0, 1] by which a head forgets its past at each step, (H,), or None.

        The model's `horizons` set it for any encoding.
        """
        return self.forgetting

    def begin(self, generator: Generator) -> Any:
        """Draw what one sequence needs (noise, say); a batch and all layers share it."""
        return None

    def cover(self, code: Any, start: int, stop: int, times: Tensor | None = None) -> Any:
        """Return the code made ready for positions start … stop − 1; earlier ones may be forgotten.

        `times` are musical, (2, B, T) in ticks: a query stands at the time after its token, where the next one is
        going to be, and a key at the time before its own. Only an encoding that is `musical` looks at them.

        A position gets the same numbers in any window, memory is bounded by the window, and the code that was given
        stays unchanged.
        """
        return self.window(self.places(start, stop, times), start)

    def window(self, places: Tensor, start: int) -> Any:
        """Return what `cover` makes of places, where nothing is drawn: (T,), (1, B, T) or (2, B, T)."""
        return None

    def check(self, stop: int) -> None:
        """Refuse a sequence of so many tokens, if there is a limit."""

    def embed(self, x: Tensor, start: int | Tensor) -> Tensor:
        """Position the embeddings (absolute encodings), (B, T, C) → (B, T, C); rows may start apart, (B, 1)."""
        return x

    def qk(self, q: Tensor, k: Tensor, code: Any, start: int, layer: int) -> tuple[Tensor, Tensor]:
        """Position queries and keys before the feature map: (B, T, H, D) → (B, T, H, qk_width)."""
        return q, k

    def of_layer(self, code: Any, layer: int) -> tuple[Any, int]:
        """Return what the hooks of one layer need of a code, and the number by which they find it there.

        Where that is 0 for all layers, a compiler that sees only these needs to compile one layer.
        """
        return code, 0

    def features(
        self, fq: Tensor, fk: Tensor, code: Any, start: int, layer: int
    ) -> tuple[Tensor, Tensor]:
        """Position the features after the feature map: (B, T, H, M) → (B, T, H, M')."""
        return fq, fk
