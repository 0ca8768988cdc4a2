"""What is computed from weights once and used for many tokens: copies that have to go when the weights change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.weak import WeakTensorKeyDictionary

Made = TypeVar("Made")


class Derived(Generic[Made]):
    """Things made of weights, each kept while the first of its weights lives and none of them changes."""

    def __init__(self) -> None:
        self._kept = WeakTensorKeyDictionary()
        # Fused optimisers leave the versions of what they change as they are.
        register_optimizer_step_post_hook(lambda *_: self._kept.clear())

    def __len__(self) -> int:
        return len(self._kept)

    def of(self, weights: Sequence[Tensor], make: Callable[[], Made]) -> Made:
        """Return what was made of these weights, or make it."""
        if any(weight.is_inference() for weight in weights):  # they do not say when they change
            return make()
        first, versions = weights[0], [(one._version, one.data_ptr()) for one in weights]
        if first not in self._kept or self._kept[first][0] != versions:
            self._kept[first] = versions, make()
        return self._kept[first][1]
