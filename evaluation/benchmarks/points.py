"""Points in space with a known answer: is the energy of some charges above the middle of all such clouds?

As many charges are +1 as are −1, at random places of a cube, and E = Σ_{i<j} c_i c_j exp(−|r_i − r_j|² / 2s²). So the
charges alone say nothing, and only the distances between places do. It stands for FourierLearner's molecules
(Choromanski et al. 2023, section 4.3), whose data it is not. Half of all clouds lie above the median.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

REACH = 0.3  # s, of a cube of side 1
CLASSES = 2
_MEDIAN_OF, _MEDIAN_SEED = 4000, 20231


@dataclass(frozen=True, kw_only=True)
class Clouds:
    """Charges as tokens 0 and 1, places and labels of so many clouds."""

    charges: np.ndarray  # (n, points)
    places: np.ndarray  # (n, points, 3)
    labels: np.ndarray  # (n,)


def energies(charges: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return E of clouds of charges ±1, (n, P) at (n, P, 3) → (n,)."""
    squared = ((places[:, :, None] - places[:, None]) ** 2).sum(-1)
    pairs = charges[:, :, None] * charges[:, None] * np.exp(-squared / (2 * REACH**2))
    return (pairs.sum((1, 2)) - charges.shape[1]) / 2  # each pair once, and none with itself


def clouds(count: int, points: int, seed: int) -> Clouds:
    """Draw clouds; the middle is that of others of the same size."""
    charges, places = _drawn(count, points, np.random.default_rng(seed))
    others = _drawn(_MEDIAN_OF, points, np.random.default_rng(_MEDIAN_SEED))
    labels = energies(charges, places) > np.median(energies(*others))
    return Clouds(
        charges=(charges > 0).astype(np.uint8),
        places=places.astype(np.float32),
        labels=labels.astype(np.int64),
    )


def _drawn(count: int, points: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    if points < 2 or points % 2:
        raise ValueError(f"a cloud of {points} points has no half; give an even number")
    signs = np.tile(np.repeat([1.0, -1.0], points // 2), (count, 1))
    return random.permuted(signs, axis=1), random.random((count, points, 3))
