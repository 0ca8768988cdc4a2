"""The embedding of guesses: what recall (recall.py) finds, as vectors that are added to those of tokens.

B batch, T time, V vocabulary, C model width.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from musicgen import recall
from musicgen.parts import RecallConfig
from musicgen.recall import MATCHED_LEVELS, PLANNED_LEVELS, Recollection


class Recall(nn.Module):
    """Turns guesses into vectors that are added to the embeddings of tokens; before training they are zeros."""

    def __init__(self, config: RecallConfig, vocabulary: int, width: int) -> None:
        super().__init__()
        self._kinds, self._families = config.kinds(vocabulary), len(config.plan)
        self._bar, self._restart, self._drums = config.bar, config.restart, config.drums
        self.planned, self.matched = (nn.Embedding(vocabulary, width) for _ in range(2))
        levels = PLANNED_LEVELS + MATCHED_LEVELS
        self.trust = nn.Embedding(levels, width)  # scales the vector of a guess, per level
        self.level = nn.Embedding(levels, width)
        with torch.no_grad():
            for part in (self.planned, self.matched, self.level):
                part.weight.zero_()
            self.trust.weight.fill_(1)

    def begin(
        self,
        *,
        elsewhere: Sequence[int] = (),
        unlike: Sequence[int] = (),
        sources: Mapping[int, int] | None = None,
        strength: float = 1.0,
    ) -> Recollection:
        """Return the recall of a sequence before its first token; `Order` explains the arguments."""
        found = Recollection(self._kinds, self._families, strength=strength, drums=self._drums)
        if len(unlike):
            other = Recollection(self._kinds, self._families)
            other.take(np.array([*unlike, self._bar]))
            found.avoid(other)
        if len(elsewhere):
            found.take(np.array([*elsewhere, self._restart]))
        found.set_sources(sources or {})
        return found

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
        x = _rows(self.planned, planned) * (of_planned @ self.trust.weight)
        x = x + _rows(self.matched, matched) * (of_matched @ self.trust.weight)
        x = x + (of_planned + of_matched) @ self.level.weight
        if strength is None:
            return x
        return x * torch.as_tensor(strength, device=device).view(-1, *[1] * (x.ndim - 1))


def recall_rows(recalls: Sequence[Recollection], tokens: Tensor) -> tuple[Tensor, Tensor | None]:
    """Do as `recall.recall_rows`, with tensors on the device of the tokens."""
    guesses, strengths = recall.recall_rows(recalls, tokens.cpu().numpy())
    found = torch.from_numpy(guesses).to(tokens.device)
    return found, None if strengths is None else torch.from_numpy(strengths).to(tokens.device)


def _rows(embedding: nn.Embedding, tokens: Tensor) -> Tensor:
    """Return the vectors of tokens counted from 1, and zeros for 0."""
    weight = embedding.weight
    padded = torch.cat([weight.new_zeros(1, weight.shape[1]), weight])
    return F.embedding(tokens, padded, padding_idx=0)
