"""The embedding of guesses: what recall (recall.py) finds, as vectors that are added to those of tokens.

B batch, T time, V vocabulary, C model width.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from musicgen.kernel.host import tools
from musicgen.linear import numbered
from musicgen.parts import MATCHED_LEVELS, PLANNED_LEVELS, RecallConfig
from musicgen.recall import Recall, RecallRoles


class GuessEmbedding(nn.Module):
    """Turns guesses into vectors that are added to the embeddings of tokens; before training they are zeros."""

    def __init__(self, config: RecallConfig, vocabulary: int, width: int) -> None:
        super().__init__()
        self._config, self._vocabulary = config, vocabulary
        self.planned, self.matched = (nn.Embedding(vocabulary, width) for _ in range(2))
        levels = PLANNED_LEVELS + MATCHED_LEVELS
        self.trust = nn.Embedding(levels, width)  # scales the vector of a guess, per level
        self.level = nn.Embedding(levels, width)
        with torch.no_grad():
            for part in (self.planned, self.matched, self.level):
                part.weight.zero_()
            self.trust.weight.fill_(1)

    def begin(self) -> Recall:
        """Return the recall of a sequence before its first token."""
        return recall_roles(self._config, self._vocabulary).begin()

    def recalled(self, tokens: np.ndarray) -> np.ndarray:
        """Return the guesses after each token of whole sequences: (B, T) → (B, T, 4)."""
        return np.stack([self.begin().take(np.maximum(row, 0)) for row in tokens])

    def forward(
        self, recalled: Tensor | np.ndarray, strength: Tensor | np.ndarray | None = None
    ) -> Tensor:
        """Return the vectors of guesses, scaled by the strength of each row, (B,): (B, …, 4) → (B, …, C)."""
        device = self.level.weight.device
        found = torch.as_tensor(recalled, device=device).long()
        planned, level, matched, matched_level = found.unbind(-1)
        levels = PLANNED_LEVELS + MATCHED_LEVELS
        # A product with one-hot rows: on a GPU, the gradient of indexing 21 vectors would be serialised.
        of_planned = F.one_hot(level, levels).to(self.level.weight.dtype)
        of_matched = F.one_hot(matched_level + PLANNED_LEVELS, levels).to(self.level.weight.dtype)
        x = numbered(self.planned.weight, planned) * (of_planned @ self.trust.weight)
        x = x + numbered(self.matched.weight, matched) * (of_matched @ self.trust.weight)
        x = x + (of_planned + of_matched) @ self.level.weight
        if strength is None:
            return x
        return x * torch.as_tensor(strength, device=device).view(-1, *[1] * (x.ndim - 1))


@cache
def recall_roles(config: RecallConfig, vocabulary: int) -> RecallRoles:
    """Return the roles of tokens, in the kernel that serves torch."""
    return RecallRoles(config, vocabulary, tools())


def recall_rows(recalls: Sequence[Recall], tokens: Tensor) -> Tensor:
    """Append tokens, (B, T), to the recall of each row, and return the guesses, (B, T, 4)."""
    rows = zip(recalls, tokens.cpu().numpy(), strict=True)
    return torch.from_numpy(np.stack([recall.take(row) for recall, row in rows])).to(tokens.device)
