"""Generating a token as a list of calls made ready once: what they share, and what changes from token to token.

Each row of a batch is a sequence of its own, at its own position.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

Call = Callable[[], object]
"""A step of the computation that knows the tensors it reads and the one it writes."""


class Scratch:
    """Memory for what is read only within a layer: all layers write to the same.

    Memory of its own would have left every cache when a layer's turn comes again: the weights of all others went
    through them meanwhile.
    """

    def __init__(self) -> None:
        self._held: dict[Any, list[Tensor]] = {}
        self._given: Counter[Any] = Counter()

    def next_layer(self) -> None:
        """Give the same memory out again, in the same order."""
        self._given.clear()

    def empty(self, like: Tensor, *shape: int) -> Tensor:
        """Return a tensor of the type of `like` that nothing else in the layer was given."""
        kind = like.dtype, like.device, shape
        held = self._held.setdefault(kind, [])
        if self._given[kind] == len(held):
            held.append(like.new_empty(shape))
        self._given[kind] += 1
        return held[self._given[kind] - 1]


@dataclass
class StepInputs:
    """What the calls of all layers share; `code` and `metre` are set before each step."""

    code: Any  # what the encoding's `cover_rows` made ready
    metre: Any = None  # the place of each row in its bar, for metric heads
    scratch: Scratch = field(default_factory=Scratch)
