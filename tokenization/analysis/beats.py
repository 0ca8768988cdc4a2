"""Seconds ↔ beats: where the beats of a piece lie."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tokenization.score import FileTimes, Meters, Score, Tempos

BEATS_PER_BAR = 4
DEFAULT_BEATS_PER_MINUTE = 120.0
EARLY_BEATS = 1 / 8  # half a sixteenth: a note as little before a bar line belongs after it


@dataclass(frozen=True, eq=False)
class BeatMap:
    """Knots at which seconds and beats are known; straight lines between and beyond them."""

    seconds: np.ndarray  # (K,) with K ≥ 2
    beats: np.ndarray  # (K,)

    def __post_init__(self) -> None:
        for name in ("seconds", "beats"):
            knots = np.array(getattr(self, name), dtype=np.float64, ndmin=1)
            if len(knots) < 2 or not np.isfinite(knots).all() or (np.diff(knots) <= 0).any():
                raise ValueError(f"a beat map needs two or more growing {name}, not {knots}")
            knots.setflags(write=False)
            object.__setattr__(self, name, knots)
        if len(self.seconds) != len(self.beats):
            raise ValueError(
                f"a beat map needs a beat for each second, "
                f"but has {len(self.seconds)} seconds and {len(self.beats)} beats"
            )

    def to_beats(self, seconds: np.ndarray) -> np.ndarray:
        """Return the beat position of each time."""
        return _interpolate(np.asarray(seconds, dtype=np.float64), self.seconds, self.beats)

    def to_seconds(self, beats: np.ndarray) -> np.ndarray:
        """Return the time of each beat position."""
        return _interpolate(np.asarray(beats, dtype=np.float64), self.beats, self.seconds)

    @property
    def beats_per_minute(self) -> np.ndarray:
        """The tempo between each two knots: (K − 1,)."""
        return 60 * np.diff(self.beats) / np.diff(self.seconds)

    def from_bar_of(self, seconds: float) -> BeatMap:
        """Return a map moved by whole bars, so that beat 0 starts the bar of the given time."""
        beat = float(self.to_beats(np.array(seconds))) + EARLY_BEATS
        bars = np.floor(beat / BEATS_PER_BAR)
        return BeatMap(self.seconds, self.beats - BEATS_PER_BAR * bars)


def _interpolate(at: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    segment = np.clip(np.searchsorted(x, at, side="right") - 1, 0, len(x) - 2)
    slope = np.diff(y) / np.diff(x)
    return y[segment] + (at - x[segment]) * slope[segment]


def tempo_map(score: Score) -> BeatMap:
    """Return the map of a score's own tempos; 120 beats a minute where it names none."""
    onset_ticks, beats_per_minute = score.tempos.columns
    if not len(onset_ticks) or onset_ticks.min() > 0:
        onset_ticks = np.append(0, onset_ticks)
        beats_per_minute = np.append(DEFAULT_BEATS_PER_MINUTE, beats_per_minute)
    order = np.argsort(onset_ticks, kind="stable")
    onset_ticks, beats_per_minute = onset_ticks[order], beats_per_minute[order]
    last = np.append(np.diff(onset_ticks) > 0, True)  # of several tempos on a tick the last holds
    beats = onset_ticks[last] / score.ticks_per_beat
    beats = np.append(beats, beats[-1] + 1)
    lengths = np.diff(beats) * 60 / beats_per_minute[last]
    return BeatMap(np.append(0, np.cumsum(lengths)), beats)


def first_seconds(score: Score) -> float:
    """Return when the first note starts by the score's own tempos; the score has notes."""
    beat = score.notes.onset_ticks.min() / score.ticks_per_beat
    return float(tempo_map(score).to_seconds(beat))


def remap(score: Score, beat_map: BeatMap, ticks_per_beat: int) -> Score:
    """Lay a score on the beats of a map; everything sounds when it sounded.

    The tempos become the map's own. The meters are dropped: they counted other beats. Where notes
    start before beat 0, whole bars are put in front.
    """
    seconds_of = tempo_map(score)

    def seconds(ticks: np.ndarray) -> np.ndarray:
        return seconds_of.to_seconds(np.asarray(ticks) / score.ticks_per_beat)

    if len(score.notes):
        first = first_seconds(score)
        if beat_map.to_beats(np.array(first)) < -EARLY_BEATS:
            beat_map = beat_map.from_bar_of(first)

    def ticks(old: np.ndarray) -> np.ndarray:
        return to_ticks(beat_map.to_beats(seconds(old)), ticks_per_beat)

    return score.timed(
        ticks,
        ticks_per_beat=ticks_per_beat,
        tempos=_tempos(beat_map, ticks_per_beat),
        meters=Meters.empty(),
        file_times=_file_times(score, seconds_of, beat_map),
    )


def _file_times(score: Score, seconds_of: BeatMap, beat_map: BeatMap) -> FileTimes:
    """Return the times of a score's file by the beats of a map: known at these, and where the file's tempo changes."""
    known = score.file_times
    if len(known) < 2:
        return known
    own = [seconds_of.to_beats(beat_map.seconds), seconds_of.beats, known.beats]
    beats = np.unique(np.concatenate(own))
    mapped = beat_map.to_beats(seconds_of.to_seconds(beats))
    apart = np.append(True, np.diff(mapped) > 1e-6)
    ticks = _interpolate(beats[apart], known.beats, known.file_ticks)
    return FileTimes(mapped[apart], ticks)


def to_ticks(beats: np.ndarray, ticks_per_beat: int) -> np.ndarray:
    """Round beats to ticks, none before 0."""
    return np.maximum(np.rint(beats * ticks_per_beat), 0).astype(np.int64)


def _tempos(beat_map: BeatMap, ticks_per_beat: int) -> Tempos:
    """Return the map's tempo from beat 0 on, an entry where it changes."""
    onset_ticks = to_ticks(beat_map.beats[:-1], ticks_per_beat)
    onset_ticks[0] = 0  # before the first knot, its tempo holds
    beats_per_minute = beat_map.beats_per_minute
    last = np.append(np.diff(onset_ticks) > 0, True)
    onset_ticks, beats_per_minute = onset_ticks[last], beats_per_minute[last]
    changes = np.append(True, ~np.isclose(np.diff(beats_per_minute), 0, atol=0.01))
    return Tempos(onset_ticks[changes], beats_per_minute[changes])
