"""A toy clock and toys with metric heads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from musicgen.clock import Clock
from musicgen.config import ModelConfig
from musicgen.metre import MetreConfig
from musicgen.model import Performer
from tests.musicgen.toys import toy_config, toy_tokens

# Tokens 0 … 3 move time: a bar on, or to a tick of this bar of 6; where that is an earlier one, time stands still.
CLOCK = Clock(bar_ticks=6, step_ticks=6, moves=((0, 1, 0), (1, 0, 2), (2, 1, 3), (3, 0, 5)))
METRE = MetreConfig(bars=(1, 0.5, 2), remembers=(2, 8, 3), features=3)
LENGTH = 300  # three stretches


def config(**changes: Any) -> ModelConfig:
    """Return the configuration of a toy with metric heads."""
    given = {"position": "sine_spe", "layers": 2, "initial_deviation": 0.3, **changes}
    return replace(toy_config(**given), metre=METRE, clock=CLOCK)


def toy(**changes: Any) -> Performer:
    """Return the toy in evaluation mode."""
    return Performer(config(**changes), 0).eval()


def music(length: int, seed: int = 0) -> Tensor:
    """Return tokens of which a third move time, forward: (1, T)."""
    tokens = toy_tokens(1, length, seed)
    forward = torch.tensor([0, 4, 5, 2, 6, 7, 8, 9, 10, 4, 5])
    return forward[tokens]
