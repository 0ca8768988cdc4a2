"""The products of loops.py, with the rows of a matrix divided among threads: for matrices that no cache holds.

One core reads memory at a part of the speed that all have together. Every number is computed by the loop of loops.py,
whoever computes it, so that it is the same to the last bit for any number of threads.

B rows of the batch, I and O widths of a matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numba
import numpy as np
from numba import float32, int8, int64
from numba.core import config

from musicgen.layers.compiled import loops
from musicgen.layers.compiled.loops import compiled

# Of numba's ways to have threads one ends the process where two of a program's own threads come to it at once.
if config.THREADING_LAYER == "default":  # pyright: ignore[reportAttributeAccessIssue]
    config.THREADING_LAYER = "threadsafe"  # pyright: ignore[reportAttributeAccessIssue]
_SAFE = ("omp", "tbb")


@compiled(float32[:, ::1], float32[::1], float32[:, ::1], float32[:, ::1], int64, parallel=True)
def product(weight: Any, bias: Any, x: Any, out: Any, threads: Any) -> None:
    """Multiply rows (B, I) by a matrix (O, I) and add a bias, to (B, O)."""
    rows = weight.shape[0]
    for thread in numba.prange(threads):
        first, last = thread * rows // threads, (thread + 1) * rows // threads
        loops.product(weight[first:last], bias[first:last], x, out[:, first:last])


@compiled(
    int8[:, ::1],
    float32[::1],
    float32[::1],
    float32[:, ::1],
    float32[:, ::1],
    int64,
    parallel=True,
)
def product_of_codes(codes: Any, scale: Any, bias: Any, x: Any, out: Any, threads: Any) -> None:
    """Do the same with a matrix of 8-bit codes, each row of which has a scale."""
    rows = codes.shape[0]
    for thread in numba.prange(threads):
        first, last = thread * rows // threads, (thread + 1) * rows // threads
        part, scales = codes[first:last], scale[first:last]
        loops.product_of_codes(part, scales, bias[first:last], x, out[:, first:last])


def limited(threads: int) -> tuple[int, Callable[[], None] | None]:
    """Return how many threads a product can have, so many at most, and what has to be called before it, if anything.

    numba starts one for each core, and what it is told applies to what the same thread of the program calls later.
    """
    most = config.NUMBA_NUM_THREADS  # pyright: ignore[reportAttributeAccessIssue]
    return (most, None) if threads >= most else (threads, partial(numba.set_num_threads, threads))


def _tried() -> None:
    one = np.ones((1, 1), np.float32)
    product(one, one[0], one, one.copy(), 1)
    if numba.threading_layer() not in _SAFE:  # pyright: ignore[reportPrivateImportUsage]
        raise ImportError("there are no threads that several of a program's own may share")


_tried()
