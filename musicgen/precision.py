"""Where autocast must not reach: exponentials and long sums keep float32."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch


def without_autocast(device: torch.device) -> AbstractContextManager[Any]:
    """Return a context in which tensors keep their own precision.

    Where autocast is off anyway it costs next to nothing: a generated token enters it twice a layer.
    """
    if torch.is_autocast_enabled(device.type):
        return torch.autocast(device.type, enabled=False)
    return nullcontext()
