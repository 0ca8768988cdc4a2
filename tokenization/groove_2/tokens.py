"""The alphabet of the second groove language: bars and places in them move time, and goals have tokens of their own.

Notes begin and end by the same ids as in the first one, so that what a model knows of them can be kept. Its first
edition had no names of chords, which come last (harmony.py).
"""

from __future__ import annotations

import numpy as np

from tokenization.analysis.chord_names import CHORDS, ROOTS
from tokenization.goal import GOAL_FAMILIES, LEFT, SEAM
from tokenization.groove.tokens import BAR_TICKS, TRACKS
from tokenization.groove.tokens import VOCABULARY as FIRST
from tokenization.vocabulary import Vocabulary

_FAMILIES = [
    *((name, FIRST[name].names) for name in ("special", "note_on", "note_off")),
    ("bar", ["bar"]),  # the next one begins
    ("at", [f"at_{tick}" for tick in range(1, BAR_TICKS)]),  # what follows stands there in it
    *GOAL_FAMILIES,
    ("given", [f"given_{track}" for track in range(len(TRACKS))]),
    ("write", ["write"]),
]
WITHOUT_CHORDS = Vocabulary(_FAMILIES)
VOCABULARY = Vocabulary(
    [
        *_FAMILIES,
        ("chord", [f"chord_{name}" for name in CHORDS]),
        ("root", [f"root_{name}" for name in ROOTS]),  # where no more than a bass is known
    ]
)
BAR = VOCABULARY.id("bar")
AT, GIVEN = VOCABULARY["at"], VOCABULARY["given"]
CHORD, ROOT = VOCABULARY["chord"], VOCABULARY["root"]
WRITE, AFTER, BEFORE = (VOCABULARY.id(name) for name in ("write", "after", "before"))
GOAL_START = VOCABULARY[LEFT].start  # all tokens from here on belong to goals and move no time
LEFT_1, SEAM_1 = VOCABULARY[LEFT].start, VOCABULARY[SEAM].start

TICK_OF = np.full(len(VOCABULARY), -1)  # in its bar: (V,)
TICK_OF[BAR] = 0
TICK_OF[AT.start : AT.stop] = np.arange(1, BAR_TICKS)
