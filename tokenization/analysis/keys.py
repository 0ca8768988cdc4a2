"""The key of some music, or as far as its tonic goes.

It is the key whose profile is most like the pitch classes of the music by duration (Krumhansl and Kessler 1982, as in
Krumhansl 1990).
"""

from __future__ import annotations

import numpy as np

_MAJOR = (6.35, 2.23, 3.48, 2.33, 4.38, 4.09, 2.52, 5.19, 2.39, 3.66, 2.29, 2.88)
_MINOR = (6.33, 2.68, 3.52, 5.38, 2.60, 3.53, 2.54, 4.75, 3.98, 2.69, 3.34, 3.17)
_KEYS = np.array([np.roll(mode, tonic) for mode in (_MAJOR, _MINOR) for tonic in range(12)])


def tonic(pitch: np.ndarray, weight: np.ndarray) -> int:
    """Return the pitch class of the likeliest key's tonic."""
    return key(pitch, weight) % 12


def key(pitch: np.ndarray, weight: np.ndarray) -> int:
    """Return the likeliest key: its tonic, a pitch class, and 12 more in minor."""
    classes = np.bincount(pitch % 12, weights=weight, minlength=12)
    profiles = _KEYS - _KEYS.mean(1, keepdims=True)
    likeness = profiles @ (classes - classes.mean()) / np.linalg.norm(profiles, axis=1)
    return int(likeness.argmax())
