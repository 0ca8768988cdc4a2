"""What models that learn need, of music or of a benchmark: seeds, learning rates, and which parameters decay."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from torch import Generator, Tensor


def seed_of(*parts: int) -> int:
    """Return one seed for a tuple of numbers."""
    return int(np.random.SeedSequence(parts).generate_state(1, np.uint64)[0] >> 1)


def generator_of(*purpose: int) -> Generator:
    """Return the generator of a purpose, on the CPU."""
    return Generator().manual_seed(seed_of(*purpose))


def generator_from(seed: int) -> Generator:
    """Return the generator of a seed that a person gives, on the CPU, where torch takes 32 bits: of more, all count."""
    return Generator().manual_seed(int(seed) if seed < 1 << 32 else seed_of(seed) & 0xFFFFFFFF)


def learning_rate(step: int, *, peak: float, floor: float, warmup: int, total: int) -> float:
    """Fall from `peak`, once it is warm, to `floor` along half a cosine."""
    progress = min(1.0, (step - warmup) / max(1, total - warmup))
    return floor + (peak - floor) * (1 + math.cos(math.pi * progress)) / 2


def held_rate(step: int, *, peak: float, floor: float, total: int | None, tail: float) -> float:
    """Stay at `peak`, and fall linearly to `floor` over the last share of `total` steps; without a total, stay."""
    if total is None or tail == 0:
        return peak
    left = (total - 1 - step) / max(1.0, tail * total)  # 0 at the last step
    return floor + (peak - floor) * min(1.0, max(0.0, left))


def decayed(parameters: Iterable[Tensor], weight_decay: float) -> list[dict[str, Any]]:
    """Return the groups of an optimiser's parameters: matrices decay, the rest does not."""
    every = [*parameters]
    return [
        {"params": [p for p in every if p.ndim > 1], "weight_decay": weight_decay},
        {"params": [p for p in every if p.ndim <= 1], "weight_decay": 0.0},
    ]
