"""A slow implementation of the style profiles, directly from their definition, by note and by pair of notes."""

from __future__ import annotations

from fractions import Fraction

from tokenization.score import Notes

Cells = dict[tuple[int, int], int]


def slow_onset_duration(notes: Notes, ticks_per_beat: int) -> Cells:
    """Return the non-empty bins."""
    cells: Cells = {}
    for onset, duration in zip(*(column.tolist() for column in notes.columns[:2]), strict=True):
        position = Fraction(onset, ticks_per_beat) % 4
        beats = Fraction(duration, ticks_per_beat)
        if beats < 2:
            cell = (int(position * 6), int(beats * 6))
            cells[cell] = cells.get(cell, 0) + 1
    return cells


def slow_time_pitch(notes: Notes, ticks_per_beat: int) -> Cells:
    """Return the non-empty bins; interval bin 0 is −20 semitones."""
    rows = list(zip(notes.onset_ticks.tolist(), notes.pitch.tolist(), strict=True))
    cells: Cells = {}
    for a, (onset_a, pitch_a) in enumerate(rows):
        for b, (onset_b, pitch_b) in enumerate(rows):
            if (
                a != b
                and 0 <= onset_b - onset_a < 4 * ticks_per_beat
                and abs(pitch_b - pitch_a) <= 20
            ):
                cell = ((onset_b - onset_a) * 6 // ticks_per_beat, pitch_b - pitch_a + 20)
                cells[cell] = cells.get(cell, 0) + 1
    return cells
