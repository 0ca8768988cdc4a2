"""What single tokens say about notes, for measures of music while it is being written.

Letters: V tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, kw_only=True, eq=False)
class NoteTokens:
    """A language in which the pitches of notes follow the time at which they begin."""

    pitch: np.ndarray  # (V,) semitones, -1 of what names no pitch
    moves: np.ndarray  # (V,) bool: whether what follows begins at another time than what was before
