"""Adam, and the learning rate as a pure function of the step."""

from __future__ import annotations

import math

import torch

from musicgen.common.learning import decayed
from musicgen.model.performer import Performer
from training.config import OptimiserConfig


def learning_rate(step: int, *, peak: float, floor: float, warmup: int, total: int) -> float:
    """Rise linearly to `peak` over the first `warmup` steps, then fall to `floor` along half a cosine.

    Step 0 already learns: it has the rate peak / warmup.
    """
    if step < warmup:
        return peak * (step + 1) / warmup
    progress = min(1.0, (step - warmup) / max(1, total - warmup))
    return floor + (peak - floor) * (1 + math.cos(math.pi * progress)) / 2


def adam(settings: OptimiserConfig, model: Performer) -> torch.optim.Optimizer:
    """Return Adam with decoupled weight decay on matrices alone."""
    return torch.optim.AdamW(
        decayed(model, settings.weight_decay),
        lr=settings.learning_rate,
        betas=(settings.beta1, settings.beta2),
        eps=settings.epsilon,
        fused=True,  # in a third of the time
    )
