"""REMI's tokens: their grid in time, the vocabulary of both versions, and what the number of a token means.

The event set is that of the pop piano language (Huang & Yang, "Pop Music Transformer", 2020), in
the form with chords, tempos of 3 quarter notes a minute and 24 volume levels. The first version
knows bars of 4/4. The second one says more, and what both say has the same ids: bars of every
metre, notes as long as the longest of these, and goals (goal.py).
"""

from __future__ import annotations

import numpy as np

from tokenization.analysis.chord_names import CHORDS
from tokenization.analysis.metres import LONGEST_BAR
from tokenization.analysis.metres import NAMES as METRE_NAMES
from tokenization.goal import GOAL_FAMILIES
from tokenization.vocabulary import Block, Vocabulary

BAR_BEATS = 4
SUBBEATS_PER_BEAT = 4
BAR_SUBBEATS = BAR_BEATS * SUBBEATS_PER_BEAT  # of 4/4
SUBBEAT_TICKS = 2  # durations are counted in half sub-beats, onsets in whole ones
TICKS_PER_BEAT = SUBBEATS_PER_BEAT * SUBBEAT_TICKS

LOWEST_PITCH, HIGHEST_PITCH = 21, 108
KEYS = HIGHEST_PITCH - LOWEST_PITCH + 1
VOLUMES = 24
SLOWEST, FASTEST, TEMPO_STEP = 32, 224, 3  # quarter notes a minute

CHORD_INDEX = {name: index for index, name in enumerate(CHORDS)}


def _durations(first_subbeat: int, subbeats: int) -> list[str]:
    ticks = range(first_subbeat * SUBBEAT_TICKS + 1, subbeats * SUBBEAT_TICKS + 1)
    return [f"duration_{t / SUBBEAT_TICKS:g}" for t in ticks]


_FAMILIES: list[tuple[str, list[str]]] = [
    ("special", ["padding", "begin", "end"]),
    ("bar", ["bar"]),
    ("subbeat", [f"subbeat_{s}" for s in range(BAR_SUBBEATS)]),
    ("tempo", [f"tempo_{t}" for t in range(SLOWEST, FASTEST + 1, TEMPO_STEP)]),
    ("chord", [f"chord_{name}" for name in CHORDS]),
    ("pitch", [f"pitch_{p}" for p in range(LOWEST_PITCH, HIGHEST_PITCH + 1)]),
    ("volume", [f"volume_{v}" for v in range(1, VOLUMES + 1)]),
    ("duration", _durations(0, BAR_SUBBEATS)),
]
_MORE_FAMILIES: list[tuple[str, list[str]]] = [
    ("metre", [f"metre_{name}" for name in METRE_NAMES]),
    ("late_subbeat", [f"subbeat_{s}" for s in range(BAR_SUBBEATS, LONGEST_BAR)]),
    ("long_duration", _durations(BAR_SUBBEATS, LONGEST_BAR)),
    *GOAL_FAMILIES,
]
FOUR_FOUR_ALONE = Vocabulary(_FAMILIES)
# Of the second version: its ids and their meaning hold for the first one too.
VOCABULARY = Vocabulary(_FAMILIES + _MORE_FAMILIES)
BEGIN, END = VOCABULARY.id("begin"), VOCABULARY.id("end")
BAR = VOCABULARY.id("bar")
TEMPO, CHORD, METRE = VOCABULARY["tempo"], VOCABULARY["chord"], VOCABULARY["metre"]
PITCH, VOLUME = VOCABULARY["pitch"], VOCABULARY["volume"]


def _span(*blocks: Block) -> np.ndarray:
    return np.concatenate([np.arange(block.start, block.stop) for block in blocks])


def _values(ids: np.ndarray) -> np.ndarray:
    """Return the place of each token among some ids, 0 for any other: (V,)."""
    values = np.zeros(len(VOCABULARY), dtype=np.int64)
    values[ids] = np.arange(len(ids))
    return values


SUBBEAT_IDS = _span(VOCABULARY["subbeat"], VOCABULARY["late_subbeat"])  # by sub-beat: (24,)
DURATION_IDS = _span(VOCABULARY["duration"], VOCABULARY["long_duration"])  # by ticks − 1: (48,)
SUBBEAT_OF, TICKS_OF = _values(SUBBEAT_IDS), _values(DURATION_IDS) + 1  # (V,) each


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
