"""Statistics of one piece of music, by which outputs are compared with real pieces.

Formulas are those of the sources named, most of them as MusPy has them; where MusPy's code departs from its formula
(it adds an empty bar or beat after a piece that ends on a line, lets a note sound in the beat that it ends with, and
takes "two pitches or more" as more than two), ours keeps to the formula. Beats are quarter notes and bars have four.
Time is counted on a grid of 12 steps a beat. A statistic that a piece does not have is None, never 0 or NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tokenization.score import Notes, Score

STEPS_PER_BEAT = 12
BAR_STEPS = 4 * STEPS_PER_BEAT
PITCHES = 128
NOTES_A_BAR = "notes_a_bar"  # what it is called among statistics
SOUNDING = "sounding"  # the mean number of notes that sound, where that is told of a part
MAJOR = np.array([1, 0, 1, 0, 1, 1, 0, 1, 0, 1, 0, 1], dtype=bool)
MINOR = np.array([1, 0, 1, 1, 0, 1, 0, 1, 1, 0, 1, 0], dtype=bool)  # natural
SCALES = np.array([np.roll(scale, root) for scale in (MAJOR, MINOR) for root in range(12)])


@dataclass(frozen=True, kw_only=True)
class Music:
    """A piece on the grid of steps, or a part of one that starts on a bar line."""

    notes: Notes
    pitched: Notes  # all but the drums

    @property
    def steps(self) -> int:
        """The step at which the last note ends."""
        return int(self.notes.end_ticks.max(initial=0))

    @property
    def bars(self) -> int:
        """How many bars have begun by then."""
        return -(-self.steps // BAR_STEPS)


def music_of(score: Score) -> Music:
    """Return a score's notes on the grid."""
    score = score.rescaled(STEPS_PER_BEAT)
    return Music(notes=score.notes, pitched=score.pitched)


def statistics(score: Score) -> dict[str, float | None]:
    """Return every statistic of a piece by name."""
    music = music_of(score)
    return {name: statistic.measure(music) for name, statistic in STATISTICS.items()}


def pitch_class_entropy(music: Music) -> float | None:
    """Return −Σ p log₂ p over the 12 pitch classes, 0 … 3.58 bits; without drums (Wu & Yang 2020)."""
    share = np.bincount(music.pitched.pitch % 12, minlength=12) / max(len(music.pitched), 1)
    share = share[share > 0]
    return float(np.abs(share @ np.log2(share))) if len(share) else None


def scale_consistency(music: Music) -> float | None:
    """Return the largest share of notes in one major or minor scale, 0 … 1; without drums (Mogren 2016)."""
    if not len(music.pitched):
        return None
    classes = np.bincount(music.pitched.pitch % 12, minlength=12)
    return float((SCALES @ classes).max() / len(music.pitched))


def groove_consistency(music: Music) -> float | None:
    """Return 1 − the mean share of steps at which two neighbouring bars differ in having an onset (Wu & Yang 2020).

    0 … 1, of all tracks together; None for less than two bars.
    """
    if music.bars < 2:
        return None
    patterns = np.zeros(music.bars * BAR_STEPS, dtype=bool)
    patterns[music.notes.onset_ticks] = True
    patterns = patterns.reshape(music.bars, BAR_STEPS)
    return 1 - float((patterns[1:] != patterns[:-1]).mean())


def polyphony(music: Music) -> float | None:
    """Return the mean number of pitches that sound at a step, of steps with one at least; without drums."""
    sounding = _sounding_pitches(music.pitched)
    return float(sounding[sounding > 0].mean()) if sounding.any() else None


def polyphony_rate(music: Music) -> float | None:
    """Return the share of all steps with two pitches or more, 0 … 1; without drums (Dong et al. 2018)."""
    if not len(music.pitched):
        return None
    return float((_sounding_pitches(music.pitched) >= 2).sum() / music.steps)


def empty_beat_rate(music: Music) -> float | None:
    """Return the share of beats in which no note of any track sounds, 0 … 1 (Dong et al. 2018)."""
    if not music.steps:
        return None
    change = np.zeros(music.steps + 1, dtype=np.int64)
    np.add.at(change, music.notes.onset_ticks, 1)
    np.add.at(change, music.notes.end_ticks, -1)
    sounding = np.flatnonzero(np.cumsum(change))
    beats = -(-music.steps // STEPS_PER_BEAT)
    return 1 - len(np.unique(sounding // STEPS_PER_BEAT)) / beats


def notes_a_bar(music: Music) -> float | None:
    """Return notes of all tracks by bars."""
    return len(music.notes) / music.bars if music.bars else None


def pitch_range(music: Music) -> float | None:
    """Return highest − lowest pitch in semitones, 0 … 127; without drums."""
    if not len(music.pitched):
        return None
    return float(music.pitched.pitch.max() - music.pitched.pitch.min())


def note_length(music: Music) -> float | None:
    """Return the mean duration of a note in beats; without drums."""
    if not len(music.pitched):
        return None
    return float(music.pitched.duration_ticks.mean() / STEPS_PER_BEAT)


def repeated_bar_share(music: Music) -> float | None:
    """Return the share of bars whose onsets (time, pitch, track) are those of an earlier bar, 0 … 1.

    Of the bars with notes, from the second on; None for less than two of these.
    """
    bars = bars_of(music.notes, BAR_STEPS)
    return (len(bars) - len(set(bars))) / (len(bars) - 1) if len(bars) > 1 else None


def bars_of(notes: Notes, bar_ticks: int) -> list[bytes]:
    """Return what is played in each bar that has notes: equal bytes are equal onsets, pitches and tracks."""
    place = notes.onset_ticks % bar_ticks
    bar = notes.onset_ticks // bar_ticks
    cells = np.stack([bar, place, notes.track, notes.pitch], axis=1)
    cells = cells[np.lexsort(cells.T[::-1])]
    starts = np.flatnonzero(np.diff(cells[:, 0])) + 1
    return [part.tobytes() for part in np.split(cells[:, 1:], starts) if len(part)]


@dataclass(frozen=True, kw_only=True)
class Statistic:
    """A number of a piece, and what to call it."""

    title: str
    unit: str  # empty for a share
    measure: Callable[[Music], float | None]


STATISTICS: dict[str, Statistic] = {
    "pitch_class_entropy": Statistic(
        title="pitch-class entropy", unit="bits", measure=pitch_class_entropy
    ),
    "scale_consistency": Statistic(title="scale consistency", unit="", measure=scale_consistency),
    "groove_consistency": Statistic(
        title="groove consistency", unit="", measure=groove_consistency
    ),
    "polyphony": Statistic(title="polyphony", unit="pitches", measure=polyphony),
    "polyphony_rate": Statistic(title="polyphony rate", unit="", measure=polyphony_rate),
    "empty_beat_rate": Statistic(title="empty-beat rate", unit="", measure=empty_beat_rate),
    NOTES_A_BAR: Statistic(title="notes a bar", unit="notes", measure=notes_a_bar),
    "pitch_range": Statistic(title="pitch range", unit="semitones", measure=pitch_range),
    "note_length": Statistic(title="note length", unit="beats", measure=note_length),
    "repeated_bar_share": Statistic(
        title="repeated-bar share", unit="", measure=repeated_bar_share
    ),
}


def _sounding_pitches(notes: Notes) -> np.ndarray:
    """Return how many different pitches sound at each step up to the last one's end."""
    steps = int(notes.end_ticks.max(initial=0))
    change = np.zeros((steps + 1, PITCHES), dtype=np.int32)
    np.add.at(change, (notes.onset_ticks, notes.pitch), 1)
    np.add.at(change, (notes.end_ticks, notes.pitch), -1)
    return np.count_nonzero(np.cumsum(change, axis=0, out=change), axis=1)[:-1]
