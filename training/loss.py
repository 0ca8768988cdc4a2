"""The loss of a language model, position by position; which tokens of a sequence are seen, and which are learned."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

IGNORED = -1  # a target after the end of a piece


def only_shown(ids: np.ndarray) -> np.ndarray:
    """Return what stands in a sequence for tokens that a model sees and does not learn to say."""
    return IGNORED - 1 - ids.astype(np.int64)


def seen(tokens: Tensor) -> Tensor:
    """Return the tokens of sequences as a model sees them; anything after a piece's end."""
    return torch.where(tokens < IGNORED, IGNORED - 1 - tokens, tokens).clamp(min=0)


def learned(tokens: Tensor) -> Tensor:
    """Return the tokens of sequences as a model learns to say them, or IGNORED."""
    return tokens.clamp(min=IGNORED)


def next_token_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the loss of each position in nats, (B, T, V) against (B, T) → (B, T); 0 where IGNORED."""
    scores = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return F.cross_entropy(scores.transpose(1, 2), targets, ignore_index=IGNORED, reduction="none")
