"""What similarity hides: how much of an output is copied from the prompt, and how different several outputs are.

Both look at runs of tokens. A token language that says no absolute time, as all of ours, spells a repeated passage
with the same run wherever it stands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations

import numpy as np

COPIED_RUN = 32  # tokens: about a beat of a trio; shorter runs recur in any piece of one style
SHARED_RUN = 8


def copied_share(output: np.ndarray, prompt: np.ndarray, run: int = COPIED_RUN) -> float | None:
    """Return the share of an output's tokens that lie in runs found in the prompt, 0 … 1.

    A run is so many successive tokens. None where the output or the prompt is shorter than one.
    """
    if len(output) < run or len(prompt) < run:
        return None
    known = np.isin(_runs(output, run), _runs(prompt, run))
    change = np.zeros(len(output) + 1, dtype=np.int64)
    starts = np.flatnonzero(known)
    np.add.at(change, starts, 1)
    np.add.at(change, starts + run, -1)
    return float((np.cumsum(change)[:-1] > 0).mean())


def diversity(outputs: Sequence[np.ndarray], run: int = SHARED_RUN) -> float | None:
    """Return how different outputs are: 1 − the mean over pairs of |A ∩ B| / |A ∪ B| of their runs, 0 … 1.

    Runs are counted with repetitions (Jaccard's index of multisets). 0 for equal outputs, 1 where no
    run is shared; None for less than two outputs that are long enough.
    """
    counts = [Counter(_runs(output, run).tolist()) for output in outputs if len(output) >= run]
    shared = [(a & b).total() / (a | b).total() for a, b in combinations(counts, 2)]
    return 1 - float(np.mean(shared)) if shared else None


def _runs(ids: np.ndarray, run: int) -> np.ndarray:
    """Return all runs of so many tokens, each as one value: (T − run + 1,)."""
    ids = np.ascontiguousarray(ids, dtype=np.uint16)
    windows = np.ascontiguousarray(np.lib.stride_tricks.sliding_window_view(ids, run))
    return windows.view(np.dtype((np.void, windows.itemsize * run)))[:, 0]
