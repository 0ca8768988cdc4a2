"""The beats of a score's bars: quarters, or three eighths each where the metre counts in threes of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tokenization.analysis.metres import LENGTHS, METRES, bars_of
from tokenization.score import Notes, Score

QUARTER, DOTTED_QUARTER = 4, 6  # sub-beats
FIRST, MIDDLE, OTHER = 0, 2, 1  # places that music treats alike, as beats of a bar of four
COMPOUND = np.array([n % 3 == 0 and d == 8 for n, d in METRES])
BEAT = np.where(COMPOUND, DOTTED_QUARTER, QUARTER)  # of each metre
BEATS = LENGTHS // BEAT


@dataclass(frozen=True)
class Pulse:
    """When beats begin; without any named ones they are quarters in bars of four."""

    ticks_per_beat: int
    ticks: np.ndarray  # (K,), of each named beat
    places: np.ndarray  # (K,), what each is in its bar

    def spans(self, notes: Notes) -> tuple[np.ndarray, np.ndarray]:
        """Return at which beat, and part of it, each note starts, and how many beats it lasts."""
        if not len(self.ticks):
            return (
                notes.onset_ticks / self.ticks_per_beat,
                notes.duration_ticks / self.ticks_per_beat,
            )
        beats = np.arange(len(self.ticks))
        onset = np.interp(notes.onset_ticks, self.ticks, beats)
        return onset, np.interp(notes.end_ticks, self.ticks, beats) - onset

    def to_ticks(self, beats: np.ndarray) -> np.ndarray:
        """Return when whole beats begin."""
        return self.ticks[beats] if len(self.ticks) else beats * self.ticks_per_beat

    def place(self, beats: np.ndarray) -> np.ndarray:
        """Return the beat of a bar of four that each whole beat is like: 0 … 3."""
        return self.places[beats] if len(self.ticks) else beats % 4


def pulse_of(score: Score) -> Pulse:
    """Return the beats up to the bar after the last note."""
    if (score.meters.numerator == 4).all() and (score.meters.denominator == 4).all():
        return Pulse(score.ticks_per_beat, np.zeros(0), np.zeros(0))
    last = -(-4 * score.end_ticks // score.ticks_per_beat)
    bars = bars_of(score.meters, score.ticks_per_beat, last)
    count = BEATS[bars.metre]
    bar = np.repeat(np.arange(len(bars)), count)
    number = np.arange(len(bar)) - np.repeat(np.cumsum(count) - count, count)
    subbeats = bars.start[bar] + number * BEAT[bars.metre[bar]]
    middle = (2 * number == count[bar]) & (count[bar] > 2)
    places = np.where(number == 0, FIRST, np.where(middle, MIDDLE, OTHER))
    end = bars.start[-1] + bars.length[-1]
    ticks = np.append(subbeats, end) * score.ticks_per_beat // 4
    return Pulse(score.ticks_per_beat, ticks, np.append(places, FIRST))
