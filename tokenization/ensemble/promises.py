"""What every part keeps to, whatever the model prefers: its instrument's range, and one voice where it is one.

A part that is given keeps to what it did as well: its range is at least that of its notes, and chords stay possible
where it had some.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tokenization.ensemble.spelling import Sheet
from tokenization.ensemble.tokens import INSTRUMENTS, PITCHED

# Sounding ranges that players of each instrument read, after Adler, The Study of Orchestration; all others are free.
RANGES = {
    "piano": (21, 108), "harpsichord": (29, 89), "accordion": (36, 96), "nylon_guitar": (40, 88),
    "steel_guitar": (40, 88), "electric_guitar": (40, 91), "muted_guitar": (40, 91), "distorted_guitar": (40, 91),
    "acoustic_bass": (24, 67), "electric_bass": (23, 67), "fretless_bass": (23, 67), "violin": (55, 103),
    "viola": (48, 91), "cello": (36, 84), "contrabass": (24, 67), "strings": (28, 103), "pizzicato": (28, 103),
    "harp": (23, 104), "timpani": (38, 60), "voice": (40, 84), "trumpet": (52, 86), "trombone": (34, 77),
    "tuba": (26, 65), "horn": (34, 77), "brass": (34, 86), "alto_sax": (49, 86), "tenor_sax": (37, 79),
    "oboe": (58, 93), "bassoon": (34, 77), "clarinet": (50, 94), "flute": (59, 98), "recorder": (48, 98),
}  # fmt: skip
# Instruments that play one note at a time.
SINGLE = (
    "voice", "trumpet", "trombone", "tuba", "horn", "alto_sax", "tenor_sax", "oboe", "bassoon", "clarinet", "flute",
    "recorder",
)  # fmt: skip
FEWEST_ATTACKS = 12  # of a given part that show whether it is one voice
CHORDS_IN_ONE_VOICE = 0.03  # of the attacks of a part that counts as one voice

LOWEST, HIGHEST = (
    np.array([RANGES.get(name, (0, 127))[side] for name in INSTRUMENTS]) for side in (0, 1)
)
IS_SINGLE = np.array([name in SINGLE for name in INSTRUMENTS])


@dataclass(frozen=True, kw_only=True, eq=False)
class Promises:
    """The bounds of each part: (P,) each."""

    lowest: np.ndarray
    highest: np.ndarray
    single: np.ndarray  # whether it attacks one note at a time

    def of(self, order: Sequence[int]) -> Promises:
        """Return the bounds of the parts in another order."""
        return Promises(
            lowest=self.lowest[order], highest=self.highest[order], single=self.single[order]
        )

    def of_part(self, part: int, instrument: int) -> tuple[int, int, bool]:
        """Return the bounds of a part; those of its instrument if it is not among these parts."""
        if part < len(self.single):
            return self.lowest[part], self.highest[part], self.single[part]
        return LOWEST[instrument], HIGHEST[instrument], IS_SINGLE[instrument]


def promises_of(parts: np.ndarray, given: Sheet | None = None) -> Promises:
    """Return the bounds of parts of these instruments, which have the given notes; parts can follow the given ones."""
    pitched = parts < PITCHED
    instrument = np.where(pitched, parts, 0)
    lowest = np.where(pitched, LOWEST[instrument], 0)
    highest = np.where(pitched, HIGHEST[instrument], 127)
    single = pitched & IS_SINGLE[instrument]
    if given is None:
        return Promises(lowest=lowest, highest=highest, single=single)
    for part in np.unique(given.part):
        if part >= len(parts) or not pitched[part]:
            continue
        own = given.part == part
        value, onset = given.value[own], given.onset[own]
        lowest[part] = min(lowest[part], value.min())
        highest[part] = max(highest[part], value.max())
        attacks, notes = np.unique(onset, return_counts=True)
        if len(attacks) >= FEWEST_ATTACKS:
            single[part] = (notes > 1).mean() <= CHORDS_IN_ONE_VOICE
        elif (notes > 1).any():
            single[part] = False
    return Promises(lowest=lowest, highest=highest, single=single)
