"""Whether the loops of loops.py can be had: numba compiles them, on a CPU that it knows.

A generated token is hundreds of small calls of torch, each of which takes microseconds before it begins, and products
that read four bytes a weight where one says the same. Loops that do a layer's work at once spare both. They compute
what the calls of torch do, to rounding, and each row of a batch by itself.
"""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from types import ModuleType

import torch
from torch import Tensor

SWITCH = "MUSICGEN_COMPILED"  # 0 in the environment leaves all to torch


def loops_for(*tensors: Tensor | None) -> ModuleType | None:
    """Return the loops, if these tensors are what they take: of the memory of a CPU, in float32."""
    plain = all(x is None or (x.device.type == "cpu" and x.dtype == torch.float32) for x in tensors)
    return _loops() if plain else None


@cache
def _loops() -> ModuleType | None:
    if os.environ.get(SWITCH) == "0":
        return None
    try:
        return import_module("musicgen.layers.loops")
    except (ImportError, OSError):  # not installed, or not for this machine
        return None
