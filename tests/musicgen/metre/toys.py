"""Toys with metric heads."""

from typing import Any

import torch
from torch import Tensor

from musicgen.metre.heads import MetreConfig
from musicgen.model.performer import Performer
from tests.musicgen.toys import toy_model, toy_tokens

METRE = MetreConfig(bars=(1, 0.5, 2), remembers=(2, 8, 3), features=3)


def toy(**changes: Any) -> Performer:
    return toy_model(position="sine_spe", layers=2, metre=METRE, **changes)


def music(length: int, seed: int = 0) -> Tensor:
    """Return tokens of which a third move time, forward: (1, T)."""
    forward = torch.tensor([0, 4, 5, 2, 6, 7, 8, 9, 10, 4, 5])
    return forward[toy_tokens(1, length, seed)]
