"""Chooses the most convincing of several takes: those without a fault, by a small critic of their statistics.

The critic is an ensemble of networks with one hidden layer over the statistics of windows of eight bars
(tokenization/analysis/statistics.py), which has learned to tell generated music from real music; `make critic` makes it
again. E networks, F statistics, H hidden units.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TypeAlias

import numpy as np

from tokenization.analysis.metres import bar_lines
from tokenization.analysis.statistics import STEPS, WINDOW, Excerpt, Measured
from tokenization.score import Score

FILE = "critic.npz"  # in a model's folder
FIELDS = ("names", "middle", "low", "high", "mean", "scale", "hidden", "bias", "out")
CROWDED, THINNED = 2.5, 0.25  # notes a beat of a collapse, as multiples of those before
HAMMERED = 0.3  # more repeated notes of the top line than before, as a share of all
PLAYS = 0.5  # of the bars before, in which a part that may not fall silent plays
LEAST_BARS = 4  # of new music in which a part may not be silent
ALIKE = 0.5  # notes that two takes share, of those that either has, above which they are too similar to show both
EQUAL = 0.9  # … from which on a take is taken for the bars that it replaces
EVERY = 4  # bars after which one of the rows of a take is chosen, from which all go on
TOGETHER = 8  # rows that choose among themselves
DECIMALS = 3  # of a doubt, so that rounding errors of a processor decide nothing


Rank: TypeAlias = "tuple[int, float]"
"""The number of faults of a take, and how much it is doubted."""


@dataclass(frozen=True, kw_only=True)
class NewBars:
    """What is new in a take: the notes of bars begun … stop − 1, of all or some tracks."""

    begun: int
    stop: int
    bars: int = 0  # of the piece, if it goes on after them
    tracks: tuple[int, ...] | None = None
    ends: bool = False  # whether the music is to end with them
    before: Score | None = None  # the piece with the bars that they replace, if any

    @property
    def heard_until(self) -> int:
        """The bar up to which takes are compared: some bars after the new ones show how these lead on."""
        return max(self.stop, min(self.bars, self.stop + WINDOW // 2))

    def so_far(self, bars: int) -> NewBars:
        """Return the first new bars, so many, of music that is being written: nothing after them is heard."""
        return replace(self, stop=self.begun + bars, bars=0, ends=False)

    @property
    def around(self) -> tuple[int, int]:
        """The bars with which the new ones are compared: before them, else after them, else their own first ones."""
        if self.begun:
            return max(0, self.begun - WINDOW), self.begun
        if self.stop < self.heard_until:
            return self.stop, self.heard_until
        return 0, 0 if self.tracks else min(WINDOW, self.stop)

    def is_new(self, score: Score) -> np.ndarray:
        """Return whether each note of a score is new: (N,) bool."""
        notes = score.notes
        start, stop = bar_lines(score, self.stop)[[self.begun, self.stop]]
        new = (notes.onset_ticks >= start) & (notes.onset_ticks < stop)
        return new if self.tracks is None else new & np.isin(notes.track, self.tracks)

    def only(self, score: Score) -> Score:
        """Return a score with its new notes alone."""
        return score.replace(notes=score.notes[self.is_new(score)])

    def are_old(self, score: Score) -> bool:
        """Return whether the new notes are, but for a few, those that they replace."""
        return self.before is not None and (
            likeness(self.only(self.before), self.only(score)) >= EQUAL
        )


class Critic:
    """Doubts whether windows are real music."""

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take the arrays FIELDS."""
        self._names: list[str] = arrays["names"].tolist()
        self._arrays = {name: arrays[name].astype(np.float64) for name in FIELDS[1:]}

    @cached_property
    def sha256(self) -> str:
        """The hash of what it has learned."""
        content = sha256(repr(self._names).encode())
        for name, array in self._arrays.items():
            content.update(f"{name}{array.shape}".encode() + array.tobytes())
        return content.hexdigest()

    @classmethod
    def read(cls, path: Path) -> Critic:
        """Read a critic from its file."""
        with np.load(path, allow_pickle=False) as arrays:
            return cls({name: arrays[name] for name in FIELDS})

    def best(
        self, heard: Sequence[Score], new: NewBars, each: int, settled: Collection[int] = ()
    ) -> list[int]:
        """Return the best of every `each` takes of the same bars; of the `settled` ones the first."""
        news = [new.only(score) for score in heard]
        return chosen([self.rank(score, new) for score in heard], news, each, settled)

    def rank(self, score: Score, new: NewBars) -> Rank:
        """Return the rank of a take among others of the same bars: the lowest is the best."""
        return faults(score, new), self.doubt(score, new)

    def doubt(self, score: Score, new: NewBars) -> float:
        """Return the mean logarithm of the odds that windows with new music are generated."""
        return self.doubt_of(windows_of(score, new))

    def doubt_of(self, windows: Sequence[Mapping[str, float]]) -> float:
        """Return that of the statistics of windows."""
        found = [
            self._doubt(np.array([one.get(name, np.nan) for name in self._names]))
            for one in windows
        ]
        return round(float(np.mean(found)), DECIMALS) if found else np.inf

    def _doubt(self, values: np.ndarray) -> float:
        """Return that of the statistics of a window: (F,)."""
        of = self._arrays
        known = np.where(np.isnan(values), of["middle"], values)
        given = (np.clip(known, of["low"], of["high"]) - of["mean"]) / of["scale"]
        hidden = np.maximum(np.einsum("f,efh->eh", given, of["hidden"]) + of["bias"], 0)
        return float(
            np.einsum("eh,eh->e", hidden, of["out"][:, 1:]).mean() + of["out"][:, 0].mean()
        )


def windows_of(score: Score, new: NewBars) -> list[dict[str, float]]:
    """Return the statistics of windows with new music."""
    stop = new.heard_until
    measured = Measured(score, stop)
    lasts = sorted({*range(min(new.begun + WINDOW, stop), stop, WINDOW), stop})
    found = (measured.statistics(max(0, last - WINDOW), last, new.begun) for last in lasts)
    return [one for one in found if one is not None]


def faults(score: Score, new: NewBars) -> int:
    """Return how many of these the new bars have.

    They collapse: they are much fuller or thinner than the bars around, or hammer one note. A part that played before,
    or is to be written to the others, is silent. The music is to end, but is silent in its last bar or plays on to its
    end. They are the bars that they replace.
    """
    measured = Measured(score, new.heard_until)
    fresh = _only(measured.excerpt(new.begun, new.stop), new.tracks)
    around = _only(measured.excerpt(*new.around), new.tracks)
    found = int(new.ends and _plays_on(measured.excerpt(new.stop - 1, new.stop)))
    found += _silent(score, new, fresh, around) + int(new.are_old(score))
    if len(around.notes):
        ratio = (len(fresh.notes) / fresh.beats) / (len(around.notes) / around.beats)
        found += int(not THINNED <= ratio <= CROWDED)
        found += int(_repeated(fresh) > _repeated(around) + HAMMERED)
    return found


def _silent(score: Score, new: NewBars, fresh: Excerpt, around: Excerpt) -> int:
    """Return how many parts are silent that play around the new bars, or nowhere else; else 1 if nothing new plays."""
    expected = {*(new.tracks or ())} - {*score.notes.track[~new.is_new(score)].tolist()}
    if new.stop - new.begun >= LEAST_BARS and len(around.notes):
        bars = np.unique(np.stack([around.notes.track, around.bar]), axis=1)[0]
        tracks, count = np.unique(bars, return_counts=True)
        expected |= {*tracks[count >= PLAYS * (len(around.lines) - 1)].tolist()}
    return len(expected - {*fresh.notes.track.tolist()}) or int(not len(fresh.notes))


def _only(excerpt: Excerpt, tracks: tuple[int, ...] | None) -> Excerpt:
    """Return the notes of some tracks."""
    if tracks is None:
        return excerpt
    own = np.isin(excerpt.notes.track, tracks)
    return Excerpt(notes=excerpt.notes[own], drum=excerpt.drum[own], lines=excerpt.lines)


def _plays_on(last: Excerpt) -> bool:
    """Return whether a last bar is silent, or a note begins in its last beat."""
    return not len(last.notes) or int(last.place.max()) >= max(1, int(last.lines[-1]) - STEPS)


def _repeated(excerpt: Excerpt) -> float:
    """Return the share of the notes of the top line that repeat the one before."""
    step = np.diff(excerpt.pitched.pitch[excerpt.ends])
    return float((step == 0).mean()) if len(step) else 0.0


def chosen(
    ranks: Sequence[Rank], news: Sequence[Score], each: int, settled: Collection[int] = ()
) -> list[int]:
    """Return the best of every `each` takes, or of those with as few faults one that is like none chosen before.

    `news` are the new notes of the takes. Of the `settled` choices, by number, the first take stays.
    """
    found = {number: number * each for number in settled}
    for number in sorted({*range(len(ranks) // each)} - {*settled}):
        order = sorted(range(number * each, (number + 1) * each), key=lambda one: ranks[one])
        able = (n for n in order if ranks[n][0] == ranks[order[0]][0])
        others = found.values()
        other = (n for n in able if not any(likeness(news[n], news[one]) > ALIKE for one in others))
        found[number] = next(other, order[0])
    return [found[number] for number in sorted(found)]


def likeness(one: Score, other: Score) -> float:
    """Return the share of the notes, as onset, pitch and track, that two scores have in common, of all of theirs."""
    a, b = (
        {*zip(*(column.tolist() for column in (n.onset_ticks, n.pitch, n.track)), strict=True)}
        for n in (one.notes, other.notes)
    )
    return len(a & b) / max(1, len(a | b))
