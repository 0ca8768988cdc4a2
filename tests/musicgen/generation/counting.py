"""How many rows go through each step."""

from typing import Any

import torch
from musicgen.generation.fast_steps import ReadyCalls


def counted(monkeypatch: Any) -> list[int]:
    """Return a list that grows by the number of rows of each step."""
    rows: list[int] = []
    step = ReadyCalls.__call__

    def counting(calls: ReadyCalls, tokens: torch.Tensor, *rest: Any) -> Any:
        rows.append(len(tokens))
        return step(calls, tokens, *rest)

    monkeypatch.setattr(ReadyCalls, "__call__", counting)
    return rows
