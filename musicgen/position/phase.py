"""Phases of waves, exact at positions of any size, and the frequencies of waves in musical time."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from musicgen.position.base import Shape


def exact(x: Tensor) -> Tensor:
    """Return x in float64, on the CPU where its device knows no float64 (mps).

    What a frequency is derived from goes through here: a frequency rounded to float32 on one device
    and not on another is another wave at position 10⁶.
    """
    if x.device.type == "mps":
        x = x.cpu()  # first: a copy to float64 would be made over there
    return x.to(torch.float64)


def phases(frequencies: Tensor, places: Tensor, like: Tensor) -> Tensor:
    """Return 2π · frequency · place, less whole turns: cycles a token, or a tick, (...) at places (*) → (*, ...).

    Frequency × position is formed in float64 and wrapped to [0, 1) before it is rounded to the type
    of `like`, float32 at least: at position 10⁶ a float32 product is off by hundredths of a cycle.
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


# Frequencies in musical time: they start at harmonics of bars, down to sixteenths, and are learned from there.
#
# Waves of the harmonics n = 1 … 16 P of a period of P bars, added up, are a comb with a tooth at every multiple of
# the period, a sixteenth wide: the kernel [t ≡ s mod P] of a metric head (metre/heads.py). Heads take periods of 1,
# 2, 4 and 8 bars in turn, and as many of the harmonics as they have waves, spread evenly.
#
# What is learned is added in cycles of the longest period. A step of learning then moves a wave little over the bars
# that matter; in cycles a tick, the first hundred would blur the teeth.
#
# H heads.

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
