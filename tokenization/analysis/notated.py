"""Whether music is notated, such as a score, or played: played notes have more lengths."""

from __future__ import annotations

import numpy as np

# Music is notated if its COMMON commonest lengths make up more than this share of its notes.
COMMON, NOTATED = 4, 0.7


def is_notated(lengths: np.ndarray) -> bool:
    """Return whether few of the lengths, (N,) integers, make up most of them."""
    counts = np.sort(np.bincount(lengths))
    return bool(counts[-COMMON:].sum() > NOTATED * len(lengths))
