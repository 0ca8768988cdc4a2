"""Statistics of single pieces.

The formulas are those of the cited papers, mostly as in MusPy. Where MusPy's code departs from its formulas, this code
does not: MusPy adds an empty bar or beat to a piece that ends on a line, lets a note sound in the beat at whose start
it ends, and implements "two or more pitches" as more than two. Bars have four quarter notes; time is quantised to 12
steps per beat. A statistic that is undefined for a piece is None.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tokenization.analysis.chords import PITCH_CLASSES, TONES, chord_changes_in_four_four
from tokenization.score import Notes, Score

STEPS_PER_BEAT = 12
BAR_STEPS = 4 * STEPS_PER_BEAT
PITCHES = 128
NOTES_PER_BAR = "notes_a_bar"  # name of this statistic
SOUNDING = "sounding"  # the mean number of notes of a part that sound at once
MAJOR = np.array([1, 0, 1, 0, 1, 1, 0, 1, 0, 1, 0, 1], dtype=bool)
MINOR = np.array([1, 0, 1, 1, 0, 1, 0, 1, 1, 0, 1, 0], dtype=bool)  # natural
SCALES = np.array([np.roll(scale, root) for scale in (MAJOR, MINOR) for root in range(12)])


def statistics(score: Score) -> dict[str, float | None]:
    """Return all statistics of a piece by name."""
    music = score.rescaled(STEPS_PER_BEAT)
    return {name: statistic.measure(music) for name, statistic in STATISTICS.items()}


def _bars(music: Score) -> int:
    """Return the number of bars of four beats up to the end of the last note."""
    return -(-music.end_ticks // BAR_STEPS)


def pitch_class_entropy(music: Score) -> float | None:
    """Return the entropy of the 12 pitch classes, 0 … 3.58 bits, without drums (Wu & Yang 2020)."""
    return entropy(music.pitched.pitch % 12)


def entropy(values: np.ndarray) -> float | None:
    """Return the entropy −Σ p log₂ p of discrete values, in bits; None if there are none."""
    share = shares(values)
    return float(np.abs(share @ np.log2(share))) if len(share) else None


def shares(values: np.ndarray) -> np.ndarray:
    """Return the relative frequency of each of the K distinct values: (K,)."""
    return np.unique(values, return_counts=True)[1] / max(len(values), 1)


def scale_consistency(music: Score) -> float | None:
    """Return the largest fraction of notes in one major or minor scale, without drums (Mogren 2016)."""
    if not len(music.pitched):
        return None
    classes = np.bincount(music.pitched.pitch % 12, minlength=12)
    return float((SCALES @ classes).max() / len(music.pitched))


def groove_consistency(music: Score) -> float | None:
    """Return 1 − the mean fraction of steps at which adjacent bars differ in having an onset (Wu & Yang 2020).

    All tracks count together; None for fewer than two bars.
    """
    if (bars := _bars(music)) < 2:
        return None
    patterns = np.zeros(bars * BAR_STEPS, dtype=bool)
    patterns[music.notes.onset_ticks] = True
    patterns = patterns.reshape(bars, BAR_STEPS)
    return 1 - float((patterns[1:] != patterns[:-1]).mean())


def polyphony(music: Score) -> float | None:
    """Return the mean number of sounding pitches over the steps that have any, without drums."""
    sounding = _sounding_pitches(music.pitched)
    return float(sounding[sounding > 0].mean()) if sounding.any() else None


def polyphony_rate(music: Score) -> float | None:
    """Return the fraction of steps with two or more sounding pitches, without drums (Dong et al. 2018)."""
    if not len(music.pitched):
        return None
    return float((_sounding_pitches(music.pitched) >= 2).sum() / music.end_ticks)


def empty_beat_rate(music: Score) -> float | None:
    """Return the fraction of beats in which no note of any track sounds (Dong et al. 2018)."""
    if not music.end_ticks:
        return None
    sounding = np.flatnonzero(_sounding_pitches(music.notes))
    beats = -(-music.end_ticks // STEPS_PER_BEAT)
    return 1 - len(np.unique(sounding // STEPS_PER_BEAT)) / beats


def notes_a_bar(music: Score) -> float | None:
    """Return the mean number of notes per bar, over all tracks."""
    bars = _bars(music)
    return len(music.notes) / bars if bars else None


def pitch_range(music: Score) -> float | None:
    """Return the interval from the lowest to the highest pitch in semitones, without drums."""
    if not len(music.pitched):
        return None
    return float(music.pitched.pitch.max() - music.pitched.pitch.min())


def note_length(music: Score) -> float | None:
    """Return the mean duration of notes in beats, without drums."""
    if not len(music.pitched):
        return None
    return float(music.pitched.duration_ticks.mean() / STEPS_PER_BEAT)


def repeated_bar_share(music: Score) -> float | None:
    """Return the fraction of bars whose onsets (time, pitch, track) equal those of an earlier bar.

    Counts bars with notes, from the second on; None if there are fewer than two.
    """
    bars = bars_of(music.notes, BAR_STEPS)
    return (len(bars) - len(set(bars))) / (len(bars) - 1) if len(bars) > 1 else None


def bars_of(notes: Notes, bar_ticks: int) -> list[bytes]:
    """Return the onsets, tracks and pitches of each bar that has notes, as bytes to compare bars by."""
    onset = notes.onset_ticks % bar_ticks
    bar = notes.onset_ticks // bar_ticks
    cells = np.stack([bar, onset, notes.track, notes.pitch], axis=1)
    cells = cells[np.lexsort(cells.T[::-1])]
    starts = np.flatnonzero(np.diff(cells[:, 0])) + 1
    return [part.tobytes() for part in np.split(cells[:, 1:], starts) if len(part)]


@dataclass(frozen=True)
class Statistic:
    """A function that measures a score on the grid of steps, with its title and unit."""

    measure: Callable[[Score], float | None]
    title: str
    unit: str = ""


_ALL = (
    Statistic(pitch_class_entropy, "pitch-class entropy", "bits"),
    Statistic(scale_consistency, "scale consistency"),
    Statistic(groove_consistency, "groove consistency"),
    Statistic(polyphony, "polyphony", "pitches"),
    Statistic(polyphony_rate, "polyphony rate"),
    Statistic(empty_beat_rate, "empty-beat rate"),
    Statistic(notes_a_bar, "notes per bar", "notes"),
    Statistic(pitch_range, "pitch range", "semitones"),
    Statistic(note_length, "note length", "beats"),
    Statistic(repeated_bar_share, "repeated-bar rate"),
)
STATISTICS = {statistic.measure.__name__: statistic for statistic in _ALL}


def _sounding_pitches(notes: Notes) -> np.ndarray:
    """Return the number of distinct pitches that sound at each step: (steps,)."""
    steps = int(notes.end_ticks.max(initial=0))
    change = np.zeros((steps + 1, PITCHES), dtype=np.int32)
    np.add.at(change, (notes.onset_ticks, notes.pitch), 1)
    np.add.at(change, (notes.end_ticks, notes.pitch), -1)
    return np.count_nonzero(np.cumsum(change, axis=0, out=change), axis=1)[:-1]


# Harmony: the fraction of chord tones. Chords are recognised from all pitched parts of the real piece, including the
# hidden one, so that the true part can be measured for comparison; because of passing notes it stays below 1.

HARMONY = "in_harmony"  # name of this metric


def in_harmony(part: Notes, pitched: Notes, ticks_per_beat: int) -> float | None:
    """Return the fraction of a part's notes that are tones of the chord of the piece at their onset.

    The pitched notes of the piece are in bars of four beats. None if no note begins during a chord.
    """
    if not len(pitched):
        return None
    ticks, chords = chord_changes_in_four_four(pitched, ticks_per_beat)
    change = np.searchsorted(ticks, part.onset_ticks, side="right") - 1
    tones = TONES[chords[np.maximum(change, 0)]]  # (N, 12)
    counted = tones.any(axis=1) & (change >= 0)
    if not counted.any():
        return None
    inside = tones[np.arange(len(part)), part.pitch % PITCH_CLASSES]
    return float(inside[counted].mean())
