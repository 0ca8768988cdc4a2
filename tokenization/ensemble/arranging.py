"""What each of several new parts does in each section of the given music, so that parts and sections differ.

One part holds its notes, one moves, and one plays chords; the bass holds roots or moves through the chords. Who does
what, and in which register, changes from section to section. A section is a phrase of the given parts with its returns.

K bars, P parts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tokenization.ensemble.promises import IS_SINGLE
from tokenization.ensemble.tokens import FAMILIES, PART_NAMES, PITCHED

HOLDS, MOVES, CHORDS = range(3)  # roles; of further parts too, in turn
# A bass walks in every second section; where no other part has a role, it only begins on the bar line.
BASS, WALKS, LINE, NO_ROLE = 3, 4, 5, -1
VOICES = np.array([1, 1, 3, 1, 1, 1])  # of each role
# In every second section:
EXCHANGED = np.array([HOLDS, CHORDS, MOVES, WALKS, WALKS, LINE, NO_ROLE])
_HOLDING = (
    "strings", "pad", "organ", "accordion", "voice", "brass", "violin", "viola", "cello", "contrabass", "horn",
)  # fmt: skip
_MOVING = (*FAMILIES["guitar"], "harp", "mallets", "plucked", "pizzicato", "flute", "clarinet")
BASSES = [PART_NAMES.index(name) for name in (*FAMILIES["bass"], "contrabass", "tuba")]
FEWEST = 4  # bars of which sections are made
LONGEST = 8  # bars of a section without returns
MIDDLES = np.array([61, 57, 52, 33, 33, 33])  # of the register of each role in the first section
HIGHER = np.array([0, 12, 6])  # semitones, in sections in turn
APART = 5  # semitones from the middle of one part to that of the next one with its role


@dataclass(frozen=True, kw_only=True, eq=False)
class Arrangement:
    """What each part does in each bar; parts without a role are free."""

    role: np.ndarray  # (K, P) one of the above
    middle: np.ndarray  # (K, P) the middle of its register

    @classmethod
    def of(
        cls,
        parts: np.ndarray,
        written: np.ndarray,
        back: np.ndarray,
        first: int = 0,
        *,
        to_melody: bool = False,
    ) -> Arrangement:
        """Return what the written parts of these instruments do, by how many bars back each bar returns.

        `first` is the bar of the first downbeat. A part written alone has a role, chords, if it is `to_melody`,
        one voice that is all that is given, and can play them.
        """
        chosen = np.flatnonzero(written & (parts < PITCHED) & ~np.isin(parts, BASSES))
        role, rank = np.full(len(parts), NO_ROLE), np.zeros(len(parts), dtype=np.int64)
        basses = written & np.isin(parts, BASSES)
        role[basses] = LINE
        if len(chosen) > 1:
            role[chosen] = [_role(PART_NAMES[part]) for part in parts[chosen]]
            if (role[chosen] == role[chosen[0]]).all():
                role[chosen] = np.arange(len(chosen)) % BASS
            for part in chosen.tolist():
                rank[part] = (role[:part] == role[part]).sum()
            role[basses] = BASS
        elif to_melody and len(chosen) and not IS_SINGLE[parts[chosen[0]]]:
            role[chosen] = CHORDS
        section = sections_of(back, first)[:, None]
        role = np.where(section % 2, EXCHANGED[role], role)
        return cls(role=role, middle=MIDDLES[role] + HIGHER[section % len(HIGHER)] + APART * rank)


def _role(instrument: str) -> int:
    if instrument in _HOLDING:
        return HOLDS
    return MOVES if instrument in _MOVING else CHORDS


def phrases_of(back: np.ndarray, first: int = 0) -> np.ndarray:
    """Return which bars begin a phrase: the first downbeat, a section, or a return: (K,) bool."""
    source, section = _lasting(back), sections_of(back, first)
    begins = np.append(True, (np.diff(section) != 0) | ((np.diff(source) != 0) & (source[1:] > 0)))
    begins[first : first + 1] = True
    return begins[: len(back)]


def _lasting(back: np.ndarray, fewest: int = FEWEST) -> np.ndarray:
    """Return from how many bars back each bar returns, 0 also for returns of fewer bars: (K,)."""
    edges = np.flatnonzero(np.diff(back, prepend=-1, append=-1))
    return np.where(np.repeat(np.diff(edges) >= fewest, np.diff(edges)), back, 0)


def sections_of(back: np.ndarray, first: int = 0) -> np.ndarray:
    """Return the number of each bar's section, from how many bars back it returns, 0 for new bars: (K,).

    Sections consist of FEWEST bars each, counted from the first downbeat, most of which are new or return to one
    section. If they do neither, as where a phrase ends like another one, they belong to the section before them.
    """
    source = _lasting(back, FEWEST - 1)  # one bar may be varied
    found = np.zeros(len(back), dtype=np.int64)
    latest, begun, was_new = -1, first, False
    for start in range(first, len(back), FEWEST):
        bars = slice(start, min(start + FEWEST, len(back)))
        distances, many = np.unique(source[bars], return_counts=True)
        distance = int(distances[many.argmax()])
        if start > first and 2 * many.max() <= bars.stop - start:
            found[bars] = found[start - 1]
        elif distance and start > first:
            found[bars], was_new = found[max(start - distance, 0)], False
        else:
            if not was_new or start - begun >= LONGEST:
                latest, begun = latest + 1, start
            found[bars], was_new = latest, True
    return found
