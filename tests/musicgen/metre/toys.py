"""Toys with metric heads."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from musicgen.metre.heads import MetreConfig
from musicgen.model.config import ModelConfig
from musicgen.model.performer import Performer
from tests.musicgen.toys import CLOCK, toy_config, toy_tokens

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
