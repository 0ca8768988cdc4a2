"""Statistics of a few bars by which music that is written may differ from real music.

They are of the notes that begin in the bars, in any metre, cut at the last bar line: a note that rings on there may
have been cut by the end of what was written. Drums count in what is said of time and loudness and in the two statistics
of their own, and in none of pitch, length or harmony. Entropies are in bits. What a window does not have is None.

    notes_a_beat, onsets_a_beat      notes, and times at which some begin, a beat
    notes_at_onset                   pitched notes that begin together, on average
    loudness_commonest               share of notes of the commonest velocity
    loudness_deviation, loudnesses   deviation of the velocities, and how many there are
    pitches, pitch_range             how many pitches there are, and semitones from the lowest to the highest
    class_entropy                    entropy of pitch classes
    top_mean, top_deviation          height of the highest notes at their time, and its deviation
    top_repeated, top_step           share of them that are the one before again; semitones between them, on average
    length_mean, length_commonest    beats that a note lasts, on average; share of notes of the commonest length
    length_entropy                   entropy of the lengths
    place_entropy                    entropy of the places in the bar, in twelfths of a beat, at which notes begin
    bar_deviation                    deviation of notes a bar over the bars
    bars_repeated                    share of bars, of those with notes from the second on, that are an earlier one
    chord_changes                    changes of the recognised chord a bar
    sounding                         pitches that sound at a time, where any does
    parts                            tracks that play
    drum_share, drums                share of notes on drums, and how many different drums
"""

from __future__ import annotations

import numpy as np

from evaluation.metrics.estimates import mean
from evaluation.metrics.statistics import (
    STEPS_PER_BEAT,
    entropy,
    note_length,
    pitch_class_entropy,
    pitch_range,
    polyphony,
    shares,
)
from tokenization.analysis.chords import recognise
from tokenization.analysis.metres import bar_lines
from tokenization.score import Notes, Score

LOUDNESS = ("loudness_commonest", "loudness_deviation", "loudnesses")


def statistics(score: Score, start: int, stop: int) -> dict[str, float | None] | None:
    """Return the statistics of the bars start … stop − 1 of a score on a grid; None where no note begins in them."""
    music, lines = cut(score, start, stop)
    notes, pitched, drums = music.notes, music.pitched, music.on_drums
    if not len(notes):
        return None
    bars, beats = stop - start, lines[-1] / STEPS_PER_BEAT
    velocity, pitches, top = notes.velocity, np.unique(pitched.pitch), tops(pitched)
    step = np.abs(np.diff(top))
    bar = np.searchsorted(lines, notes.onset_ticks, side="right") - 1
    place = notes.onset_ticks - lines[bar]
    played: dict[int, set[tuple[int, int, bool]]] = {}
    columns = (bar, place, notes.pitch, drums)
    for own, *cell in sorted(zip(*(column.tolist() for column in columns), strict=True)):
        played.setdefault(own, set()).add(tuple(cell))
    contents = [*played.values()]
    changes = chord_changes(score, *bar_lines(score, stop)[[start, stop]])
    return {
        "notes_a_beat": len(notes) / beats,
        "onsets_a_beat": len(np.unique(notes.onset_ticks)) / beats,
        "notes_at_onset": len(pitched) / len(top) if len(pitched) else None,
        "loudness_commonest": commonest(velocity),
        "loudness_deviation": float(velocity.std()),
        "loudnesses": float(len(np.unique(velocity))),
        "pitches": float(len(pitches)) if len(pitches) else None,
        "pitch_range": pitch_range(music),
        "class_entropy": pitch_class_entropy(music),
        "top_mean": mean(top),
        "top_deviation": float(top.std()) if len(top) else None,
        "top_repeated": mean(step == 0),
        "top_step": mean(step),
        "length_mean": note_length(music),
        "length_commonest": commonest(pitched.duration_ticks),
        "length_entropy": entropy(pitched.duration_ticks),
        "place_entropy": entropy(place),
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
    """Return the notes that begin in the bars start … stop − 1, in steps from their beginning, and the lines of these.

    The lines, (bars + 1,), are where the bars begin and the last one ends.
    """
    score = score.rescaled(STEPS_PER_BEAT)
    lines = bar_lines(score, stop)[start:]
    onset = score.notes.onset_ticks
    notes = score.notes[(onset >= lines[0]) & (onset < lines[-1])]
    lasting = np.minimum(notes.end_ticks, lines[-1]) - notes.onset_ticks
    notes = notes.replace(onset_ticks=notes.onset_ticks - lines[0], duration_ticks=lasting)
    return score.replace(notes=notes), lines - lines[0]


def chord_changes(score: Score, start: int, stop: int) -> int:
    """Return how often the chord changes between two times."""
    return sum(start < marker.onset_ticks < stop for marker in recognise(score))


def commonest(values: np.ndarray) -> float | None:
    """Return the share of the commonest value; None of none."""
    return float(shares(values).max()) if len(values) else None


def tops(notes: Notes) -> np.ndarray:
    """Return the highest note at each time at which one begins."""
    times, begins = np.unique(notes.onset_ticks, return_inverse=True)
    top = np.zeros(len(times), dtype=np.int64)
    np.maximum.at(top, begins, notes.pitch)
    return top
