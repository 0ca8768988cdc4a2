"""Switch autocast off where exponentials and long sums need float32; say where kernels of our own are faster."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor


def without_autocast(device: torch.device) -> AbstractContextManager[Any]:
    """Return a context in which tensors keep their own precision.

    Where autocast is off anyway it costs next to nothing: a generated token enters it twice a layer.
    """
    if torch.is_autocast_enabled(device.type):
        return torch.autocast(device.type, enabled=False)
    return nullcontext()


def eager_on_cpu(x: Tensor) -> bool:
    """Say whether a function written for a CPU's caches and memory is better than torch's own, which compilers know."""
    return x.is_cpu and not torch.compiler.is_compiling()
