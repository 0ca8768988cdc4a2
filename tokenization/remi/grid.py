"""A score on REMI's grid, in whole numbers: rounding there, and the way back to a score."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tokenization.analysis.chord_names import CHORDS
from tokenization.analysis.metres import Bars, bars_of, uniform
from tokenization.remi.tokens import (
    BAR_SUBBEATS,
    CHORD_INDEX,
    HIGHEST_PITCH,
    KEYS,
    LOWEST_PITCH,
    SUBBEAT_TICKS,
    SUBBEATS_PER_BEAT,
    TICKS_PER_BEAT,
    level_tempo,
    level_velocity,
    tempo_level,
    volume_level,
)
from tokenization.score import Marker, Notes, Score, Tempos, Track, steps_of

CUT_TO = {32: "cut to a bar", 48: "cut to six beats"}  # by the ticks of the longest note
MOST_BARS = 1 << 16  # a bar costs a token even when it is empty; longer than any music we know of


@dataclass(frozen=True, kw_only=True)
class Gridded:
    """What the tokens say, as integer columns; sub-beats count from the start of the piece."""

    bars: Bars
    onset_subbeats: np.ndarray  # (N,) ascending, and within a sub-beat by key
    key: np.ndarray  # (N,) 0 … 87
    volume: np.ndarray  # (N,) level
    duration_ticks: np.ndarray  # (N,) from 1
    tempo_bar: np.ndarray  # bars at which the tempo changes
    tempo: np.ndarray  # and its level there
    chord_subbeats: np.ndarray  # sub-beats at which the chord changes
    chord: np.ndarray  # and its number there

    def score(self) -> Score:
        """Return the one-piano score that sounds like this."""
        notes = Notes(
            self.onset_subbeats * SUBBEAT_TICKS,
            self.duration_ticks,
            self.key + LOWEST_PITCH,
            level_velocity(self.volume),
            np.zeros_like(self.key),
        )
        markers = zip(
            (self.chord_subbeats * SUBBEAT_TICKS).tolist(), self.chord.tolist(), strict=True
        )
        return Score(
            ticks_per_beat=TICKS_PER_BEAT,
            notes=notes,
            tracks=(Track(name="Piano"),),
            tempos=Tempos(self.bars.start[self.tempo_bar] * SUBBEAT_TICKS, level_tempo(self.tempo)),
            meters=self.bars.meters(SUBBEAT_TICKS),
            markers=tuple(Marker(onset, CHORDS[chord]) for onset, chord in markers),
        )


def to_grid(score: Score, bar_subbeats: int) -> tuple[Gridded, dict[str, int]]:
    """Round a score to the grid; also count the notes that are dropped or changed beyond that.

    A note lasts as long as the longest bar at most, of so many sub-beats. Every note counts under one reason at most.
    """
    notes, losses = _one_piano(score, bar_subbeats * SUBBEAT_TICKS)
    bars = _bars(score, int(notes["onset_subbeats"][-1]), bar_subbeats)
    noted = np.unique(bars.of(notes["onset_subbeats"]))
    tempo_bar, tempo = _tempo_changes(score, bars, noted)
    chord_subbeats, chord = _chord_changes(score, bars, noted)
    gridded = Gridded(
        bars=bars,
        **notes,
        tempo_bar=tempo_bar,
        tempo=tempo,
        chord_subbeats=chord_subbeats,
        chord=chord,
    )
    return gridded, losses


def _bars(score: Score, last_subbeat: int, bar_subbeats: int) -> Bars:
    """Return the bars up to the one of the last note."""
    if last_subbeat < MOST_BARS * bar_subbeats:  # else they would be too many to lay
        if bar_subbeats > BAR_SUBBEATS:
            bars = bars_of(score.meters, score.ticks_per_beat, last_subbeat)
        else:
            bars = uniform(last_subbeat // BAR_SUBBEATS + 1)
        if len(bars) <= MOST_BARS:
            return bars
        count = len(bars)
    else:
        count = last_subbeat // bar_subbeats + 1
    raise ValueError(f"the score lasts {count} bars; at most {MOST_BARS} can be spelled")


def _one_piano(score: Score, longest_ticks: int) -> tuple[dict[str, np.ndarray], dict[str, int]]:
    """Put all notes on one keyboard, where a key is struck once at a time and rings once."""
    place, duration, volume = _rounded(score)
    order = np.argsort(place, kind="stable")
    place = place[order]
    first = np.flatnonzero(np.diff(place, prepend=-1))  # of the notes on one key and sub-beat
    onset, key = place[first] // KEYS, place[first] % KEYS
    duration = np.maximum.reduceat(duration[order], first)
    volume = np.maximum.reduceat(volume[order], first)

    room = _ticks_until_struck_again(onset, key, longest_ticks)
    kept = np.minimum(duration, longest_ticks)
    cut = kept > room
    losses = {
        "out of range": len(score.notes) - len(order),
        "merged": len(order) - len(first),
        "cut where struck again": int(cut.sum()),
        CUT_TO[longest_ticks]: int(((duration > longest_ticks) & ~cut).sum()),
    }
    columns = {
        "onset_subbeats": onset,
        "key": key,
        "volume": volume,
        "duration_ticks": np.minimum(kept, room),
    }
    return columns, {reason: count for reason, count in losses.items() if count}


def _rounded(score: Score) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return place (sub-beat × 88 + key), duration and volume level of the piano's notes."""
    notes = score.notes
    in_range = (notes.pitch >= LOWEST_PITCH) & (notes.pitch <= HIGHEST_PITCH)
    if not in_range.any():
        raise ValueError(
            f"there is nothing to spell: the score has {len(notes)} notes, none of them "
            f"on the piano's keys {LOWEST_PITCH} to {HIGHEST_PITCH}"
        )
    notes = notes[in_range]
    onset = steps_of(notes.onset_ticks, score.ticks_per_beat, SUBBEATS_PER_BEAT)
    if onset.min() < 0:
        raise ValueError(
            f"the first note lies {-onset.min()} sub-beats before the first bar; "
            "move the score to start at tick 0 or later"
        )
    place = onset * KEYS + notes.pitch - LOWEST_PITCH
    duration = steps_of(notes.duration_ticks, score.ticks_per_beat, TICKS_PER_BEAT)
    return place, np.maximum(duration, 1), volume_level(notes.velocity)


def _ticks_until_struck_again(
    onset_subbeats: np.ndarray, key: np.ndarray, longest_ticks: int
) -> np.ndarray:
    order = np.argsort(key, kind="stable")
    gap = np.diff(onset_subbeats[order]) * SUBBEAT_TICKS
    room = np.full(len(key), longest_ticks)
    room[order[:-1]] = np.where(np.diff(key[order]) == 0, gap, longest_ticks)
    return room


def _tempo_changes(score: Score, bars: Bars, noted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return at which of the bars with notes the tempo level changes, and to what.

    A bar's tempo is its beats by its minutes; time before the first tempo has none.
    """
    known = score.tempos.beats_per_minute > 0  # neither zero, nor negative, nor not a number
    tempos = score.tempos[known]
    if not len(tempos):
        return noted[:0], noted[:0]
    order = np.argsort(tempos.onset_ticks, kind="stable")
    onset = tempos.onset_ticks[order]
    minutes_per_beat = 1 / np.clip(tempos.beats_per_minute[order], 1, 10_000)
    elapsed = np.concatenate([[0], np.cumsum(np.diff(onset) * minutes_per_beat[:-1])])

    def time(tick: np.ndarray) -> np.ndarray:
        piece = np.searchsorted(onset, tick, side="right") - 1
        return elapsed[piece] + (tick - onset[piece]) * minutes_per_beat[piece]

    line = bars.start[noted] * score.ticks_per_beat / SUBBEATS_PER_BEAT
    stop = line + bars.length[noted] * score.ticks_per_beat / SUBBEATS_PER_BEAT
    start = np.maximum(line, onset[0])
    has_tempo = start < stop
    noted, start, stop = noted[has_tempo], start[has_tempo], stop[has_tempo]
    level = tempo_level((stop - start) / (time(stop) - time(start)))
    changes = np.diff(level, prepend=-1) != 0
    return noted[changes], level[changes]


def _chord_changes(score: Score, bars: Bars, noted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return at which sub-beats of the bars with notes the chord changes, and to what.

    A chord that begins between these bars waits for the next of them.
    """
    number = np.array([CHORD_INDEX.get(m.text, -1) for m in score.markers], dtype=np.int64)
    ticks = np.array([m.onset_ticks for m in score.markers], dtype=np.int64)
    order = np.argsort(ticks, kind="stable")
    order = order[number[order] >= 0]
    number, ticks = number[order], ticks[order]
    onset = np.maximum(steps_of(ticks, score.ticks_per_beat, SUBBEATS_PER_BEAT), 0)

    in_time = onset < bars.start[-1] + bars.length[-1]
    number, onset = number[in_time], onset[in_time]
    index = np.searchsorted(noted, bars.of(onset))
    onset = np.maximum(onset, bars.start[noted[index]])

    last = np.diff(onset, append=-1) != 0  # of several chords on one sub-beat
    onset, number = onset[last], number[last]
    changes = np.diff(number, prepend=-1) != 0
    return onset[changes], number[changes]
