"""Names of notes by the key, and where drums stand on the staff."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tokenization.analysis.chord_names import LETTERS
from tokenization.score import Score

_LINE = "FCGDAEB"  # of fifths: F is −1, C 0
_SCALE = np.arange(-1, 6)  # of C, by fifths: F C G D A E B
# General MIDI drum → step and octave of the line or space it is usually written on.
DRUM_PLACES = {
    **{35: ("F", 4), 36: ("F", 4), 37: ("C", 5), 38: ("C", 5), 40: ("C", 5), 39: ("C", 5)},
    **{41: ("A", 4), 43: ("A", 4), 45: ("D", 5), 47: ("D", 5), 48: ("E", 5), 50: ("E", 5)},
    **{42: ("G", 5), 44: ("D", 4), 46: ("G", 5), 49: ("A", 5), 57: ("A", 5), 51: ("F", 5)},
    **{52: ("A", 5), 53: ("F", 5), 55: ("A", 5), 59: ("F", 5)},
}


class Key(NamedTuple):
    """The key of a piece, for those who write its notes down."""

    fifths: int  # sharps of its signature, flats if negative
    centre: int  # a place on the line of fifths: half of the scale, as heard, lies either side


def key_of(score: Score) -> Key:
    """Return the key, of −5 to 6 sharps, whose scale holds most of the pitched music."""
    notes = score.pitched
    if not len(notes):
        return Key(0, 1)
    weight = np.bincount(notes.pitch % 12, weights=notes.duration_ticks, minlength=12)
    scales = {
        fifths: weight[(7 * (fifths + _SCALE)) % 12] for fifths in sorted(range(-5, 7), key=abs)
    }
    fifths = max(scales, key=lambda fifths: scales[fifths].sum())
    durations = np.cumsum(scales[fifths])
    return Key(fifths, fifths + int(_SCALE[np.searchsorted(durations, durations[-1] / 2)]))


def spelled(pitch: int, centre: int) -> tuple[str, int, int]:
    """Return step, alteration and octave of a pitch in a piece whose key has this centre.

    Twelve neighbours on the line of fifths name the twelve pitches, five below the centre and six above it: B♭ and
    E♭ in G minor, never A♯, and F♯, which leads to its tonic, though the signature is that of B♭ major. So each tone
    outside the scale has the name that the chromatic scales on most tones of the piece give it.
    """
    first = centre - 5
    place = first + (pitch * 7 - first) % 12
    step, alter = _LINE[(place + 1) % 7], (place + 1) // 7
    return step, alter, (pitch - alter - LETTERS[step]) // 12 - 1
