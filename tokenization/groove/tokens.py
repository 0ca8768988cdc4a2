"""The groove alphabet: its grid in time, its vocabulary, and what the number of a token means.

The event set is that of the groove continuation experiment (Liutkus et al., "Relative Positional
Encoding for Transformers with Linear Complexity", 2021, appendix C.2): note-ons, note-offs and
time shifts for three tracks, without dynamics and without bar lines.
"""

from __future__ import annotations

import numpy as np

from tokenization.vocabulary import Vocabulary

TRACKS = ("Bass", "Drums", "Other")
BASS, DRUMS, OTHER = range(3)
PARTS = tuple(track.casefold() for track in TRACKS)  # what commands and requests call them
PITCHES = 128
KEYS = len(TRACKS) * PITCHES  # a key is a pitch of a track: track · 128 + pitch

TICKS_PER_BEAT = 12
BAR_TICKS = 4 * TICKS_PER_BEAT
FARTHEST_BEATS = 2  # the longest shift is that of two beats to tick 0
SHIFTS = (
    *((0, tick) for tick in range(1, TICKS_PER_BEAT)),
    *((1, tick) for tick in range(TICKS_PER_BEAT)),
    (FARTHEST_BEATS, 0),
)
MOST_UNISONS = 8  # notes of one key that may sound at once

VOCABULARY = Vocabulary(
    [
        ("special", ["begin", "end"]),
        ("note_on", [f"note_on_{t}_{p}" for t in range(len(TRACKS)) for p in range(PITCHES)]),
        ("note_off", [f"note_off_{t}_{p}" for t in range(len(TRACKS)) for p in range(PITCHES)]),
        ("time_shift", [f"time_shift_{beats}_{tick}" for beats, tick in SHIFTS]),
    ]
)
BEGIN, END = VOCABULARY.id("begin"), VOCABULARY.id("end")
NOTE_ON, NOTE_OFF = VOCABULARY["note_on"], VOCABULARY["note_off"]
TIME_SHIFT = VOCABULARY["time_shift"]
LONG_SHIFT = VOCABULARY.id("time_shift_2_0")
SHIFT_BEATS, SHIFT_TICK = np.array(SHIFTS).T  # (24,) each


def shift_id(beats: np.ndarray, tick: np.ndarray) -> np.ndarray:
    """Return the id of the shift by 0 or 1 beats to a tick; (0, 0) has none."""
    return TIME_SHIFT.start - 1 + TICKS_PER_BEAT * beats + tick
