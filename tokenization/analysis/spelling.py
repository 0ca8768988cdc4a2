"""Keys and note names of a written score: the signatures of its file, or the estimated key."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tokenization.analysis.chords import LETTERS
from tokenization.score import Score

LINE = "FCGDAEB"  # the line of fifths from F = −1; C = 0
_SCALE = np.arange(-1, 6)  # C major on the line of fifths: F C G D A E B
MIDDLE = 2  # D, the middle of the C major scale on the line of fifths
MINOR_MIDDLE = 3  # so that the leading note of A minor is G♯, and its neighbour D♯
MOST_ACCIDENTALS = 6  # of a signature; a transposed part with more gets the enharmonic one
# A file that states C major, as programs do without being asked, is believed unless another scale holds so many more
# of the notes.
DOUBT = 0.15


class Key(NamedTuple):
    """The key of a piece, for choosing its signature and note names."""

    fifths: int  # sharps of its signature, or flats if negative
    centre: int  # the middle of the note names on the line of fifths

    def transposed(self, semitones: int) -> Key:
        """Return the key that a player reads whose instrument sounds so many semitones higher than written."""
        shift = (-semitones * 7) % 12
        shift -= 12 if shift > 6 else 0
        if abs(self.fifths + shift) > MOST_ACCIDENTALS and semitones % 12:
            shift -= 12 if self.fifths + shift > 0 else -12
        return Key(self.fifths + shift, self.centre + shift)


def keys_of(score: Score) -> list[tuple[int, Key]]:
    """Return the keys of a score with the ticks at which they begin, the first at 0."""
    stated = stated_key(score)
    if stated is None:
        return [(0, key_of(score))]
    changes = [(at, _stated(fifths, bool(minor))) for at, fifths, minor in _rows(score) if at > 0]
    return [(0, _stated(*stated)), *changes]


def stated_key(score: Score) -> tuple[int, bool] | None:
    """Return the first signature of a score, or None if there is none that is believed."""
    stated = score.key_signature
    is_default = stated == (0, False) and not (score.key_changes.onset_ticks > 0).any()
    return None if is_default and _is_doubtful(score) else stated


def _rows(score: Score) -> list[tuple[int, int, int]]:
    return [*zip(*(column.tolist() for column in score.key_changes.columns), strict=True)]


def _stated(fifths: int, minor: bool) -> Key:
    return Key(fifths, fifths + (MINOR_MIDDLE if minor else MIDDLE))


def _weights(score: Score) -> np.ndarray:
    notes = score.pitched
    return np.bincount(notes.pitch % 12, weights=notes.duration_ticks, minlength=12)


def _in_scale(weight: np.ndarray, fifths: int) -> np.ndarray:
    return weight[(7 * (fifths + _SCALE)) % 12]


def _is_doubtful(score: Score) -> bool:
    weight = _weights(score)
    best = max(_in_scale(weight, fifths).sum() for fifths in range(-5, 7))
    return bool(best - _in_scale(weight, 0).sum() > DOUBT * weight.sum())


def key_of(score: Score) -> Key:
    """Return the key, from −5 to 6 sharps, whose scale contains most of the pitched notes by duration."""
    if not len(score.pitched):
        return Key(0, 1)
    weight = _weights(score)
    scales = {fifths: _in_scale(weight, fifths) for fifths in sorted(range(-5, 7), key=abs)}
    fifths = max(scales, key=lambda fifths: scales[fifths].sum())
    durations = np.cumsum(scales[fifths])
    return Key(fifths, fifths + int(_SCALE[np.searchsorted(durations, durations[-1] / 2)]))


def spelled(pitch: int, centre: int) -> tuple[str, int, int]:
    """Return the step, alteration and octave of a pitch in a key with this centre.

    The twelve pitch classes are named by twelve neighbours on the line of fifths, from five below the centre to six
    above it. G minor, for example, gets B♭ and E♭, never A♯, but F♯ as its leading note although its signature is that
    of B♭ major.
    """
    first = centre - 5
    return at_fifth(first + (pitch * 7 - first) % 12, pitch)


def at_fifth(fifth: int, pitch: int) -> tuple[str, int, int]:
    """Return the name of a place on the line of fifths, with the octave of a pitch."""
    step, alter = LINE[(fifth + 1) % 7], (fifth + 1) // 7
    return step, alter, (pitch - alter - LETTERS[step]) // 12 - 1
