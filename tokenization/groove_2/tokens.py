"""The alphabet of the second groove language: bars and places in them move time, and goals have tokens of their own.

Notes begin and end by the same ids as in the first one, so that what a model knows of them can be kept.
"""

from __future__ import annotations

import numpy as np

from tokenization.goal import GOAL_FAMILIES, LEFT, SEAM
from tokenization.groove.tokens import BAR_TICKS, TRACKS
from tokenization.groove.tokens import VOCABULARY as FIRST
from tokenization.vocabulary import Vocabulary

VOCABULARY = Vocabulary(
    [
        *((name, FIRST[name].names) for name in ("special", "note_on", "note_off")),
        ("bar", ["bar"]),  # the next one begins
        ("at", [f"at_{tick}" for tick in range(1, BAR_TICKS)]),  # what follows stands there in it
        *GOAL_FAMILIES,
        ("given", [f"given_{track}" for track in range(len(TRACKS))]),
        ("write", ["write"]),
    ]
)
BAR = VOCABULARY.id("bar")
AT, GIVEN = VOCABULARY["at"], VOCABULARY["given"]
WRITE, AFTER, BEFORE = (VOCABULARY.id(name) for name in ("write", "after", "before"))
GOAL_START = VOCABULARY[LEFT].start  # all tokens from here on belong to goals and move no time
LEFT_1, SEAM_1 = VOCABULARY[LEFT].start, VOCABULARY[SEAM].start

TICK_OF = np.full(len(VOCABULARY), -1)  # in its bar: (V,)
TICK_OF[BAR] = 0
TICK_OF[AT.start : AT.stop] = np.arange(1, BAR_TICKS)
