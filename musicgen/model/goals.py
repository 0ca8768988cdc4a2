"""Goal embeddings: every position is conditioned on the latest goal token and on the plan of its bar.

A goal is, for example, how many bars are left, or a gap to be filled.

Such a token comes once a bar (tokenization/language.py). A later token of that bar would have to retrieve one token
among thousands, which linear attention can hardly do: in the last bar of songs, the countdown before it was worth
0.07 nats a token of 2.4. But which goal came last can be computed from the tokens, as time is (metre/heads.py). So
learned vectors of it and of the plan are added to each position's token embedding; nothing before the first goal,
and of what a bar's plan leaves open.

B batch, T time, K kinds (goals, and one for each thing that a plan says), C model width.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

KIND_BITS = 6  # of a number that says what stands of all kinds


class Goals(nn.Module):
    """Computes the goal in force and the bar's plan from the tokens, and holds an embedding of each, zeros at first.

    What stands is one number, with KIND_BITS for each kind: 0 for nothing, else which of its tokens.
    """

    number: Tensor
    shift: Tensor
    before: Tensor

    def __init__(
        self,
        tokens: Sequence[int],
        vocabulary_size: int,
        width: int,
        plans: Sequence[Sequence[int]] = (),
    ) -> None:
        super().__init__()
        kinds = [list(tokens), *(list(range(*stretch)) for stretch in plans[1:])]
        number = torch.full((len(kinds), vocabulary_size), -1)  # of what says nothing of a kind
        for row, kind in zip(number, kinds, strict=True):
            row[kind] = torch.arange(1, len(kind) + 1)
        if plans:
            number[1:, slice(*plans[0])] = 0  # a new bar, of which nothing has been said
        sizes = torch.tensor([len(kind) for kind in kinds])
        self.register_buffer("number", number, persistent=False)
        self.register_buffer("shift", KIND_BITS * torch.arange(len(kinds)), persistent=False)
        self.register_buffer("before", sizes.cumsum(0) - sizes, persistent=False)
        self.vectors = nn.Embedding(int(sizes.sum()), width)
        nn.init.zeros_(self.vectors.weight)

    def standing(self, tokens: Tensor, goal: Tensor) -> Tensor:
        """Return what stands at each token, itself included, (B, T), of sequences of which `goal` stands, (B,)."""
        found = torch.cat(
            [self._each(goal).unsqueeze(1), self.number.T[tokens]], 1
        )  # (B, T + 1, K)
        places = torch.arange(found.shape[1], device=found.device)[:, None] * (found >= 0)
        latest = found.gather(1, places.cummax(1).values)[:, 1:]
        return (latest << self.shift).sum(-1)

    def _each(self, standing: Tensor) -> Tensor:
        """Return which token of each kind stands, from 1, or 0: (…,) → (…, K)."""
        return standing.unsqueeze(-1) >> self.shift & (1 << KIND_BITS) - 1

    def forward(self, standing: Tensor) -> Tensor:
        """Return the vectors of what stands, (…,) → (…, C)."""
        weight = self.vectors.weight
        vectors = torch.cat([weight.new_zeros(1, weight.shape[1]), weight])
        each = self._each(standing)
        rows = torch.where(each > 0, each + self.before, 0)
        # Not by an index: its gradient adds thousands of positions to a vector one after the other on a GPU.
        return F.embedding(rows, vectors, padding_idx=0).sum(-2)
