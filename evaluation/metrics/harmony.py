"""How well a part keeps to the harmony of a piece: the share of its notes that are tones of the chord there.

The chords are recognised from all pitched parts of the real piece (tokenization/analysis/chords.py), a hidden one too,
so that the true part can be read beside: it has passing notes, and is not at 1.
"""

from __future__ import annotations

import numpy as np

from tokenization.analysis.chords import PITCH_CLASSES, TONES, changes_in_fours
from tokenization.score import Notes

HARMONY = "in_harmony"  # what it is called among metrics


def in_harmony(part: Notes, pitched: Notes, ticks_per_beat: int) -> float | None:
    """Return the share of a part's notes that are tones of the chord of a piece where they begin.

    The pitched notes of the piece are in bars of four beats. None where no note begins on a chord.
    """
    if not len(pitched):
        return None
    ticks, chords = changes_in_fours(pitched, ticks_per_beat)
    at = np.searchsorted(ticks, part.onset_ticks, side="right") - 1
    tones = TONES[chords[np.maximum(at, 0)]]  # (N, 12)
    counted = tones.any(axis=1) & (at >= 0)
    if not counted.any():
        return None
    inside = tones[np.arange(len(part)), part.pitch % PITCH_CLASSES]
    return float(inside[counted].mean())
