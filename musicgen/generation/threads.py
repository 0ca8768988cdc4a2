"""How many threads write music with a model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from musicgen.model.performer import Performer

NARROW = 384  # below this width a matrix is too small to be shared by threads


@contextmanager
def threads_for(model: Performer) -> Iterator[None]:
    """Let a narrow model write on one thread, however deep it is: its matrices are too small to share.

    A token of 24 layers of width 192 took 8 to 9 ms on one of two quiet cores and 11 to 12 on both; where the cores are
    busy threads wait for each other, and a token took some 40 times as long.
    """
    before = torch.get_num_threads()
    threads = 1 if model.config.width < NARROW else before
    if threads == before:
        yield
        return
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
