"""Linear layers that read the same input as one layer: one product instead of several, where each call costs."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.weak import WeakTensorKeyDictionary

_KEPT = WeakTensorKeyDictionary()  # by the first weight: the versions of all, and the layer
# Fused optimisers leave the versions of what they change as they are.
register_optimizer_step_post_hook(lambda *_: _KEPT.clear())


def can_be_joined(layers: Sequence[nn.Module]) -> bool:
    """Say whether they are several, and plain ones of one type; those of 8 bits have scales beside their weights."""
    plain = [layer for layer in layers if isinstance(layer, nn.Linear) and layer.bias is not None]
    types = {layer.weight.dtype for layer in plain}
    return len(layers) > 1 and len(plain) == len(layers) and len(types) == 1


def joined(layers: Sequence[nn.Linear]) -> nn.Linear:
    """Return a layer whose output is that of these side by side: a copy, kept while they live and do not change."""
    weights, biases = [layer.weight for layer in layers], [layer.bias for layer in layers]
    parts = [*weights, *biases]
    if any(part.is_inference() for part in parts):  # they do not say when they change
        return _joined(layers)
    versions = [(part._version, part.data_ptr()) for part in parts]
    if weights[0] not in _KEPT or _KEPT[weights[0]][0] != versions:
        _KEPT[weights[0]] = versions, _joined(layers)
    return _KEPT[weights[0]][1]


@torch.inference_mode(False)
@torch.no_grad()
def _joined(layers: Sequence[nn.Linear]) -> nn.Linear:
    weight = torch.cat([layer.weight for layer in layers])
    whole = nn.Linear(weight.shape[1], weight.shape[0], device="meta")
    whole.weight = nn.Parameter(weight, requires_grad=False)
    whole.bias = nn.Parameter(torch.cat([layer.bias for layer in layers]), requires_grad=False)
    return whole
