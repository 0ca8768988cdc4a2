"""Frequencies in musical time: they start at harmonics of bars, down to sixteenths, and are learned from there.

Waves of the harmonics n = 1 … 16 P of a period of P bars, added up, are a comb with a tooth at every multiple of the
period, a sixteenth wide: the kernel [t ≡ s mod P] of a metric head (metre/rows.py). Heads take periods of 1, 2, 4 and 8
bars in turn, and as many of the harmonics as they have waves, spread evenly.

What is learned is added in cycles of the longest period. A step of learning then moves a wave little over the bars that
matter; in cycles a tick, the first hundred would blur the teeth.

H heads.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from musicgen.position.base import Shape
from musicgen.position.phase import exact

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
