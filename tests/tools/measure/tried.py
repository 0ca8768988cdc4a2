"""Changes of a model and of what is kept, for recipes.py to try; the product has none of them.

B batch, T time, H heads with the metric ones, D head width, C model width.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from musicgen.model.performer import Performer
from training.loop import Progress

DECAYS = (0.9, 0.98)  # of the averages of weights


def blocks_of(model: Performer) -> list[Any]:
    """Return the layers."""
    return list(model.blocks)


@torch.no_grad()
def zero_branches(model: Performer) -> None:
    """Let each layer add nothing at first."""
    for block in blocks_of(model):
        block.attention.output.weight.zero_()
        block.feedforward.output.weight.zero_()


class MixedValues(nn.Module):
    """Queries, keys and values, of which the values are mixed with the first layer's (Zhou et al., 2024)."""

    def __init__(self, inner: nn.Module, first: list[Tensor]) -> None:
        super().__init__()
        self.inner, self.first = inner, first
        self.share = nn.Parameter(torch.tensor(0.5))

    def forward(self, x: Tensor) -> Tensor:
        """Return (B, T, C) → (B, T, 3C); `first` holds the first layer's values of this pass, (B, T, C)."""
        qk, v = self.inner(x).split([2 * x.shape[-1], x.shape[-1]], -1)
        return torch.cat([qk, v.lerp(self.first[0], self.share)], -1)


def mix_values(model: Performer) -> None:
    """Give each layer's heads that count tokens a learned share of the first layer's values, at first a half."""
    first: list[Tensor] = []

    def keep(module: nn.Module, given: object, qkv: Tensor) -> None:
        first[:] = [qkv.chunk(3, -1)[2]]

    blocks = blocks_of(model)
    blocks[0].attention.qkv.register_forward_hook(keep)
    for block in blocks[1:]:
        block.attention.qkv = MixedValues(block.attention.qkv, first)


class GatedHeads(nn.Module):
    """What heads found, each times a gate of the layer's input, and then the output's matrix (Qiu et al., 2025)."""

    def __init__(self, attention: Any, heads: int) -> None:
        super().__init__()
        self.inner = attention.output
        self.gate = nn.Linear(attention.qkv.in_features, heads)
        nn.init.zeros_(self.gate.weight)
        nn.init.zeros_(self.gate.bias)
        attention.register_forward_pre_hook(self.see)

    def see(self, module: nn.Module, given: tuple[Tensor, ...]) -> None:
        """Keep the layer's input, (B, T, C)."""
        self.seen = given[0]

    def forward(self, y: Tensor) -> Tensor:
        """Return (B, T, H·D) → (B, T, C); gates begin at 1."""
        gates = 2 * self.gate(self.seen).sigmoid()
        by_head = y.unflatten(-1, (gates.shape[-1], -1))
        return self.inner((by_head * gates.unsqueeze(-1)).flatten(-2))


def gate_heads(model: Performer) -> None:
    """Gate every head of every layer, the metric ones too."""
    for attention in (block.attention for block in blocks_of(model)):
        heads = attention.output.in_features // model.config.head_width
        attention.output = GatedHeads(attention, heads)


class Quiet:
    """A listener that says nothing."""

    def stepped(self, step: int, steps: int) -> None:
        """Do nothing."""

    def progress(self, progress: Progress) -> None:
        """Do nothing."""

    def validated(self, model: Performer, step: int) -> None:
        """Do nothing."""


class Averages(Quiet):
    """A listener that keeps moving averages of a run's weights, of fewer steps at first."""

    def __init__(self, model: Performer) -> None:
        self.weights = [p.detach() for p in model.parameters()]
        self.averages = {decay: [w.clone() for w in self.weights] for decay in DECAYS}

    def stepped(self, step: int, steps: int) -> None:
        """Take the weights of a step."""
        for decay, averages in self.averages.items():
            for average, weight in zip(averages, self.weights, strict=True):
                average.lerp_(weight, 1 - min(decay, step / (step + 9)))

    def put_back(self, values: Iterable[Tensor]) -> None:
        """Give the model weights."""
        for weight, value in zip(self.weights, values, strict=True):
            weight.copy_(value)
