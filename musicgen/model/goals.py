"""Goal embeddings: every position is conditioned on the latest goal token, such as the bars left or a gap to be filled.

A goal token comes once a bar (tokenization/goal.py). A later token of that bar would have to retrieve one token among
thousands, which linear attention can hardly do: in the last bar of songs, the countdown before it was worth 0.07 nats a
token of 2.4. But which goal came last can be computed from the tokens, as time is (metre/clock.py). So a learned vector
of it is added to each position's token embedding; nothing before the first goal.

B batch, T time, G goals, C model width.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Goals(nn.Module):
    """Computes the goal in force from the tokens, and holds an embedding of each, zeros at first."""

    number: Tensor

    def __init__(self, tokens: Sequence[int], vocabulary_size: int, width: int) -> None:
        super().__init__()
        number = torch.zeros(vocabulary_size, dtype=torch.long)
        number[list(tokens)] = torch.arange(1, len(tokens) + 1)
        self.register_buffer("number", number, persistent=False)  # 0 of what is no goal
        self.vectors = nn.Embedding(len(tokens), width)
        nn.init.zeros_(self.vectors.weight)

    def standing(self, tokens: Tensor, goal: Tensor) -> Tensor:
        """Return the goal at each token, itself included, (B, T), of sequences that stand at `goal`, (B,)."""
        found = torch.cat([goal.unsqueeze(1), self.number[tokens]], 1)
        places = torch.arange(found.shape[1], device=found.device) * (found > 0)
        return found.gather(1, places.cummax(1).values)[:, 1:]

    def forward(self, standing: Tensor) -> Tensor:
        """Return the vectors of goals, (…,) → (…, C)."""
        weight = self.vectors.weight
        vectors = torch.cat([weight.new_zeros(1, weight.shape[1]), weight])
        # Not by an index: its gradient adds thousands of positions to a vector one after the other on a GPU.
        return F.embedding(standing, vectors, padding_idx=0)
