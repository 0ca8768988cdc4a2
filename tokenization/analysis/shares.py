"""Shares, entropies and spreads of values, as floats; NaN for what there are too few values for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def relative(values: np.ndarray) -> np.ndarray:
    """Return the relative frequency of each of the K distinct values: (K,)."""
    return np.unique(values, return_counts=True)[1] / max(len(values), 1)


def commonest(values: np.ndarray) -> float:
    """Return the relative frequency of the most frequent value."""
    return float(relative(values).max()) if len(values) else np.nan


def entropy(values: np.ndarray) -> float:
    """Return the entropy −Σ p log₂ p of discrete values, in bits."""
    share = relative(values)
    return float(np.abs(share @ np.log2(share))) if len(share) else np.nan


def shares(name: str, values: np.ndarray, edges: Sequence[int]) -> dict[str, float]:
    """Return the share of the values in edges[i] … edges[i + 1] − 1 for each i, under names that end in the first."""
    bins = np.searchsorted(edges, values, side="right") - 1
    counts = np.bincount(bins[bins >= 0], minlength=len(edges) - 1)
    total = len(values)
    return {
        f"{name} from {edge}": float(count / total) if total else np.nan
        for edge, count in zip(edges[:-1], counts.tolist(), strict=False)
    }


def spread(values: np.ndarray) -> float:
    """Return the distance between the first and the last tenth."""
    low, high = np.quantile(values, [0.1, 0.9])
    return float(high - low)


def correlation(one: np.ndarray, other: np.ndarray) -> float:
    """Return Pearson's correlation; NaN if a side is constant."""
    one, other = one - one.mean(), other - other.mean()
    scale = float(np.sqrt((one @ one) * (other @ other)))
    return float(one @ other) / scale if scale > 1e-9 else np.nan
