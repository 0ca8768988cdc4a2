"""The weights at which a smooth loss is least."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def minimised(loss: Callable[[Tensor], Tensor], weights: Tensor) -> Tensor:
    """Return the weights at which a loss is least, by L-BFGS from these on."""
    weights = weights.clone().requires_grad_()
    optimiser = torch.optim.LBFGS([weights], max_iter=100, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimiser.zero_grad()
        value = loss(weights)
        value.backward()
        return value

    optimiser.step(closure)  # type: ignore[arg-type]
    return weights.detach()
