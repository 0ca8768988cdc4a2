"""REMI's alphabet: its grid in time, its vocabulary, and what the number of a token means.

The event set is that of the pop piano language (Huang & Yang, "Pop Music Transformer", 2020), in
the form with chords, tempos of 3 quarter notes a minute and 24 volume levels.
"""

from __future__ import annotations

import numpy as np

from tokenization.chord_names import CHORDS
from tokenization.vocabulary import Vocabulary

BAR_BEATS = 4
SUBBEATS_PER_BEAT = 4
BAR_SUBBEATS = BAR_BEATS * SUBBEATS_PER_BEAT
SUBBEAT_TICKS = 2  # durations are counted in half sub-beats, onsets in whole ones
BAR_TICKS = BAR_SUBBEATS * SUBBEAT_TICKS
TICKS_PER_BEAT = SUBBEATS_PER_BEAT * SUBBEAT_TICKS
LONGEST_TICKS = BAR_TICKS

LOWEST_PITCH, HIGHEST_PITCH = 21, 108
KEYS = HIGHEST_PITCH - LOWEST_PITCH + 1
VOLUMES = 24
SLOWEST, FASTEST, TEMPO_STEP = 32, 224, 3  # quarter notes a minute

CHORD_INDEX = {name: index for index, name in enumerate(CHORDS)}

VOCABULARY = Vocabulary(
    [
        ("special", ["padding", "begin", "end"]),
        ("bar", ["bar"]),
        ("subbeat", [f"subbeat_{s}" for s in range(BAR_SUBBEATS)]),
        ("tempo", [f"tempo_{t}" for t in range(SLOWEST, FASTEST + 1, TEMPO_STEP)]),
        ("chord", [f"chord_{name}" for name in CHORDS]),
        ("pitch", [f"pitch_{p}" for p in range(LOWEST_PITCH, HIGHEST_PITCH + 1)]),
        ("volume", [f"volume_{v}" for v in range(1, VOLUMES + 1)]),
        (
            "duration",
            [f"duration_{t / SUBBEAT_TICKS:g}" for t in range(1, LONGEST_TICKS + 1)],
        ),
    ]
)
BEGIN, END = VOCABULARY.id("begin"), VOCABULARY.id("end")
BAR = VOCABULARY.id("bar")
SUBBEAT, TEMPO, CHORD = VOCABULARY["subbeat"], VOCABULARY["tempo"], VOCABULARY["chord"]
PITCH, VOLUME, DURATION = VOCABULARY["pitch"], VOCABULARY["volume"], VOCABULARY["duration"]


def tempo_level(beats_per_minute: np.ndarray) -> np.ndarray:
    """Return the nearest tempo level; the mean of a steady tempo is the same level every bar."""
    # A tempo half-way between two levels must not flicker with the last digits of a mean.
    steps = (np.round(beats_per_minute, 6) - SLOWEST) / TEMPO_STEP
    return np.clip(np.floor(steps + 0.5), 0, len(TEMPO) - 1).astype(np.int64)


def level_tempo(level: np.ndarray) -> np.ndarray:
    """Return the quarter notes a minute of a tempo level."""
    return SLOWEST + TEMPO_STEP * np.asarray(level, dtype=np.float64)


def volume_level(velocity: np.ndarray) -> np.ndarray:
    """Return the level, 0 … 23, that holds a velocity: 24 equal parts of 1 … 127."""
    return (np.clip(velocity, 1, 127) * VOLUMES - 1) // 127


def level_velocity(level: np.ndarray) -> np.ndarray:
    """Return the velocity in the middle of a level."""
    return ((2 * np.asarray(level) + 1) * 127 + VOLUMES) // (2 * VOLUMES)
