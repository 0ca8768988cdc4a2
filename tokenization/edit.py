"""Describe new music for a piece that was read from a file, so that the rest of the file can be kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple

import numpy as np

from tokenization.analysis.beats import interpolate
from tokenization.analysis.metres import METRES, NAMES, bars_of, made_of
from tokenization.score import Notes, Score, Track

LOCAL_BEATS = 8  # the last known beats, whose mean tempo continues after them


class NotKept(ValueError):
    """New music cannot be written into the original file; the message is a reason, without a capital or full stop."""


@dataclass(frozen=True, kw_only=True)
class NewMusic:
    """Which music of a piece is new: everything from a tick on, or some bars, or some tracks, or these in those."""

    start: int = 0  # the first new tick
    stop: int | None = None  # the tick after the new bars; None unless bars are new
    tracks: tuple[int, ...] | None = None  # the tracks with new notes; None for all

    def new_in(self, score: Score) -> Score:
        """Return the score with only its new notes."""
        return score.replace(notes=score.notes[self.is_new(score.notes)])

    def is_new(self, notes: Notes) -> np.ndarray:
        """Return whether each note is new: (N,)."""
        own = True if self.tracks is None else np.isin(notes.track, self.tracks)
        return self.holds(notes.onset_ticks) & own

    def holds(self, ticks: Any) -> Any:
        """Return whether ticks are in the new bars."""
        return (ticks >= self.start) & (ticks < (inf if self.stop is None else self.stop))

    @property
    def is_continuation(self) -> bool:
        """Whether the new music continues the piece, so that nothing of the file follows it."""
        return self.stop is None and self.tracks is None


@dataclass(frozen=True, kw_only=True)
class Edit(NewMusic):
    """New music for a piece that was read from a file.

    Ticks are those of `heard` and of the new score, unless they are called the file's.
    """

    original: bytes  # the file
    kind: str  # midi, musicxml or abc
    heard: Score  # the piece as the model read it, with the times and tracks of the file
    onset_steps: int  # steps per beat to which the onsets of `heard` were rounded
    over_chords: bool = False  # whether chords were requested, which are then written into the file

    @property
    def replaced(self) -> set[int]:
        """The tracks of the file's score whose notes are replaced by the new music."""
        heard = self.heard.tracks
        old = heard if self.tracks is None else [heard[n] for n in self.tracks if n < len(heard)]
        return {source for track in old for source in track.sources}

    def tick_of(self, ticks: np.ndarray | int) -> np.ndarray:
        """Convert ticks of the score to the file's; in a continuation, at the tempo of the last beats before it."""
        beats, known = self.heard.file_times.columns
        at, stop = np.asarray(ticks) / self.heard.ticks_per_beat, beats[-1]
        if self.is_continuation:
            stop = min(stop, self.start / self.heard.ticks_per_beat)
        before, last = interpolate(np.array([stop - LOCAL_BEATS, stop]), beats, known)
        beyond = last + (at - stop) * (last - before) / LOCAL_BEATS
        found = np.where(at < stop, interpolate(at, beats, known), beyond)
        return np.floor(found + 0.5).astype(np.int64)

    def assign(
        self, score: Score, sources: Mapping[int, Track], pitches: Mapping[int, np.ndarray]
    ) -> Iterator[tuple[Track, int | None, Notes]]:
        """Yield the notes of each part with the track of the file's score that continues them, or None for a new part.

        `sources` are the tracks of the file's score, `pitches` those of their notes before the new music. If a part was
        read from several tracks, each note goes to the one that has played the nearest pitch, among the tracks with the
        program of the busiest.
        """
        heard = self.heard.tracks
        for index in np.unique(score.notes.track).tolist():
            notes = score.notes[score.notes.track == index]
            part = heard[index] if index < len(heard) else Track()
            played = [source for source in part.sources if len(pitches.get(source, ()))]
            if not played:  # a new part, or a track that enters
                known = [source for source in part.sources if source in sources]
                yield (part, known[0], notes) if known else (score.tracks[index], None, notes)
                continue
            busiest = max(played, key=lambda source: len(pitches[source]))
            program = sources[busiest].program
            targets = [source for source in played if sources[source].program == program]
            distances = [
                np.abs(notes.pitch[:, None] - np.unique(pitches[source])).min(axis=1)
                for source in targets
            ]
            nearest = np.argmin(distances, axis=0)
            for number, source in enumerate(targets):
                yield part, source, notes[nearest == number]


class Bar(NamedTuple):
    """A bar to write, in ticks of the score or in divisions of a beat."""

    start: int
    stop: int
    time: tuple[int, int]
    shows_time: bool  # whether its time signature must be written
    is_pickup: bool = False  # the end of a bar of its metre


def new_bars(score: Score, start: int, time: tuple[int, int], *, on_bar_line: bool) -> list[Bar]:
    """Return the bars of a score from a tick on, which show their time signature where it changes.

    `time` is the time signature in force in the file at the tick; `on_bar_line`: whether one of its bars begins there.
    Bars that a language has split, such as those of 7/8, become one again.
    """
    unit = score.ticks_per_beat / 4
    last = max(-(-4 * score.end_ticks // score.ticks_per_beat) - 1, int(start / unit))
    bars = bars_of(score.meters, score.ticks_per_beat, last)
    names = [NAMES[metre] for metre in bars.metre]
    index, changed = int(np.searchsorted(bars.start * unit, start)), not on_bar_line
    found: list[Bar] = []
    while index < len(names):
        parts = made_of(*time)
        following = tuple(names[index : index + len(parts)])
        if following != parts[: len(following)]:
            time, parts, changed = METRES[bars.metre[index]], (names[index],), True
        begin = int(bars.start[index] * unit)
        length = score.ticks_per_beat * 4 * time[0] // time[1]
        found.append(Bar(begin, begin + length, time, changed))
        index, changed = index + len(parts), False
    return found
