"""The learning rate as a pure function of the step."""

from __future__ import annotations

import math


def learning_rate(step: int, *, peak: float, floor: float, warmup: int, total: int) -> float:
    """Rise linearly to `peak` over the first `warmup` steps, then fall to `floor` along half a cosine.

    Step 0 already learns: it has the rate peak / warmup.
    """
    if step < warmup:
        return peak * (step + 1) / warmup
    progress = min(1.0, (step - warmup) / max(1, total - warmup))
    return floor + (peak - floor) * (1 + math.cos(math.pi * progress)) / 2
