"""Chooses the most convincing of several takes: those without a fault, by a small critic of their statistics.

The critic is an ensemble of networks with one hidden layer over the statistics of windows of eight bars
(tokenization/analysis/statistics.py), which has learned to tell generated music from real music; `make critic` makes it
again. E networks, F statistics, H hidden units.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from tokenization.analysis.statistics import WINDOW, Excerpt, Measured
from tokenization.score import Score

FILE = "critic.npz"  # in a model's folder
FIELDS = ("names", "middle", "low", "high", "mean", "scale", "hidden", "bias", "out")
CROWDED, THINNED = 2.5, 0.25  # notes a beat of a collapse, as multiples of those before
HAMMERED = 0.3  # more repeated notes of the top line than before, as a share of all
PLAYS = 0.5  # of the bars before, in which a part that may not fall silent plays
LEAST_BARS = 4  # of new music in which a part may not be silent
ALIKE = 0.5  # notes that two takes share, of those that either has, above which they are too similar to show both
DECIMALS = 3  # of a doubt, so that rounding errors of a processor decide nothing


class Critic:
    """Doubts whether windows are real music."""

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take the arrays FIELDS."""
        self._names: list[str] = arrays["names"].tolist()
        self._arrays = {name: arrays[name].astype(np.float64) for name in FIELDS[1:]}

    @classmethod
    def read(cls, path: Path) -> Critic:
        """Read a critic from its file."""
        with np.load(path, allow_pickle=False) as arrays:
            return cls({name: arrays[name] for name in FIELDS})

    def doubt(self, score: Score, begun: int, stop: int) -> float:
        """Return the mean logarithm of the odds that music, new in bars begun … stop − 1, is generated."""
        measured = Measured(score, stop)
        found = []
        for last in sorted({*range(min(begun + WINDOW, stop), stop, WINDOW), stop}):
            of_window = measured.statistics(max(0, last - WINDOW), last, begun)
            if of_window is not None:
                found.append(
                    self._doubt(np.array([of_window.get(name, np.nan) for name in self._names]))
                )
        return round(float(np.mean(found)), DECIMALS) if found else np.inf

    def best(
        self,
        heard: Sequence[Score],
        news: Sequence[Score],
        each: int,
        begun: int,
        stop: int,
        ends: bool,
    ) -> list[int]:
        """Return the best of every `each` takes, new in bars begun … stop − 1; `news` are their new notes."""
        ranks = [
            (faults(score, begun, stop, ends=ends), self.doubt(score, begun, stop))
            for score in heard
        ]
        return chosen(ranks, news, each)

    def _doubt(self, values: np.ndarray) -> float:
        """Return that of the statistics of a window: (F,)."""
        of = self._arrays
        known = np.where(np.isnan(values), of["middle"], values)
        given = (np.clip(known, of["low"], of["high"]) - of["mean"]) / of["scale"]
        hidden = np.maximum(np.einsum("f,efh->eh", given, of["hidden"]) + of["bias"], 0)
        return float(
            np.einsum("eh,eh->e", hidden, of["out"][:, 1:]).mean() + of["out"][:, 0].mean()
        )


def faults(score: Score, begun: int, stop: int, *, ends: bool = False) -> int:
    """Return how many of these are in music that is new in bars begun … stop − 1.

    It collapses: it is much fuller or thinner than the bars before, or hammers one note; a part that played before is
    silent; it is to end, but the last bar is silent.
    """
    measured = Measured(score, stop)
    new, before = measured.excerpt(begun, stop), measured.excerpt(max(0, begun - WINDOW), begun)
    found = int(ends and not len(measured.excerpt(stop - 1, stop).notes))
    if not len(before.notes):
        return found + int(not len(new.notes))
    ratio = (len(new.notes) / new.beats) / (len(before.notes) / before.beats)
    found += int(not THINNED <= ratio <= CROWDED)
    found += int(_repeated(new) > _repeated(before) + HAMMERED)
    if stop - begun >= LEAST_BARS:
        bars = np.unique(np.stack([before.notes.track, before.bar]), axis=1)[0]
        tracks, count = np.unique(bars, return_counts=True)
        playing = tracks[count >= PLAYS * (len(before.lines) - 1)]
        found += int((~np.isin(playing, new.notes.track)).sum())
    return found


def _repeated(excerpt: Excerpt) -> float:
    """Return the share of the notes of the top line that repeat the one before."""
    step = np.diff(excerpt.pitched.pitch[excerpt.ends])
    return float((step == 0).mean()) if len(step) else 0.0


def chosen(ranks: Sequence[tuple[int, float]], news: Sequence[Score], each: int) -> list[int]:
    """Return the best of every `each` takes, by faults, then doubt, unless it is like one already chosen.

    `news` are the new notes of the takes.
    """
    found: list[int] = []
    for first in range(0, len(ranks), each):
        order = sorted(range(first, first + each), key=lambda number: ranks[number])
        other = (n for n in order if not any(likeness(news[n], news[one]) > ALIKE for one in found))
        found.append(next(other, order[0]))
    return found


def likeness(one: Score, other: Score) -> float:
    """Return the share of the notes, as onset, pitch and track, that two scores have in common, of all of theirs."""
    a, b = (
        {*zip(*(column.tolist() for column in (n.onset_ticks, n.pitch, n.track)), strict=True)}
        for n in (one.notes, other.notes)
    )
    return len(a & b) / max(1, len(a | b))
