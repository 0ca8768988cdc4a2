"""Points in space with a known answer: is the field of some charges positive where a probe stands?

As many charges are +1 as are −1, at random places r_j of a cube, and the field at the probe's place r is
E = Σ_j c_j exp(−|r_j − r|² / 2s²). So the charges alone say nothing, and only their distances from the probe do. It
stands for FourierLearner's molecules (Choromanski et al. 2023, section 4.3), whose data it is not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

REACH = 0.3  # s, of a cube of side 1
CLASSES, TOKENS = 2, 3
NEGATIVE, POSITIVE, PROBE = range(TOKENS)


@dataclass(frozen=True, kw_only=True)
class Clouds:
    """Tokens, places and labels of so many clouds; the probe comes first, and then its charges."""

    tokens: np.ndarray  # (n, 1 + points)
    places: np.ndarray  # (n, 1 + points, 3)
    labels: np.ndarray  # (n,)

    def by_nearest(self) -> float:
        """Return the accuracy of taking the sign of the charge that is nearest to the probe."""
        away = ((self.places[:, 1:] - self.places[:, :1]) ** 2).sum(-1)
        nearest = self.tokens[np.arange(len(away)), 1 + away.argmin(1)]
        return float(((nearest == POSITIVE) == self.labels).mean())


def fields(charges: np.ndarray, places: np.ndarray, probes: np.ndarray) -> np.ndarray:
    """Return E of charges ±1 at probes: (n, P), (n, P, 3) and (n, 3) → (n,)."""
    squared = ((places - probes[:, None]) ** 2).sum(-1)
    return (charges * np.exp(-squared / (2 * REACH**2))).sum(-1)


def clouds(count: int, points: int, seed: int) -> Clouds:
    """Draw clouds of so many charges; either answer comes as often, since changing all signs changes it."""
    if points < 2 or points % 2:
        raise ValueError(f"a cloud of {points} charges has no half; give an even number")
    random = np.random.default_rng(seed)
    signs = np.tile(np.repeat([1.0, -1.0], points // 2), (count, 1))
    charges = random.permuted(signs, axis=1)
    places = random.random((count, 1 + points, 3))
    labels = fields(charges, places[:, 1:], places[:, 0]) > 0
    kinds = np.where(charges > 0, POSITIVE, NEGATIVE)
    return Clouds(
        tokens=np.pad(kinds, ((0, 0), (1, 0)), constant_values=PROBE).astype(np.uint8),
        places=places.astype(np.float32),
        labels=labels.astype(np.int64),
    )
