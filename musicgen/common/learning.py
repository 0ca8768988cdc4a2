"""Seeds, learning rate schedules and weight decay, for music models and benchmarks alike."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from torch import Generator, Tensor


def seed_of(*parts: int) -> int:
    """Hash numbers to one seed."""
    return int(np.random.SeedSequence(parts).generate_state(1, np.uint64)[0] >> 1)


def generator_of(*purpose: int) -> Generator:
    """Return a CPU generator with a seed hashed from numbers that identify its purpose."""
    return Generator().manual_seed(seed_of(*purpose))


def generator_from(seed: int) -> Generator:
    """Return a CPU generator with a user's seed, hashed if it has more than the 32 bits that torch uses."""
    return Generator().manual_seed(int(seed) if seed < 1 << 32 else seed_of(seed) & 0xFFFFFFFF)


def cosine_rate(step: int, *, peak: float, floor: float, warmup: int, total: int) -> float:
    """Return the learning rate at a step: cosine decay from `peak`, after the warm-up, to `floor`."""
    progress = min(1.0, (step - warmup) / max(1, total - warmup))
    return floor + (peak - floor) * (1 + math.cos(math.pi * progress)) / 2


def cooldown_rate(step: int, *, peak: float, floor: float, total: int | None, tail: float) -> float:
    """Return the rate at a step: `peak`, then linear decay to `floor` over the last fraction `tail` of `total`."""
    if total is None or tail == 0:
        return peak
    left = (total - 1 - step) / max(1.0, tail * total)  # 0 at the last step
    return floor + (peak - floor) * min(1.0, max(0.0, left))


def parameter_groups(parameters: Iterable[Tensor], weight_decay: float) -> list[dict[str, Any]]:
    """Return an optimiser's parameter groups: weight decay for matrices, none for vectors."""
    every = [*parameters]
    return [
        {"params": [p for p in every if p.ndim > 1], "weight_decay": weight_decay},
        {"params": [p for p in every if p.ndim <= 1], "weight_decay": 0.0},
    ]
