"""Whether the loops of loops.py and shared_loops.py can be had: numba compiles them, on a CPU that it knows.

A generated token is hundreds of small calls of torch, each of which takes microseconds before it begins, and matrix
products that read four bytes a weight where an 8-bit code would do. Loops that do a layer's work at once spare both.
They compute what the calls of torch do, to rounding, and each row of a batch by itself.
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


def shared_loops() -> ModuleType | None:
    """Return the products of loops.py for several threads, if this process has some."""
    return _shared() if torch.get_num_threads() > 1 and _loops() is not None else None


@cache
def _loops() -> ModuleType | None:
    return None if os.environ.get(SWITCH) == "0" else _imported("musicgen.layers.compiled.loops")


@cache
def _shared() -> ModuleType | None:
    return _imported("musicgen.layers.compiled.shared_loops")


def _imported(name: str) -> ModuleType | None:
    try:
        return import_module(name)
    except (ImportError, OSError, ValueError):  # not installed, or not for this machine
        return None
