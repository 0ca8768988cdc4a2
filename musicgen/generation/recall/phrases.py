"""Phrases that return, as often as those of songs.

Songs go by phrases: some say an earlier one again, others are new. Music that is drawn a token at a time goes back only
where it happens to come upon four tokens that it has said before. So each time that UNIT bars are over it is decided
whether an earlier phrase comes, and which. With each of its bars, what followed at the same bar of that phrase counts
as if LENGTH tokens before were the same (memory.py): it is said again about as exactly as songs do, and what leaves it
is led back to it by the next bar.

How often pieces begin to return, go on with it, and how far back, is counted as a model is published (`phrasing_of`,
training/results/recall_fit.py). Where nearly all of a piece returns, as of grooves, nothing is decided. The first NEW
bars after a prompt are left to the model: who asks for eight bars wants them to go on from what was given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np
from typing_extensions import Self

from musicgen.generation.recall.circling import likeness

UNIT = 4  # bars
LENGTH = 24  # tokens; with 16 no more returns than by itself, with 32 long music says too much exactly again
NEW = 8  # bars
ALIKE = 0.7  # share of their tokens that the bars of a phrase and of its return have in common, on average
MOST = 0.75  # share of phrases that return, past which nothing is decided


@dataclass(frozen=True, kw_only=True)
class Phrasing:
    """How pieces return, a phrase being UNIT bars."""

    begin: float  # share of phrases that begin to return, of those that do not go on with a return
    stay: float  # share of returns that the next phrase goes on with
    back: tuple[float, ...]  # shares of them to the phrase before, the one before that, any other

    def __post_init__(self) -> None:
        shares = (self.begin, self.stay, *self.back)
        if len(self.back) != 3 or not all(0 <= share <= 1 for share in shares):
            raise ValueError(
                f"begin, stay and three of back are shares from 0 to 1, not {[*shares]}"
            )

    def in_words(self) -> str:
        """Return it in words."""
        back = ", ".join(f"{share:g}" for share in self.back)
        return f"begin {self.begin:g}, stay {self.stay:g}, back {back}"


class Phrases:
    """What the bars of one sequence are to be: an earlier bar again, or new."""

    def __init__(self, phrasing: Phrasing | None = None) -> None:
        """Begin before the first bar; without a phrasing nothing is decided."""
        self._phrasing = phrasing
        self._seed: tuple[int, ...] = ()
        self._bar, self._first = -1, 0  # which one this is, and from which on it is decided
        self._source: int | None = None  # the bar that this one is to say again

    def copy(self) -> Self:
        """Return one that goes on for itself."""
        return copy(self)

    def decide(self, seed: Sequence[int], begun: bool = False) -> None:
        """Decide after NEW new bars, of which this is the first if it has `begun`; the same with the same seed."""
        self._seed, self._first = (*seed,), self._bar + NEW + (not begun)

    @property
    def new(self) -> bool:
        """Whether it was decided that this bar repeats no earlier one."""
        decided = self._phrasing is not None and bool(self._seed) and self._bar >= self._first
        return decided and self._source is None

    def begin_bar(self) -> int | None:
        """Take it that a bar begins; return which earlier one it is to say again, if any."""
        self._bar += 1
        if self._source is not None:
            self._source += 1
        decides = self._seed and self._bar >= self._first and self._bar % UNIT == 0
        if self._phrasing is not None and decides:
            self._source = self._decided(self._phrasing)
        return self._source

    def _decided(self, phrasing: Phrasing) -> int | None:
        stays, begins, far = np.random.default_rng([*self._seed, self._bar]).random(3)
        if self._source is not None and stays < phrasing.stay:
            return self._source
        if begins >= phrasing.begin:
            return None
        one, two, further = phrasing.back
        others = self._bar // UNIT - 2
        chances = np.array([one, two, *[further / max(others, 1)] * others]).cumsum()
        back = 1 + int(np.searchsorted(chances, far * chances[-1], side="right"))
        return self._bar - UNIT * min(back, len(chances))


def sources_of(ids: np.ndarray, places: Collection[int]) -> dict[int, int | None]:
    """Return which earlier bar each phrase after NEW bars repeats from, by its first bar; None of a new one.

    One that goes on with what the phrase before it repeats, does; else the likest counts, of equal ones the last.
    """
    alike, sources = _likenesses(ids, sorted(places)), {}
    source: int | None = None
    for bar in range(NEW, len(alike) - UNIT + 1, UNIT):
        found = [np.trace(alike[bar:, k:][:UNIT, :UNIT]) / UNIT for k in range(bar - UNIT + 1)]
        goes_on = source is not None and found[source + UNIT] >= ALIKE
        source = source + UNIT if source is not None and goes_on else None
        if source is None and max(found) >= ALIKE:
            source = len(found) - 1 - int(np.argmax(found[::-1]))
        sources[bar] = source
    return sources


def phrasing_of(pieces: Iterable[tuple[np.ndarray, Collection[int]]]) -> Phrasing | None:
    """Return how pieces return, of ids and the places where bars begin; None where there is nothing to decide.

    A phrase returns that is like as many bars somewhere before it, be they a multiple of UNIT back or not.
    """
    stayed = went = begun = new = 0
    back: Counter[int] = Counter()
    for ids, places in pieces:
        came_from: int | None = None
        for bar, source in sources_of(ids, places).items():
            if source is None:
                went += came_from is not None
                new += 1
            elif came_from is not None and source == came_from + UNIT:
                stayed += 1
            else:
                went += came_from is not None
                begun += 1
                back[bar - source] += 1
            came_from = source
    returned = stayed + begun
    if not begun or returned > MOST * (returned + new):
        return None
    near = [back[UNIT] / begun, back[2 * UNIT] / begun]
    shares = [begun / (begun + new), stayed / max(stayed + went, 1), *near, 1 - sum(near)]
    begin, stay, *rest = (round(share, 3) for share in shares)
    return Phrasing(begin=begin, stay=stay, back=tuple(rest))


def _likenesses(ids: np.ndarray, places: Sequence[int]) -> np.ndarray:
    """Return how like each bar is to each before it: (bars, bars)."""
    bars = [Counter(part.tolist()) for part in np.split(ids, places)[1:]]
    alike = np.zeros((len(bars), len(bars)))
    for bar, own in enumerate(bars):
        alike[bar, :bar] = [likeness(own, other) for other in bars[:bar]]
    return alike
