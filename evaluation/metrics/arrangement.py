"""Measures of an arrangement of a lead sheet: its chords, its structure, and how its parts go with each other.

Chord accuracy, structure and the difference of parts (degree of arrangement, DOA) are those of AccoMontage-3 (Zhao et
al. 2024, `test/objective_evaluation.ipynb`). Times are rounded to sixteenths of 4/4, as there.

T sixteenths, K bars, P parts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tokenization.analysis.chords import NONE, PITCH_CLASSES, TONES
from tokenization.analysis.hearing import chord_changes_in_four_four
from tokenization.analysis.parts import role
from tokenization.score import Notes, Score, notes_in_steps

BEAT, BAR = 4, 16  # sixteenths
SEGMENT = 2 * BAR  # compared for the structure
Phrases = Sequence[tuple[str, int]]
"""A letter and a number of bars for each phrase; phrases of one letter and length are alike."""

MEASURES = {
    "chords": "chord accuracy",
    "structure": "structure",
    "difference": "difference of parts (DOA)",
    "semitone": "melody time with a semitone against it",
    "bass": "chord tones: bass",
    "others": "chord tones: other parts",
    "at_once": "pitches at once",
}
FRACTIONS = ("chords", "semitone", "bass", "others")  # of them, from 0 to 1


def measures(sheet: Score, phrases: Phrases, score: Score, melody: int) -> dict[str, float | None]:
    """Return the measures of a score, of which one track is the melody of the sheet."""
    bars = sum(length for _, length in phrases)
    notes = notes_in_steps(score, BEAT, BEAT)
    notes = notes[notes.onset_ticks < bars * BAR]
    drums = np.array([track.is_drum for track in score.tracks])[notes.track]
    own, pitched = notes.track == melody, ~drums
    new = notes[pitched & ~own]
    asked, found = (chords_of(one, bars) for one in (sheet, score))
    basses = np.array([role(track) == "bass" for track in score.tracks])[new.track]
    sounding = roll(new, bars)
    plays = sounding.any(axis=1)
    return {
        "chords": float((asked == found).mean()),
        "structure": structure(sounding, phrases),
        "difference": difference_of_parts(new, bars),
        "semitone": semitone_time(notes[own], sounding),
        "bass": chord_tones(new[basses], asked),
        "others": chord_tones(new[~basses], asked),
        "at_once": float(sounding.sum(axis=1)[plays].mean()) if plays.any() else None,
    }


def melody_of(score: Score, sheet: Score) -> int:
    """Return the track of an arrangement that shares the most notes with the melody of the sheet, its first track."""
    notes, given = notes_in_steps(score, BEAT, BEAT), notes_in_steps(sheet, BEAT, BEAT)
    given = given[given.track == 0]
    wanted = given.onset_ticks * 128 + given.pitch
    shared = [
        _shared(wanted, own.onset_ticks * 128 + own.pitch)
        for own in (notes[notes.track == track] for track in range(len(score.tracks)))
    ]
    return int(np.argmax(shared))


def _shared(wanted: np.ndarray, found: np.ndarray) -> float:
    """Return the Dice coefficient of two sets."""
    both = len(np.intersect1d(wanted, found))
    return 2 * both / max(len(np.unique(wanted)) + len(np.unique(found)), 1)


def roll(notes: Notes, bars: int) -> np.ndarray:
    """Return which pitches sound in each sixteenth: (T, 128) bool."""
    change = np.zeros((bars * BAR + 1, 128), np.int64)
    end = np.minimum(notes.end_ticks, bars * BAR)
    np.add.at(change, (notes.onset_ticks, notes.pitch), 1)
    np.add.at(change, (end, notes.pitch), -1)
    sounding: np.ndarray = change.cumsum(axis=0)[:-1] > 0
    return sounding


def chords_of(score: Score, bars: int) -> np.ndarray:
    """Return the chord recognised in each beat of all pitched notes: (4 K,)."""
    ticks, chords = chord_changes_in_four_four(score.pitched, score.ticks_per_beat)
    beats = np.arange(bars * BAR // BEAT) * score.ticks_per_beat
    change = np.searchsorted(ticks, beats, side="right") - 1
    return np.where(change < 0, NONE, chords[np.maximum(change, 0)])


def structure(sounding: np.ndarray, phrases: Phrases) -> float | None:
    """Return the similarity of the segments of like phrases divided by that of all segments; None without like ones.

    A segment is two bars of sounding pitches, and similarity the cosine of two segments. In a phrase with an odd number
    of bars, the last one counts twice.
    """
    segments, labels, start = [], [], 0
    for letter, length in phrases:
        bars = np.arange(start, start + length)
        bars = np.append(bars, bars[-1:]) if length % 2 else bars
        start += length
        segments.append(sounding.reshape(-1, BAR * 128)[bars].reshape(-1, SEGMENT * 128))
        labels += [f"{letter}{length}"] * (len(bars) // 2)
    every = np.concatenate(segments).astype(np.float32)
    size = np.linalg.norm(every, axis=1, keepdims=True)
    every = np.divide(every, size, out=np.zeros_like(every), where=size > 0)
    similarity, label = every @ every.T, np.array(labels)
    others = ~np.eye(len(label), dtype=bool)
    alike = (label[:, None] == label) & others
    if not alike.any() or not similarity[others].sum():
        return None
    return float(similarity[alike].mean() / similarity[others].mean())


def difference_of_parts(notes: Notes, bars: int) -> float | None:
    """Return how much parts differ in how far each is from the whole; None for fewer than two parts.

    Of each part and bar, it is the Kullback–Leibler divergence of its pitch classes from those of all parts together,
    of which the mean over bars is taken, and then the standard deviation over parts. A part of one note does not count.
    """
    place = notes.onset_ticks // BAR * PITCH_CLASSES + notes.pitch % PITCH_CLASSES
    onset = notes.onset_ticks * 128 + notes.pitch
    _, first = np.unique(onset, return_index=True)  # of all parts together
    every = np.bincount(place[first], minlength=bars * PITCH_CLASSES)
    every = every.reshape(-1, PITCH_CLASSES)
    distances = []
    for track in np.unique(notes.track):
        own = np.flatnonzero(notes.track == track)
        _, single = np.unique(onset[own], return_index=True)
        if len(single) < 2:
            continue
        counts = np.bincount(place[own[single]], minlength=bars * PITCH_CLASSES)
        counts = counts.reshape(-1, PITCH_CLASSES)
        plays = counts.any(axis=1)
        share = counts[plays] / counts[plays].sum(1, keepdims=True)
        whole = every[plays] / every[plays].sum(1, keepdims=True)
        ratio = np.divide(share, whole, out=np.ones_like(share), where=share > 0)
        distances.append((share * np.log(ratio)).sum(1).mean())
    return float(np.std(distances)) if len(distances) > 1 else None


def semitone_time(melody: Notes, sounding: np.ndarray) -> float | None:
    """Return the share of the melody's time in which a pitch class a semitone from it sounds."""
    sung, classes = _classes(roll(melody, len(sounding) // BAR)), _classes(sounding)
    neighbours = np.roll(classes, 1, axis=1) | np.roll(classes, -1, axis=1)
    time = np.flatnonzero(sung.any(axis=1))
    clash = np.any(sung[time] & neighbours[time], axis=1)
    return float(clash.mean()) if len(time) else None


def _classes(sounding: np.ndarray) -> np.ndarray:
    """Return which pitch classes sound in each sixteenth: (T, 12)."""
    found = np.zeros((len(sounding), PITCH_CLASSES), dtype=bool)
    for tone in range(PITCH_CLASSES):
        found[:, tone] = sounding[:, tone::PITCH_CLASSES].any(axis=1)
    return found


def chord_tones(notes: Notes, chords: np.ndarray) -> float | None:
    """Return the share of notes that belong to the chord of their beat, (4 K,); None without notes during a chord."""
    now = chords[notes.onset_ticks // BEAT]
    counted = now != NONE
    return float(TONES[now, notes.pitch % PITCH_CLASSES][counted].mean()) if counted.any() else None
