"""Names of notes by the key, and where drums stand on the staff."""

from __future__ import annotations

import numpy as np

from tokenization.score import Score

_LINE = "FCGDAEB"  # of fifths: F is −1, C 0
_SEMITONES = {"C": 0, "D": 2, "E": 4, "F": 5, "G": 7, "A": 9, "B": 11}
_MAJOR = (0, 2, 4, 5, 7, 9, 11)
# General MIDI drum → step and octave of the line or space it is usually written on.
DRUM_PLACES = {
    **{35: ("F", 4), 36: ("F", 4), 37: ("C", 5), 38: ("C", 5), 40: ("C", 5), 39: ("C", 5)},
    **{41: ("A", 4), 43: ("A", 4), 45: ("D", 5), 47: ("D", 5), 48: ("E", 5), 50: ("E", 5)},
    **{42: ("G", 5), 44: ("D", 4), 46: ("G", 5), 49: ("A", 5), 57: ("A", 5), 51: ("F", 5)},
    **{52: ("A", 5), 53: ("F", 5), 55: ("A", 5), 59: ("F", 5)},
}


def key_fifths(score: Score) -> int:
    """Return the key signature, −5 to 6 fifths, whose scale holds most of the pitched music."""
    notes = score.pitched
    weight = np.bincount(notes.pitch % 12, weights=notes.duration_ticks, minlength=12)
    shares = {
        fifths: weight[[(7 * fifths + step) % 12 for step in _MAJOR]].sum()
        for fifths in sorted(range(-5, 7), key=abs)
    }
    return max(shares, key=lambda fifths: shares[fifths])


def spelled(pitch: int, fifths: int) -> tuple[str, int, int]:
    """Return step, alteration and octave of a pitch in a key: B♭ and E♭ in G minor, never A♯.

    Twelve neighbours on the line of fifths name the twelve pitches: from the minor third above the
    tonic's fourth to its raised fourth, so that what the scale lacks is named as music uses it.
    """
    first = fifths - 4
    place = first + (pitch * 7 - first) % 12
    step, alter = _LINE[(place + 1) % 7], (place + 1) // 7
    return step, alter, (pitch - alter - _SEMITONES[step]) // 12 - 1
