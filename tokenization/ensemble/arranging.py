"""What each of several new parts does in each section of the given music, so that parts and sections differ.

One part holds its notes, one moves, and one plays chords, in registers of their own, which change from section to
section, as that of the bass does. A section lasts until the given parts have played something new for some bars.

K bars, P parts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tokenization.ensemble.tokens import FAMILIES, PART_NAMES, PITCHED

HOLDS, MOVES, CHORDS = range(3)  # roles; of further parts too, in turn
BASS, NO_ROLE = 3, -1
VOICES = np.array([1, 1, 3, 1])  # of each role
EXCHANGED = np.array([HOLDS, CHORDS, MOVES, BASS, NO_ROLE])  # roles in every second section
_HOLDING = (
    "strings", "pad", "organ", "accordion", "voice", "brass", "violin", "viola", "cello", "contrabass", "horn",
)  # fmt: skip
_MOVING = (*FAMILIES["guitar"], "harp", "mallets", "plucked", "pizzicato", "flute", "clarinet")
BASSES = [PART_NAMES.index(name) for name in (*FAMILIES["bass"], "contrabass", "tuba")]
FEWEST = 4  # bars of which sections are made
LONGEST = 16  # bars of a section without returns
# The middle of the lowest part, in sections in turn, and that of the bass.
REGISTERS, BASS_REGISTERS = np.array([50, 62, 56]), np.array([34, 44, 39])
APART = 5  # semitones from the middle of one part to the next one's


@dataclass(frozen=True, kw_only=True, eq=False)
class Arrangement:
    """What each part does in each bar; parts without a role are free."""

    role: np.ndarray  # (K, P) HOLDS, MOVES, CHORDS, BASS or NO_ROLE
    middle: np.ndarray  # (K, P) the middle of its register

    @classmethod
    def of(cls, parts: np.ndarray, written: np.ndarray, back: np.ndarray) -> Arrangement:
        """Return what the written parts of these instruments do, by how many bars back each bar returns."""
        chosen = np.flatnonzero(written & (parts < PITCHED) & ~np.isin(parts, BASSES))
        role, rank = np.full(len(parts), NO_ROLE), np.zeros(len(parts), dtype=np.int64)
        if len(chosen) > 1:
            role[chosen] = [_role(PART_NAMES[part]) for part in parts[chosen]]
            if (role[chosen] == role[chosen[0]]).all():
                role[chosen] = np.arange(len(chosen)) % BASS
            rank[chosen] = np.arange(len(chosen))
            role[written & np.isin(parts, BASSES)] = BASS
        section = sections_of(back)[:, None]
        turn = section % len(REGISTERS)
        return cls(
            role=np.where(section % 2, EXCHANGED[role], role),
            middle=np.where(role == BASS, BASS_REGISTERS[turn], REGISTERS[turn] + APART * rank),
        )


def _role(instrument: str) -> int:
    if instrument in _HOLDING:
        return HOLDS
    return MOVES if instrument in _MOVING else CHORDS


def phrases_of(back: np.ndarray) -> np.ndarray:
    """Return which bars begin a phrase: the first one, a section, or a return: (K,) bool."""
    source, section = _lasting(back), sections_of(back)
    begins = np.append(True, (np.diff(section) != 0) | ((np.diff(source) != 0) & (source[1:] > 0)))
    return begins[: len(back)]


def _lasting(back: np.ndarray, fewest: int = FEWEST) -> np.ndarray:
    """Return from how many bars back each bar returns, 0 also for returns of fewer bars: (K,)."""
    edges = np.flatnonzero(np.diff(back, prepend=-1, append=-1))
    return np.where(np.repeat(np.diff(edges) >= fewest, np.diff(edges)), back, 0)


def sections_of(back: np.ndarray) -> np.ndarray:
    """Return the number of each bar's section, from how many bars back it returns, 0 for new bars: (K,).

    Sections consist of FEWEST bars each, counted from the first one, most of which are new or return to one section. If
    they do neither, as where a phrase ends like another one, they belong to the section before them.
    """
    source = _lasting(back, FEWEST - 1)  # one bar may be varied
    found = np.zeros(len(back), dtype=np.int64)
    latest, begun, was_new = -1, 0, False
    for start in range(0, len(back), FEWEST):
        bars = slice(start, min(start + FEWEST, len(back)))
        distances, many = np.unique(source[bars], return_counts=True)
        distance = int(distances[many.argmax()])
        if start and 2 * many.max() <= bars.stop - start:
            found[bars] = found[start - 1]
        elif distance:
            found[bars], was_new = found[max(start - distance, 0)], False
        else:
            if not was_new or start - begun >= LONGEST:
                latest, begun = latest + 1, start
            found[bars], was_new = latest, True
    return found
