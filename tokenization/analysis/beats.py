"""Estimate the beats of a performance, and align any score with the beat grid of a language."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tokenization.analysis.barring import with_bars_found
from tokenization.analysis.metres import bars_of, made_of, usable_signatures
from tokenization.score import FileTimes, Meters, Score, Tempos, steps_of
from tokenization.wording import Remark, listed

BEATS_PER_BAR = 4
DEFAULT_BEATS_PER_MINUTE = 120.0
EARLY_BEATS = 1 / 8  # half a sixteenth: a note at most this early belongs to the next bar


@dataclass(frozen=True, eq=False)
class BeatMap:
    """A piecewise linear map between seconds and beats, extrapolated beyond its knots."""

    seconds: np.ndarray  # (K,) with K ≥ 2
    beats: np.ndarray  # (K,)

    def __post_init__(self) -> None:
        for name in ("seconds", "beats"):
            knots = np.array(getattr(self, name), dtype=np.float64, ndmin=1)
            if len(knots) < 2 or not np.isfinite(knots).all() or (np.diff(knots) <= 0).any():
                raise ValueError(f"a beat map needs two or more increasing {name}, not {knots}")
            knots.setflags(write=False)
            object.__setattr__(self, name, knots)

    def to_beats(self, seconds: np.ndarray) -> np.ndarray:
        """Return the beat position of each time."""
        return interpolate(np.asarray(seconds, dtype=np.float64), self.seconds, self.beats)

    def to_seconds(self, beats: np.ndarray) -> np.ndarray:
        """Return the time of each beat position."""
        return interpolate(np.asarray(beats, dtype=np.float64), self.beats, self.seconds)

    @property
    def beats_per_minute(self) -> np.ndarray:
        """The tempo between consecutive knots: (K − 1,)."""
        return 60 * np.diff(self.beats) / np.diff(self.seconds)

    def from_bar_of(self, seconds: float) -> BeatMap:
        """Return the map shifted by whole bars, so that beat 0 starts the bar of the given time."""
        beat = float(self.to_beats(np.array(seconds))) + EARLY_BEATS
        bars = np.floor(beat / BEATS_PER_BAR)
        return BeatMap(self.seconds, self.beats - BEATS_PER_BAR * bars)


def interpolate(at: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the value at each place on the line through the points (x, y), extended at both ends."""
    segment = np.clip(np.searchsorted(x, at, side="right") - 1, 0, len(x) - 2)
    slope = np.diff(y) / np.diff(x)
    return y[segment] + (at - x[segment]) * slope[segment]


def tempo_map(score: Score) -> BeatMap:
    """Return the map of a score's own tempos; 120 beats per minute before the first one."""
    onset_ticks, beats_per_minute = score.tempos.columns
    if not len(onset_ticks) or onset_ticks.min() > 0:
        onset_ticks = np.append(0, onset_ticks)
        beats_per_minute = np.append(DEFAULT_BEATS_PER_MINUTE, beats_per_minute)
    order = np.argsort(onset_ticks, kind="stable")
    onset_ticks, beats_per_minute = onset_ticks[order], beats_per_minute[order]
    last = np.append(np.diff(onset_ticks) > 0, True)  # the last of several tempos on a tick counts
    beats = onset_ticks[last] / score.ticks_per_beat
    beats = np.append(beats, beats[-1] + 1)
    lengths = np.diff(beats) * 60 / beats_per_minute[last]
    return BeatMap(np.append(0, np.cumsum(lengths)), beats)


def first_seconds(score: Score) -> float:
    """Return the onset of the first note in seconds; the score has notes."""
    beat = score.notes.onset_ticks.min() / score.ticks_per_beat
    return float(tempo_map(score).to_seconds(beat))


def remap(score: Score, beat_map: BeatMap, ticks_per_beat: int) -> Score:
    """Change the beats of a score to those of a map, without changing times in seconds.

    The tempos become those of the map. The meters are dropped, because they referred to other beats. If notes start
    before beat 0, whole bars are inserted at the start.
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
    """Return the file ticks for beats of a map, at its knots and wherever the tempo of the file changes."""
    known = score.file_times
    if len(known) < 2:
        return known
    own = [seconds_of.to_beats(beat_map.seconds), seconds_of.beats, known.beats]
    beats = np.unique(np.concatenate(own))
    mapped = beat_map.to_beats(seconds_of.to_seconds(beats))
    apart = np.append(True, np.diff(mapped) > 1e-6)
    ticks = interpolate(beats[apart], known.beats, known.file_ticks)
    return FileTimes(mapped[apart], ticks)


def to_ticks(beats: np.ndarray, ticks_per_beat: int) -> np.ndarray:
    """Round beats to ticks, from 0."""
    return np.maximum(np.rint(beats * ticks_per_beat), 0).astype(np.int64)


def _tempos(beat_map: BeatMap, ticks_per_beat: int) -> Tempos:
    """Return the tempo changes of a map, from beat 0."""
    onset_ticks = to_ticks(beat_map.beats[:-1], ticks_per_beat)
    onset_ticks[0] = 0  # the first tempo also applies before the first knot
    beats_per_minute = beat_map.beats_per_minute
    last = np.append(np.diff(onset_ticks) > 0, True)
    onset_ticks, beats_per_minute = onset_ticks[last], beats_per_minute[last]
    changes = np.append(True, ~np.isclose(np.diff(beats_per_minute), 0, atol=0.01))
    return Tempos(onset_ticks[changes], beats_per_minute[changes])


# Beat tracking, for files without usable beats, such as a recording from a keyboard.
#
# The beat period is where the autocorrelation of the onsets is highest. The beats are the path that meets strong onsets
# at a steady pace, by dynamic programming (Ellis, "Beat Tracking by Dynamic Programming", 2007). Bars of 4/4 start on
# the beats with the longest notes.

# With fewer or sparser onsets, neither the fit nor an estimate would be reliable.
FEWEST_ONSETS, MOST_SECONDS_AN_ONSET = 24, 2.0
FINEST_WRITTEN, WRITTEN_SHARE = 48, 0.9  # divisions of a beat; fraction of the onsets on them
BEAT_DIVISIONS = (1, 2, 3, 4)
FIT_ON_THE_BEAT = 0.4  # pieces played to a click have 0.6 to 1, others 0 to 0.2

FRAME_SECONDS = 0.02
SLOWEST, USUAL, FASTEST = 40.0, 85.0, 220.0  # beats per minute
USUAL_SPREAD = 0.7  # standard deviation of the tempo around the usual one, in octaves
# Weights of the autocorrelation at multiples of the period: for divisions by two, and bars of four.
LAG_WEIGHTS = {0.25: 0.5, 0.5: 0.5, 1: 1.0, 2: 0.5, 4: 1.0}
STEADINESS = 100.0  # cost of a deviation from the period


def has_beats(score: Score) -> bool:
    """Return whether the notes follow the beats of the score.

    They do if most onsets are on exact divisions of a beat: then somebody has set the grid. Otherwise the mean cosine
    of the onsets' phase is measured for each division of the beat; it is 1 if all onsets are on the grid, and about 0
    if they are unrelated. A score with few or sparse onsets is trusted, which also bounds the time of an estimate by
    the number of notes.
    """
    ticks = np.unique(score.notes.onset_ticks)
    if len(ticks) < FEWEST_ONSETS or _is_sparse(score, ticks):
        return True
    exact = ticks * FINEST_WRITTEN % score.ticks_per_beat == 0
    phase = 2 * np.pi * np.outer(BEAT_DIVISIONS, ticks / score.ticks_per_beat)
    return bool(
        exact.mean() >= WRITTEN_SHARE or np.cos(phase).mean(axis=1).max() >= FIT_ON_THE_BEAT
    )


def _is_sparse(score: Score, onset_ticks: np.ndarray) -> bool:
    first, last = tempo_map(score).to_seconds(onset_ticks[[0, -1]] / score.ticks_per_beat)
    return last - first > MOST_SECONDS_AN_ONSET * len(onset_ticks)


def estimated(score: Score) -> BeatMap:
    """Return the map of the estimated beats, with beat 0 at the start of a bar; the score has notes."""
    seconds, weights = _onsets(score)
    envelope, origin = _envelope(seconds, weights)
    period = _period(envelope)
    beats = origin + FRAME_SECONDS * _beat_frames(envelope, period)
    if len(beats) < 2:
        beats = seconds[0] + period * FRAME_SECONDS * np.arange(2)
    return BeatMap(beats, np.arange(len(beats)) + _bar_phase(beats, score))


def _onsets(score: Score) -> tuple[np.ndarray, np.ndarray]:
    """Return the onsets of the notes in seconds, ascending, and their weights for beat tracking."""
    notes = score.notes.sorted()
    seconds = tempo_map(score).to_seconds(notes.onset_ticks / score.ticks_per_beat)
    length = np.clip(notes.duration_ticks / score.ticks_per_beat, 0.1, 4)
    return seconds, np.sqrt(length) * notes.velocity / 64


def _envelope(seconds: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the onset strength per frame, smoothed over three frames, and the time of frame 0."""
    origin = float(seconds[0]) - FRAME_SECONDS
    frames = np.rint((seconds - origin) / FRAME_SECONDS).astype(np.int64)
    strength = np.sqrt(np.bincount(frames, weights, frames[-1] + 3))
    return np.convolve(strength, (0.5, 1, 0.5), mode="same"), origin


def _period(envelope: np.ndarray) -> float:
    """Return the length of a beat in frames, at which the weighted autocorrelation is highest."""
    longest = round(60 / SLOWEST / FRAME_SECONDS)
    lags = longest * max(LAG_WEIGHTS) + 2
    size = 1 << int(len(envelope) + lags).bit_length()
    spectrum = np.fft.rfft(envelope - envelope.mean(), size)
    correlation = np.fft.irfft(np.abs(spectrum) ** 2, size)[: lags + 1]
    periods = (np.geomspace(60 / FASTEST, 60 / SLOWEST, 400) / FRAME_SECONDS).round(9)
    score = sum(
        weight * np.interp(multiple * periods, np.arange(lags + 1), correlation)
        for multiple, weight in LAG_WEIGHTS.items()
    )
    octaves = np.log2(periods * FRAME_SECONDS * USUAL / 60)
    usual = np.exp(-0.5 * (octaves / USUAL_SPREAD) ** 2)
    chances = np.maximum(score, 0) * usual
    # Rounded, since the last bits depend on the processor, and would decide ties.
    return float(periods[np.argmax((chances / max(chances.max(), 1e-9)).round(9))])


def _beat_frames(envelope: np.ndarray, period: float) -> np.ndarray:
    """Return the frames of the best path of beats through the envelope."""
    shortest, longest = max(round(period / 2), 1), round(2 * period)
    steps = np.arange(longest, shortest - 1, -1)
    cost = (STEADINESS * np.log(steps / period) ** 2).round(9)
    strength = (envelope / max(float(envelope.std()), 1e-9)).round(9)
    total = np.zeros(longest + len(strength))  # silence before the first frame
    before = np.full(len(strength), -1)
    # The frames of a block, which is no longer than the shortest step, do not depend on each other.
    for start in range(0, len(strength), shortest):
        stop = min(start + shortest, len(strength))
        reach = np.lib.stride_tricks.sliding_window_view(
            total[start : stop - shortest + longest], len(steps)
        )
        gain = reach - cost  # (block, steps)
        best = gain.argmax(axis=1)
        gained = gain[np.arange(len(best)), best]
        total[longest + start : longest + stop] = strength[start:stop] + gained
        before[start:stop] = np.arange(start, stop) - steps[best]
    frame = int(len(strength) - longest + total[-longest:].argmax()) if len(strength) else -1
    path = []
    while frame >= 0:
        path.append(frame)
        frame = int(before[frame])
    return np.array(path[::-1], dtype=np.float64)


def _bar_phase(beats: np.ndarray, score: Score) -> int:
    """Return the position in its bar of the first beat, such that long notes start on downbeats."""
    notes, seconds = score.notes, tempo_map(score)
    onset, end = (
        BeatMap(beats, np.arange(len(beats))).to_beats(
            seconds.to_seconds(at / score.ticks_per_beat)
        )
        for at in (notes.onset_ticks, notes.end_ticks)
    )
    beat = np.rint(onset).astype(np.int64)
    length = np.clip(end - onset, 0.1, BEATS_PER_BAR)
    weight = length**1.5 * notes.velocity * (np.abs(onset - beat) < EARLY_BEATS)
    votes = np.bincount(beat % BEATS_PER_BAR, weight, BEATS_PER_BAR).round(6)
    return -int(votes.argmax()) % BEATS_PER_BAR


# Align any score with the beat grid of a language, with bars of 4/4 or of its own metres.

FINE_TICKS_PER_BEAT = 480
FOUR_FOUR = Meters(np.array([0]), np.array([BEATS_PER_BAR]), np.array([4]))


def on_four_four(score: Score) -> Score:
    """Divide any score into bars of 4/4 from its first bar on; quarter notes stay quarter notes in every metre."""
    score, metres = from_a_bar_line(score)
    remarks = []
    if others := [name for name in metres if name not in ("4/4", "2/2", "8/8")]:
        message = f"Bars of {listed(others)} are written in 4/4, so bar lines differ from those of the file."
        remarks.append(Remark(message))
    return score.replace(meters=FOUR_FOUR).remark(*remarks)


def on_own_bars(score: Score) -> Score:
    """Divide any score into bars of its own metres; bars of unsupported metres are split, with a remark."""
    score, metres = from_a_bar_line(score)
    remarks = []
    for name in metres:
        parts = made_of(*map(int, name.split("/")))
        if parts != (name,):
            remarks.append(Remark(f"Bars of {name} are written as bars of {listed(parts)}."))
    return score.remark(*remarks)


def from_a_bar_line(score: Score) -> tuple[Score, list[str]]:
    """Return a score that starts on a bar line, and its metres.

    If the notes do not follow the score's beats, these are estimated in bars of four, unless they are known to be
    right. A first bar that is shorter than the next is a pickup and is completed, unless two metres alternate bar by
    bar, such as 3/8 and 2/4 for 7/8.
    """
    score = score if score.beats_known else _with_beats(score)
    start, length, names = _sections(score)
    meters = Meters(start, *np.array([name.split("/") for name in names], dtype=np.int64).T)
    in_turn = names[2:3] == names[:1] and (np.diff(start[:3]) == length[:2]).all()
    if len(start) > 1 and start[1] < length[1] and start[1] <= length[0] and not in_turn:
        rest = round(length[1] - start[1])
        beats = rest / score.ticks_per_beat
        unit = "beat" if beats == 1 else "beats"
        message = f"The first bar is a pickup, preceded by {beats:g} {unit} of rest."
        score, names = later(score, rest).remark(Remark(message)), names[1:]
        meters = meters[1:].replace(onset_ticks=np.append(0, meters.onset_ticks[2:] + rest))
    return score.replace(meters=meters), list(dict.fromkeys(names))


def without_rest_in_front(score: Score) -> Score:
    """Remove empty bars at the start; a note just before a bar line belongs to the bar after it."""
    first = steps_of(score.notes.onset_ticks.min(), score.ticks_per_beat, 4)
    front = bars_of(score.meters, score.ticks_per_beat, int(first))
    bars, rest = len(front) - 1, int(front.start[-1]) * score.ticks_per_beat // 4
    if not bars:
        return score

    def earlier(ticks: np.ndarray) -> np.ndarray:
        return np.maximum(ticks - rest, 0)

    meters = score.meters
    past = np.flatnonzero(meters.onset_ticks <= rest)[:-1]  # all but the current one
    meters = meters[np.setdiff1d(np.arange(len(meters)), past)]
    score = score.timed(
        earlier,
        notes=score.notes.replace(onset_ticks=earlier(score.notes.onset_ticks)),
        meters=meters.replace(onset_ticks=earlier(meters.onset_ticks)),
        file_times=score.file_times.later(-rest / score.ticks_per_beat),
    )
    count = "1 bar of rest is" if bars == 1 else f"{bars} bars of rest are"
    return score.remark(f"{count} left out at the start.")


def with_tempo(score: Score) -> Score:
    """Return the score with the usual tempo if it has none."""
    if len(score.tempos):
        return score
    return score.replace(tempos=Tempos(np.array([0]), np.array([DEFAULT_BEATS_PER_MINUTE])))


def _with_beats(score: Score) -> Score:
    if has_beats(score):
        return with_bars_found(score)
    beat_map = estimated(score)
    tempo = np.median(beat_map.beats_per_minute)
    message = (
        "The notes do not fall on the file's beats, as in a live recording; "
        f"the beats are estimated: about {tempo:.0f} a minute."
    )
    return remap(score, beat_map, FINE_TICKS_PER_BEAT).remark(Remark(message))


def _sections(score: Score) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Return the start of each meter and the length of its bars, in ticks, and its name."""
    usable = usable_signatures(score.meters)
    at, numerator, denominator = (np.array(column) for column in zip(*usable, strict=True))
    length = numerator * 4 * score.ticks_per_beat / denominator
    return at, length, [f"{n}/{d}" for _, n, d in usable]


def later(score: Score, ticks: int) -> Score:
    """Return the score delayed by some ticks; its meters are not moved."""
    if not ticks:
        return score
    tempos = score.tempos.onset_ticks
    tempos = score.tempos.replace(onset_ticks=np.where(tempos > 0, tempos + ticks, 0))
    return score.timed(
        lambda old: old + ticks,
        tempos=tempos,
        meters=score.meters,
        file_times=score.file_times.later(ticks / score.ticks_per_beat),
    )
