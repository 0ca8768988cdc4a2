"""An end that is asked for: the last bar has a bias towards the chord of the key's tonic (tokenization/logit_bias.py).

A countdown makes the last bars thinner and their notes longer, and moved the harmony little: over the last chords of
songs a model put a quarter of its chances on the tonic, where nearly half of them are on it (`python -m
tests.tools.fit.cadence`). The key is that of all there is when the last bar begins: what was given may be in another.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tokenization.analysis.chord_names import QUALITIES, ROOTS
from tokenization.analysis.keys import tonic
from tokenization.logit_bias import LogitBias
from tokenization.remi.layouts import LEFT_1
from tokenization.remi.tokens import CHORD, VOCABULARY
from tokenization.score import Notes

OTHER, TONIC, NONE = 1, 2, 3  # kinds of chords
WEIGHTS = {TONIC: 1.1, NONE: 1.5}  # near what makes true last chords likeliest beside pop-piano-2
LOUD = 4.0  # by which drawn ends are on the tonic as often as songs (tests/tools/measure/goals.py)


def chord_kinds(root: int) -> np.ndarray:
    """Return the kind of each chord in a key with this tonic: (133,)."""
    kinds = np.full(len(CHORD), OTHER)
    first = root * len(QUALITIES)
    kinds[first : first + len(QUALITIES)] = TONIC
    kinds[len(ROOTS) * len(QUALITIES) :] = NONE
    return kinds


def toward_tonic(
    played: Notes, anew: Callable[[np.ndarray], LogitBias | None] | None = None
) -> LogitBias:
    """Return how the chords of the last bar lean after some notes; `anew` of all that is heard by then."""
    goal, kind = np.zeros((2, len(VOCABULARY)), np.int64)
    goal[LEFT_1] = 1
    kind[CHORD.start : CHORD.stop] = chord_kinds(tonic(played.pitch, played.duration_ticks))
    weights = np.zeros((2, 4))
    for name, weight in WEIGHTS.items():
        weights[1, name] = LOUD * weight
    return LogitBias(goal=goal, kind=kind, group=np.zeros(4, np.int64), weights=weights, anew=anew)
