"""Weights of a trained model for one that is deeper or has more beside: it computes at first what was learned.

- More layers: each trained layer is followed by copies of itself whose branches add nothing yet, since the last
  matrix of each branch is zero (as net2net does with identity layers; Chen et al., ICLR 2016). They learn from there.
- Metric heads beside those that there are, or where none were: what they find counts 0 times at first.
- What tells each position of goals (model/goals.py) begins as zeros, that of goals which are new among others too.
- More tokens, or those of a later version of a language: rows go by the names of tokens. New tokens are as likely at
  first as the old ones are on average, by their logits.
- Another encoding of position begins as it does untrained. That one changes what is computed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import torch
from torch import Tensor

from musicgen.model.performer import Performer

PER_TOKEN = ("embedding.weight", "head.weight")
GOALS = "goals.vectors.weight"
_LAYER = re.compile(r"blocks\.(\d+)\.(.*)")
_BRANCH_ENDS = ("attention.output.", "feedforward.output.")


def grown(
    trained: Performer, model: Performer, names: Sequence[str], before: Sequence[str]
) -> dict[str, Tensor]:
    """Return the state of `model`, made of that of `trained`; names of both vocabularies come in the order of ids."""
    learned, fresh = trained.state_dict(), model.state_dict()
    depth, layers = len(trained.blocks), len(model.blocks)
    moved = trained.config.position_name == model.config.position_name
    moved = moved and trained.config.position == model.config.position
    sides = ((names, model), (before, trained))
    state = {}
    for name, start in fresh.items():
        source, adds = _source(name, depth, layers)
        weight = learned.get(source)
        if name.startswith("position."):
            weight = _by_layer(weight, depth, layers, len(start)) if moved else None
        elif weight is None:
            pass
        elif name in PER_TOKEN:
            weight = _by_name(weight, weight.mean(0), names, before)
        elif name == GOALS:
            goals = [[of[token] for token in one.config.goals or ()] for of, one in sides]
            weight = _by_name(weight, torch.zeros_like(start[0]), *goals)
        elif not adds:
            weight = torch.zeros_like(start)
        elif name.endswith("attention.output.weight"):
            weight = _with_columns(weight, start.shape[-1])
        elif ".metre.qkv." in name:
            weight = torch.cat([weight, start[len(weight) :]])
        state[name] = start if weight is None or weight.shape != start.shape else weight
    return state


def _source(name: str, depth: int, layers: int) -> tuple[str, bool]:
    """Return the trained weight that a weight begins as, and whether its branch adds something from the start."""
    found = _LAYER.fullmatch(name)
    if found is None:
        return name, True
    layer, rest = int(found[1]), found[2]
    source = layer * depth // layers
    first = layer == 0 or (layer - 1) * depth // layers != source
    return f"blocks.{source}.{rest}", first or not rest.startswith(_BRANCH_ENDS)


def _by_layer(weight: Tensor | None, depth: int, layers: int, wanted: int) -> Tensor | None:
    """Return what an encoding has a layer, or all layers together, for a deeper model."""
    if weight is None or len(weight) == wanted or len(weight) != depth:
        return weight
    return weight[[layer * depth // layers for layer in range(layers)]]


def _by_name(weight: Tensor, new: Tensor, names: Sequence[str], before: Sequence[str]) -> Tensor:
    """Return a row a name, (V, ·): the trained one of that name, or the row of what is new."""
    rows = {name: row for row, name in enumerate(before)}
    return torch.stack([weight[rows[name]] if name in rows else new for name in names])


def _with_columns(weight: Tensor, columns: int) -> Tensor:
    return torch.nn.functional.pad(weight, (0, columns - weight.shape[-1]))
