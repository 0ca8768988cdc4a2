"""Notes in voices: each a line of chords that do not overlap, as a staff shows them."""

from __future__ import annotations

from dataclasses import dataclass, field

from tokenization.notation.musicxml.values import DIVISIONS
from tokenization.score import Notes

MOST_VOICES = 4  # on a staff: more are not read by the programs in use


@dataclass
class Chord:
    """Notes that begin and end together."""

    start: int
    end: int
    notes: list[tuple[int, int]] = field(default_factory=list)  # pitch and velocity


def voices_of(notes: Notes, *, drums: bool = False) -> list[list[Chord]]:
    """Return the voices of a staff, at least one.

    Drums have one, and each hit is written as long as there is room, a beat at most: how long a drum
    sounds is nobody's choice.
    """
    chords: dict[tuple[int, int], Chord] = {}
    rows = zip(*(column.tolist() for column in notes.columns[:4]), strict=True)
    for onset, duration, pitch, velocity in sorted(rows, key=lambda row: (row[0], -row[1], row[2])):
        end = onset if drums else onset + duration
        chord = chords.setdefault((onset, end), Chord(onset, end))
        if all(pitch != other for other, _ in chord.notes):
            chord.notes.append((pitch, velocity))
    ordered = list(chords.values())
    if drums:
        for chord, following in zip(ordered, [*ordered[1:], None], strict=True):
            room = DIVISIONS - chord.start % DIVISIONS
            chord.end = chord.start + (
                room if following is None else min(room, following.start - chord.start)
            )
    voices: list[list[Chord]] = [[]]
    for chord in ordered:
        _place(voices, chord)
    return voices


def _place(voices: list[list[Chord]], chord: Chord) -> None:
    """Add a chord to the first voice that is free, or to a new one, or in place of the longest held."""
    for voice in voices:
        if not voice or voice[-1].end <= chord.start:
            voice.append(chord)
            return
    if len(voices) < MOST_VOICES:
        voices.append([chord])
        return
    held = min(voices, key=lambda voice: voice[-1].start)
    if held[-1].start < chord.start:
        held[-1].end = chord.start
        held.append(chord)
        return
    # All four begin here: the chord joins the one that is nearest in length.
    same = min((voice[-1] for voice in voices), key=lambda other: abs(other.end - chord.end))
    same.notes += [note for note in chord.notes if all(note[0] != p for p, _ in same.notes)]
