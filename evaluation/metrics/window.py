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

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

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
Found = Mapping[str, float | None]


@dataclass(frozen=True, kw_only=True)
class Window:
    """Some bars of a piece on the grid of steps; times are steps from its beginning."""

    music: Score  # the notes that begin in them
    lines: np.ndarray  # (bars + 1,), where bars begin and the last one ends

    @property
    def bar(self) -> np.ndarray:
        """The bar, from 0, in which each note begins: (N,)."""
        return np.searchsorted(self.lines, self.music.notes.onset_ticks, side="right") - 1

    @property
    def place(self) -> np.ndarray:
        """The step of its bar on which each note begins: (N,)."""
        return self.music.notes.onset_ticks - self.lines[self.bar]


def statistics(score: Score, start: int, stop: int) -> dict[str, float | None] | None:
    """Return the statistics of the bars start … stop − 1 of a score on a grid; None where no note begins in them."""
    window = cut(score, start, stop)
    if not len(window.music.notes):
        return None
    lines = bar_lines(score, stop)
    changes = sum(lines[start] < marker.onset_ticks < lines[stop] for marker in recognise(score))
    return {
        **_fullness(window),
        **_loudness(window),
        **_pitch(window),
        **_top(window),
        **_lengths(window),
        **_time(window),
        "chord_changes": changes / (stop - start) if len(window.music.pitched) else None,
        **_parts(window),
    }


def cut(score: Score, start: int, stop: int) -> Window:
    """Return the bars start … stop − 1 of a score on a grid."""
    score = score.rescaled(STEPS_PER_BEAT)
    lines = bar_lines(score, stop)[start:]
    onset = score.notes.onset_ticks
    notes = score.notes[(onset >= lines[0]) & (onset < lines[-1])]
    lasting = np.minimum(notes.end_ticks, lines[-1]) - notes.onset_ticks
    notes = notes.replace(onset_ticks=notes.onset_ticks - lines[0], duration_ticks=lasting)
    return Window(music=score.replace(notes=notes), lines=lines - lines[0])


def commonest(values: np.ndarray) -> float | None:
    """Return the share of the commonest value; None of none."""
    return float(shares(values).max()) if len(values) else None


def _fullness(window: Window) -> Found:
    beats = window.lines[-1] / STEPS_PER_BEAT
    pitched = window.music.pitched.onset_ticks
    return {
        "notes_a_beat": len(window.music.notes) / beats,
        "onsets_a_beat": len(np.unique(window.music.notes.onset_ticks)) / beats,
        "notes_at_onset": len(pitched) / len(np.unique(pitched)) if len(pitched) else None,
    }


def _loudness(window: Window) -> Found:
    velocity = window.music.notes.velocity
    values = (commonest(velocity), float(velocity.std()), float(len(np.unique(velocity))))
    return dict(zip(LOUDNESS, values, strict=True))


def _pitch(window: Window) -> Found:
    pitch = window.music.pitched.pitch
    return {
        "pitches": float(len(np.unique(pitch))) if len(pitch) else None,
        "pitch_range": pitch_range(window.music),
        "class_entropy": pitch_class_entropy(window.music),
    }


def tops(notes: Notes) -> np.ndarray:
    """Return the highest note at each time at which one begins."""
    times, begins = np.unique(notes.onset_ticks, return_inverse=True)
    top = np.zeros(len(times), dtype=np.int64)
    np.maximum.at(top, begins, notes.pitch)
    return top


def _top(window: Window) -> Found:
    top = tops(window.music.pitched)
    step = np.abs(np.diff(top))
    return {
        "top_mean": float(top.mean()) if len(top) else None,
        "top_deviation": float(top.std()) if len(top) else None,
        "top_repeated": float((step == 0).mean()) if len(step) else None,
        "top_step": float(step.mean()) if len(step) else None,
    }


def _lengths(window: Window) -> Found:
    length = window.music.pitched.duration_ticks
    return {
        "length_mean": note_length(window.music),
        "length_commonest": commonest(length),
        "length_entropy": entropy(length),
    }


def _time(window: Window) -> Found:
    bars = len(window.lines) - 1
    counts = np.bincount(window.bar, minlength=bars)
    cells = zip(
        window.bar.tolist(),
        window.place.tolist(),
        window.music.notes.pitch.tolist(),
        window.music.on_drums.tolist(),
        strict=True,
    )
    played: dict[int, set[tuple[int, int, bool]]] = {}
    for bar, *cell in sorted(cells):
        played.setdefault(bar, set()).add(tuple(cell))
    contents = [*played.values()]
    again = [content in contents[:number] for number, content in enumerate(contents)][1:]
    return {
        "place_entropy": entropy(window.place),
        "bar_deviation": float(counts.std()),
        "bars_repeated": float(np.mean(again)) if again else None,
    }


def _parts(window: Window) -> Found:
    return {
        "sounding": polyphony(window.music),
        "parts": float(len(np.unique(window.music.notes.track))),
        "drum_share": float(window.music.on_drums.mean()),
        "drums": float(len(np.unique(window.music.notes.pitch[window.music.on_drums]))),
    }
