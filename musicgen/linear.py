"""Linear layers whose results do not depend on the size of the batch, to the last bit; embeddings of numbers from 1."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from musicgen.checkpoint import DOWN, UP

_MIN_ROWS = 8


class Linear(nn.Linear):
    """A linear layer that gives each row the same result, to the last bit, alone and among up to seven others."""

    up: nn.Parameter | None
    down: nn.Parameter | None

    def __init__(self, inputs: int, outputs: int, bias: bool = True) -> None:
        super().__init__(inputs, outputs, bias)
        self.register_parameter(UP, None)
        self.register_parameter(DOWN, None)

    def forward(self, input: Tensor) -> Tensor:
        found = linear(input, self.weight, self.bias)
        if self.up is None or self.down is None:
            return found
        return found + functional.linear(functional.linear(input, self.down), self.up)

    def changed_by(self, rank: int) -> None:
        """Add a change of the weight W, zero at first, that alone learns: W + U D, of low rank (Hu et al. 2022)."""
        outputs, inputs = self.weight.shape
        for part in self.parameters():
            part.requires_grad_(False)
        self.up = nn.Parameter(torch.zeros(outputs, rank))
        self.down = nn.Parameter(torch.randn(rank, inputs) / inputs**0.5)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return F.linear, (B, T, I) → (B, T, O), padded to eight rows: for fewer, kernels sum in another order."""
    rows = x.shape[0] * x.shape[1]
    if rows >= _MIN_ROWS:
        return functional.linear(x, weight, bias)
    padded = functional.pad(x.flatten(0, 1), (0, 0, 0, _MIN_ROWS - rows))
    return functional.linear(padded, weight, bias).narrow(0, 0, rows).unflatten(0, x.shape[:2])


def numbered(weight: Tensor, numbers: Tensor) -> Tensor:
    """Return the rows of a matrix by numbers counted from 1, (…,) → (…, C), and zeros for 0."""
    rows = torch.cat([weight.new_zeros(1, weight.shape[1]), weight])
    # The gradient of plain indexing would be summed position by position on a GPU.
    return functional.embedding(numbers, rows, padding_idx=0)
