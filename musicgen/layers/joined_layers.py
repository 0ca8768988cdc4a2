"""Linear layers that read the same input as one layer: one product instead of several, where each call costs."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from musicgen.layers.derived import Derived

_KEPT: Derived[nn.Linear] = Derived()


def joined(layers: Sequence[nn.Linear]) -> nn.Linear:
    """Return a layer whose output is that of these side by side: a copy, kept while they live and do not change.

    One alone is itself.
    """
    if len(layers) == 1:
        return layers[0]
    weights, biases = [layer.weight for layer in layers], [layer.bias for layer in layers]
    return _KEPT.of([*weights, *biases], lambda: _joined(layers))


@torch.inference_mode(False)
@torch.no_grad()
def _joined(layers: Sequence[nn.Linear]) -> nn.Linear:
    weight = torch.cat([layer.weight for layer in layers])
    whole = nn.Linear(weight.shape[1], weight.shape[0], device="meta")
    whole.weight = nn.Parameter(weight, requires_grad=False)
    whole.bias = nn.Parameter(torch.cat([layer.bias for layer in layers]), requires_grad=False)
    return whole
