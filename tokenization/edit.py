"""What was written to a piece that came from a file, so that the rest of the file can be kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tokenization.analysis.metres import LENGTHS, NAMES, bars_of, made_of
from tokenization.analysis.parts import FAMILY_PROGRAMS
from tokenization.score import Notes, Score, Track

HANDS_APART = 7  # semitones between the middles of two tracks that share what one instrument plays
LOCAL_BEATS = 8  # whose tempo goes on after the last beat that is known
FEWEST_OF_A_HAND = 0.1  # of the notes of that instrument


class NotKept(ValueError):
    """Why a file cannot be kept where music is written to it: words that follow a colon."""


@dataclass(frozen=True, kw_only=True)
class Written:
    """Which music of a piece is new: all from a tick on, some bars, or some parts."""

    start: int = 0  # the tick from which on music is new
    stop: int | None = None  # where it ends; None where the piece goes on, or parts are new
    tracks: tuple[int, ...] | None = None  # that were written to the others, over all of the piece

    def new_in(self, score: Score) -> Score:
        """Return the whole new piece with its new notes alone."""
        notes = score.notes
        if self.tracks is not None:
            return score.replace(notes=notes[np.isin(notes.track, self.tracks)])
        stop = score.end_ticks + 1 if self.stop is None else self.stop
        return score.replace(
            notes=notes[(notes.onset_ticks >= self.start) & (notes.onset_ticks < stop)]
        )

    @property
    def goes_on(self) -> bool:
        """Whether the piece goes on, and nothing of the file follows."""
        return self.stop is None and self.tracks is None


@dataclass(frozen=True, kw_only=True)
class Edit(Written):
    """Music that was written to a piece that came from a file.

    Ticks are those of `heard` and of the new score, in which the model wrote.
    """

    original: bytes  # the file
    kind: str  # what it is: midi, musicxml or abc
    heard: Score  # the piece as the model heard it, with its times and tracks in the file
    onset_steps: int  # of a beat, on which notes began when the model heard the piece
    over_chords: bool = False  # chords were asked for: the file is to name them

    @property
    def replaced(self) -> set[int]:
        """The tracks of the file's score whose notes are replaced where the music is new."""
        heard = self.heard.tracks
        old = heard if self.tracks is None else [heard[n] for n in self.tracks if n < len(heard)]
        return {source for track in old for source in track.sources}

    def tick_of(self, ticks: np.ndarray | int) -> np.ndarray:
        """Return the file's ticks of ticks of the score; after a seam, at the tempo of the last beats before it."""
        beats, known = self.heard.file_times.columns
        if self.goes_on:
            last = self.start / self.heard.ticks_per_beat
            # A beat before the seam, if all that is known lies after it.
            earlier = beats[beats < last] if beats[0] < last else np.array([last - 1])
            before = np.append(earlier, last)
            beats, known = before, line_at(before, beats, known)
        at = np.asarray(ticks) / self.heard.ticks_per_beat
        return np.floor(line_at(at, beats, known) + 0.5).astype(np.int64)

    def placed(
        self, score: Score, played: Mapping[int, Track], *pitches: Mapping[int, np.ndarray]
    ) -> Iterator[tuple[Track, int | None, Notes]]:
        """Yield the notes of each part of a score, and in which track of the file's score they go on, if in any.

        `pitches` are those of the notes of each track in which a part could go on; of several, the first that has any.
        """
        heard = self.heard.tracks
        for index in np.unique(score.notes.track).tolist():
            notes = score.notes[score.notes.track == index]
            part = heard[index] if index < len(heard) else Track()
            found = next(filter(None, (_homes(part, played, one) for one in pitches)), {})
            if not found:
                yield score.tracks[index], None, notes
                continue
            nearest = np.abs(notes.pitch[:, None] - np.array([*found.values()])).argmin(axis=1)
            for number, source in enumerate(found):
                yield part, source, notes[nearest == number]


def line_at(at: np.ndarray | float, beats: np.ndarray, ticks: np.ndarray) -> np.ndarray:
    """Return ticks at beats: straight lines between those known, and beyond them at the mean of the last few."""
    back = max(beats[0], beats[-1] - LOCAL_BEATS)
    slope = (ticks[-1] - np.interp(back, beats, ticks)) / (beats[-1] - back)
    first = (ticks[1] - ticks[0]) / (beats[1] - beats[0])
    at = np.asarray(at, dtype=np.float64)
    inside = np.interp(at, beats, ticks)
    beyond = np.maximum(at - beats[-1], 0) * slope + np.minimum(at - beats[0], 0) * first
    return inside + beyond


def _homes(
    part: Track, played: Mapping[int, Track], pitches: Mapping[int, np.ndarray]
) -> dict[int, float]:
    """Return where a part goes on: in the track of its instrument, or in several of it that are apart in pitch.

    `played` are the tracks of the file's score, `pitches` those of the notes of each in which it could go on. Each
    comes with the middle of what it plays.
    """
    counts = {source: len(pitches.get(source, ())) for source in part.sources}
    found = [source for source, count in counts.items() if count]
    family = part.program // FAMILY_PROGRAMS
    alike = [
        source
        for source in found
        if played[source].is_drum == part.is_drum
        and played[source].program // FAMILY_PROGRAMS == family
    ]
    found = sorted(alike or found, key=lambda source: -counts[source])
    by_program = Counter[int]()
    for source in found:
        by_program[played[source].program] += counts[source]
    chosen: dict[int, float] = {}
    for source in found:
        program, middle = played[source].program, float(np.median(pitches[source]))
        enough = counts[source] >= FEWEST_OF_A_HAND * by_program[program]
        apart = all(abs(middle - other) >= HANDS_APART for other in chosen.values())
        if program == by_program.most_common(1)[0][0] and enough and apart:
            chosen[source] = middle
    return chosen


class Bar(NamedTuple):
    """A bar to write, in ticks of the score, or in divisions of a beat."""

    start: int
    stop: int
    time: tuple[int, int]
    is_said: bool  # its time signature has to stand there


def new_bars(score: Score, start: int, now: tuple[int, int], into: float) -> list[Bar]:
    """Return the bars of a score from a tick on, as bars of the metre that is in force there as long as they fit.

    `into` is how much of a bar of that metre has passed, in its bars. A bar that a language lays as several is one
    again.
    """
    unit = score.ticks_per_beat / 4
    last = max(-(-4 * score.end_ticks // score.ticks_per_beat) - 1, int(start / unit))
    bars = bars_of(score.meters, score.ticks_per_beat, last)
    names = [NAMES[metre] for metre in bars.metre]
    lines = np.append(bars.start, bars.start[-1:] + bars.length[-1:])
    # The first parts of a bar may lie before these.
    parts = np.cumsum([0, *(LENGTHS[NAMES.index(name)] for name in made_of(*now))])
    near = np.flatnonzero(np.abs(parts / parts[-1] - into) < 0.01)
    skipped, aligned = int(near[0]) if len(near) else 0, len(near) > 0
    place = int(np.searchsorted(lines * unit, start))
    found: list[Bar] = []
    while place < len(names):
        pattern = list(made_of(*now))[skipped:]
        following = names[place : place + len(pattern)]
        if following != pattern[: len(following)]:
            top, low = names[place].split("/")
            now, pattern, aligned = (int(top), int(low)), names[place : place + 1], False
        length = sum(LENGTHS[NAMES.index(name)] for name in pattern)
        at = int(lines[place] * unit)
        found.append(Bar(at, at + int(length * unit), now, not aligned))
        aligned, skipped, place = True, 0, place + len(pattern)
    return found
