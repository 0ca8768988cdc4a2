"""The loss of a language model, position by position."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

IGNORED = -1  # a target after the end of a piece


def next_token_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the loss of each position in nats, (B, T, V) against (B, T) → (B, T); 0 where IGNORED."""
    scores = logits.to(torch.promote_types(logits.dtype, torch.float32))
    if scores.is_cuda:  # where a sum over the last dimension is the fast one
        losses = F.cross_entropy(
            scores.flatten(0, 1), targets.flatten(), ignore_index=IGNORED, reduction="none"
        )
        return losses.view_as(targets)
    return F.cross_entropy(scores.transpose(1, 2), targets, ignore_index=IGNORED, reduction="none")
