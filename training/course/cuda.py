"""What keeps a GPU busy: copies that nobody waits for."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def to_device(tokens: np.ndarray, device: torch.device) -> Tensor:
    """Return tokens as a tensor on a device."""
    tensor = torch.from_numpy(tokens)
    if device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)
