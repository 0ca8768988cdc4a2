"""Statistics of a window of bars, in which generated music may differ from real music.

They describe the notes that begin in the window, in any metre, cut at its last bar line, since generated music ends
there. Drums count only in the statistics of time and loudness and in the two of their own. Entropies are in bits. A
statistic that a window lacks the notes for is None.

    notes_a_beat, onsets_a_beat      notes and distinct onsets per beat
    notes_at_onset                   mean number of simultaneous pitched onsets
    loudness_commonest               fraction of notes with the most frequent velocity
    loudness_deviation, loudnesses   standard deviation and number of distinct velocities
    pitches, pitch_range             number of distinct pitches; semitones from lowest to highest
    class_entropy                    entropy of the pitch classes
    top_mean, top_deviation          mean and standard deviation of the pitch of the top notes
    top_repeated, top_step           fraction of top notes equal to the previous one; mean step in semitones
    length_mean, length_commonest    mean duration in beats; fraction of notes with the most frequent duration
    length_entropy                   entropy of the durations
    place_entropy                    entropy of the onsets within the bar, in twelfths of a beat
    bar_deviation                    standard deviation of notes per bar
    bars_repeated                    fraction of non-empty bars, from the second on, equal to an earlier one
    chord_changes                    changes of the recognised chord per bar
    sounding                         mean number of sounding pitches, where any sound
    parts                            number of tracks with notes
    drum_share, drums                fraction of notes on drums; number of distinct drums
"""

from __future__ import annotations

import numpy as np

from evaluation.metrics.estimates import mean
from tokenization.analysis.hearing import recognise
from tokenization.analysis.metres import bar_lines
from tokenization.score import Notes, Score

STEPS_PER_BEAT = 12
PITCHES = 128
LOUDNESS = ("loudness_commonest", "loudness_deviation", "loudnesses")


def statistics(score: Score, start: int, stop: int) -> dict[str, float | None] | None:
    """Return the statistics of bars start … stop − 1 of a quantised score; None if no note begins in them."""
    music, lines = cut(score, start, stop)
    notes, pitched, drums = music.notes, music.pitched, music.on_drums
    if not len(notes):
        return None
    bars, beats = stop - start, lines[-1] / STEPS_PER_BEAT
    velocity, pitches, top = notes.velocity, np.unique(pitched.pitch), tops(pitched)
    step = np.abs(np.diff(top))
    bar = np.searchsorted(lines, notes.onset_ticks, side="right") - 1
    onset = notes.onset_ticks - lines[bar]
    cells_by_bar: dict[int, set[tuple[int, int, bool]]] = {}
    columns = (bar, onset, notes.pitch, drums)
    for number, *cell in sorted(zip(*(column.tolist() for column in columns), strict=True)):
        cells_by_bar.setdefault(number, set()).add(tuple(cell))
    contents = [*cells_by_bar.values()]
    changes = chord_changes(score, *bar_lines(score, stop)[[start, stop]])
    return {
        "notes_a_beat": len(notes) / beats,
        "onsets_a_beat": len(np.unique(notes.onset_ticks)) / beats,
        "notes_at_onset": len(pitched) / len(top) if len(pitched) else None,
        "loudness_commonest": commonest(velocity),
        "loudness_deviation": float(velocity.std()),
        "loudnesses": float(len(np.unique(velocity))),
        "pitches": float(len(pitches)) if len(pitches) else None,
        "pitch_range": float(np.ptp(pitches)) if len(pitches) else None,
        "class_entropy": entropy(pitched.pitch % 12),
        "top_mean": mean(top),
        "top_deviation": float(top.std()) if len(top) else None,
        "top_repeated": mean(step == 0),
        "top_step": mean(step),
        "length_mean": mean(pitched.duration_ticks / STEPS_PER_BEAT),
        "length_commonest": commonest(pitched.duration_ticks),
        "length_entropy": entropy(pitched.duration_ticks),
        "place_entropy": entropy(onset),
        "bar_deviation": float(np.bincount(bar, minlength=bars).std()),
        "bars_repeated": mean(
            content in contents[:number] for number, content in enumerate(contents) if number
        ),
        "chord_changes": changes / bars if len(pitched) else None,
        "sounding": polyphony(music),
        "parts": float(len(np.unique(notes.track))),
        "drum_share": float(drums.mean()),
        "drums": float(len(np.unique(notes.pitch[drums]))),
    }


def cut(score: Score, start: int, stop: int) -> tuple[Score, np.ndarray]:
    """Return bars start … stop − 1, cut at the end, in steps from their beginning, and their lines: (bars + 1,)."""
    score = score.rescaled(STEPS_PER_BEAT)
    lines = bar_lines(score, stop)[start:]
    onset = score.notes.onset_ticks
    notes = score.notes[(onset >= lines[0]) & (onset < lines[-1])]
    duration = np.minimum(notes.end_ticks, lines[-1]) - notes.onset_ticks
    notes = notes.replace(onset_ticks=notes.onset_ticks - lines[0], duration_ticks=duration)
    return score.replace(notes=notes), lines - lines[0]


def chord_changes(score: Score, start: int, stop: int) -> int:
    """Return the number of chord changes strictly between two times."""
    return sum(start < marker.onset_ticks < stop for marker in recognise(score))


def commonest(values: np.ndarray) -> float | None:
    """Return the relative frequency of the most frequent value; None if there are no values."""
    return float(shares(values).max()) if len(values) else None


def tops(notes: Notes) -> np.ndarray:
    """Return the highest pitch at each distinct onset."""
    times, begins = np.unique(notes.onset_ticks, return_inverse=True)
    top = np.zeros(len(times), dtype=np.int64)
    np.maximum.at(top, begins, notes.pitch)
    return top


def entropy(values: np.ndarray) -> float | None:
    """Return the entropy −Σ p log₂ p of discrete values, in bits; None if there are none."""
    share = shares(values)
    return float(np.abs(share @ np.log2(share))) if len(share) else None


def shares(values: np.ndarray) -> np.ndarray:
    """Return the relative frequency of each of the K distinct values: (K,)."""
    return np.unique(values, return_counts=True)[1] / max(len(values), 1)


def polyphony(music: Score) -> float | None:
    """Return the mean number of sounding pitches over the steps that have any, without drums."""
    sounding = _sounding_pitches(music.pitched)
    return float(sounding[sounding > 0].mean()) if sounding.any() else None


def _sounding_pitches(notes: Notes) -> np.ndarray:
    """Return the number of distinct pitches that sound at each step: (steps,)."""
    steps = int(notes.end_ticks.max(initial=0))
    change = np.zeros((steps + 1, PITCHES), dtype=np.int32)
    np.add.at(change, (notes.onset_ticks, notes.pitch), 1)
    np.add.at(change, (notes.end_ticks, notes.pitch), -1)
    return np.count_nonzero(np.cumsum(change, axis=0, out=change), axis=1)[:-1]
