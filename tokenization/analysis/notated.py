"""Whether music is notated, such as a score, or played: played notes have more lengths."""

from __future__ import annotations

import numpy as np

COMMON, NOTATED = (
    4,
    0.7,
)  # notated: the COMMON commonest lengths make up more than this share of the notes


def is_notated(lengths: np.ndarray) -> bool:
    """Return whether few of the lengths, (N,) integers, make up most of them."""
    counts = np.sort(np.bincount(lengths))
    return bool(counts[-COMMON:].sum() > NOTATED * len(lengths))
