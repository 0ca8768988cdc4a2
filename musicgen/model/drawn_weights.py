"""What is drawn of a model before it learns, and anew while it does: its weights and its random features."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Generator, nn

from musicgen.attention.features import FeatureMap
from musicgen.model.config import ModelConfig


@torch.no_grad()
def draw_weights(
    modules: Iterable[tuple[str, nn.Module | None]], config: ModelConfig, generator: Generator
) -> None:
    """Draw the weights of linear layers: normal, the last of each residual branch smaller by √(number of branches)."""
    for name, module in modules:
        if isinstance(module, nn.Linear):
            scale = 1 / math.sqrt(2 * config.layers) if name.endswith(".output") else 1.0
            module.weight.normal_(0, config.initial_deviation * scale, generator=generator)
            if module.bias is not None:
                module.bias.zero_()


def redraw_features(model: nn.Module, generator: Generator) -> None:
    """Draw the random features of every layer anew."""
    for module in model.modules():
        if isinstance(module, FeatureMap):
            module.redraw(generator)
