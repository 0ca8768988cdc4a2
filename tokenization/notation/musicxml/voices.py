"""Voices of a staff: chords that do not overlap, as exact as four voices allow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import zip_longest

from tokenization.notation.musicxml.rhythm import DIVISIONS
from tokenization.score import Notes

MOST_VOICES = 4  # per staff; notation programs do not read more


@dataclass
class Chord:
    """Notes that start and end together."""

    start: int
    end: int
    notes: list[tuple[int, int]] = field(default_factory=list)  # pitch and velocity


def voices_of(notes: Notes, *, drums: bool = False) -> list[list[Chord]]:
    """Split the notes of a staff into voices, at least one.

    Drums have one voice, in which each hit lasts until the next one or the next beat, since the
    durations of drum notes have no meaning.
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
        return [until_the_next(ordered, lambda at: at + DIVISIONS - at % DIVISIONS)]
    voices: list[list[Chord]] = [[]]
    for chord in ordered:
        _place(voices, chord)
    return voices


def until_the_next(hits: list[Chord], next_beat: Callable[[int], int]) -> list[Chord]:
    """Return hits on drums that last until the next one or the next beat."""
    for chord, following in zip_longest(hits, hits[1:]):
        chord.end = next_beat(chord.start)
        if following is not None:
            chord.end = min(chord.end, following.start)
    return hits


def _place(voices: list[list[Chord]], chord: Chord) -> None:
    """Add a chord to the first free voice, or a new voice, or else cut short the chord that has sounded longest."""
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
    # All voices have a chord that starts here: merge with the one of the most similar length.
    same = min((voice[-1] for voice in voices), key=lambda other: abs(other.end - chord.end))
    same.notes += [note for note in chord.notes if all(note[0] != p for p, _ in same.notes)]
