"""What every part keeps to, whatever the model prefers: its instrument's range, and how many notes it plays at once.

A part that is given keeps to what it did as well: its range is at least that of its notes, and chords stay possible
where it had some.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tokenization.ensemble.spelling import Sheet, instrument_of
from tokenization.ensemble.tokens import HARMONY, INSTRUMENTS, PITCHED
from tokenization.score import Score

# Sounding ranges that players of each instrument read, after Adler, The Study of Orchestration; all others are free.
RANGES = {
    "piano": (21, 108), "harpsichord": (29, 89), "accordion": (36, 96), "nylon_guitar": (40, 88),
    "steel_guitar": (40, 88), "electric_guitar": (40, 91), "muted_guitar": (40, 91), "distorted_guitar": (40, 91),
    "acoustic_bass": (28, 67), "electric_bass": (23, 67), "fretless_bass": (23, 67), "violin": (55, 103),
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
# Notes that other instruments attack at once, at most: strings, hands and feet.
MOST, STRINGS, BOWED, DRUMMED = 10, 6, 4, 4
FEWEST_ATTACKS = 12  # of a given part that show its voices, and how many notes it has at once
FULLER = 3, 1  # notes at once more than before, at most, after fewer attacks, and after so many
CHORDS_IN_ONE_VOICE = 0.03  # of the attacks of a part that counts as one voice
RINGING = 0.2  # of its notes, at most, sound a sixteenth into the next one in a voice that does not ring on

LOWEST, HIGHEST = (
    np.array([RANGES.get(name, (0, 127))[side] for name in INSTRUMENTS]) for side in (0, 1)
)
IS_SINGLE = np.array([name in SINGLE for name in INSTRUMENTS])


def _at_once(name: str) -> int:
    if name in SINGLE:
        return 1
    bowed = name in ("violin", "viola", "cello") or name.endswith("bass")
    return STRINGS if name.endswith("guitar") else BOWED if bowed else MOST


AT_ONCE = np.array([_at_once(name) for name in INSTRUMENTS])


@dataclass(frozen=True, kw_only=True, eq=False)
class Promises:
    """The bounds of each part: (P,) each."""

    lowest: np.ndarray
    highest: np.ndarray
    at_once: np.ndarray  # notes that it attacks at a time, at most

    def of(self, order: Sequence[int]) -> Promises:
        """Return the bounds of the parts in another order."""
        return Promises(
            lowest=self.lowest[order], highest=self.highest[order], at_once=self.at_once[order]
        )

    def of_part(self, part: int, instrument: int) -> tuple[int, int, int]:
        """Return the bounds of a part; those of its instrument if it is not among these parts."""
        if part < len(self.at_once):
            return self.lowest[part], self.highest[part], self.at_once[part]
        if instrument >= PITCHED:
            return 0, 127, DRUMMED
        return LOWEST[instrument], HIGHEST[instrument], AT_ONCE[instrument]


def promises_of(parts: np.ndarray, given: Sheet | None = None) -> Promises:
    """Return the bounds of parts of these instruments, which have the given notes; parts can follow the given ones."""
    pitched = parts < PITCHED
    instrument = np.where(pitched, parts, 0)
    lowest = np.where(pitched, LOWEST[instrument], 0)
    highest = np.where(pitched, HIGHEST[instrument], 127)
    at_once = np.where(pitched, AT_ONCE[instrument], DRUMMED)
    if given is None:
        return Promises(lowest=lowest, highest=highest, at_once=at_once)
    for part in np.unique(given.part):
        if part >= len(parts) or parts[part] == HARMONY:
            continue
        own = given.part == part
        value, onset = given.value[own], given.onset[own]
        attacks = np.unique(onset, return_counts=True)[1]
        most = attacks.max()
        if not pitched[part]:
            at_once[part] = max(at_once[part], most)
            continue
        lowest[part] = min(lowest[part], value.min())
        highest[part] = max(highest[part], value.max())
        one_voice = _is_one_voice(onset, at_once[part] == 1)
        usual = MOST if at_once[part] == 1 else at_once[part]
        usual = min(usual, most + FULLER[len(attacks) >= FEWEST_ATTACKS])
        at_once[part] = 1 if one_voice else max(usual, most)
    return Promises(lowest=lowest, highest=highest, at_once=at_once)


def _is_one_voice(onset: np.ndarray, usual: bool) -> bool:
    """Return whether a part with these onsets is one voice; `usual`: whether its instrument is."""
    attacks, notes = np.unique(onset, return_counts=True)
    if len(attacks) >= FEWEST_ATTACKS:
        return bool((notes > 1).mean() <= CHORDS_IN_ONE_VOICE)
    return usual and not (notes > 1).any()


def not_ringing(score: Score, new: np.ndarray) -> Score:
    """Return a score in which new notes, (N,), of parts of one voice end where the next note of the part begins.

    Parts whose given notes ring on, such as a harp's, do so in new music.
    """
    notes = score.notes
    duration = notes.duration_ticks.copy()
    for index, track in enumerate(score.tracks):
        own = np.flatnonzero(notes.track == index)
        given = own[~new[own]]
        instrument = instrument_of(track)
        usual = instrument < PITCHED and bool(IS_SINGLE[instrument])
        if instrument >= PITCHED or not _is_one_voice(notes.onset_ticks[given], usual):
            continue
        room = time_to_next(notes.onset_ticks[own])
        rings = (duration[own] - room > score.ticks_per_beat // 4)[~new[own]]
        if usual or (len(given) >= FEWEST_ATTACKS and rings.mean() <= RINGING):
            duration[own] = np.where(new[own], np.minimum(duration[own], room), duration[own])
    return score.replace(notes=notes.replace(duration_ticks=duration))


def time_to_next(onset: np.ndarray) -> np.ndarray:
    """Return the time from each onset of a part to its next one; endless from the last one."""
    onsets = np.append(np.unique(onset), np.iinfo(np.int64).max)
    return onsets[np.searchsorted(onsets, onset, side="right")] - onset
