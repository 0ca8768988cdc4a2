"""Music that goes round in circles, noticed and led out of them.

What was just said twice is likelier to be said a third time, by the model as by what it recalls (recalling.py): so
within some dozens of bars music gets caught in one or two of them, and says them for ever. Pieces do say a bar over and
over, but not for long. So the bars are counted that have nearly all tokens of one shortly before: one up for each of
them, one down for every other, and that for several degrees of "nearly" and "shortly" (DEGREES). Nine pieces in ten
stay within a limit, which is found for each degree as a model is published (training/results/recall_fit.py). There is
none where most bars of pieces are like that, as of grooves: the longer the piece, the higher their count.

Music that has come to a limit, or to what its prompt had if that is more, recalls nothing of the circle that it is in.
With each count past it, the tokens that followed so in the last bars become less likely by NATS: among those of their
kind, so that another note is played, not none, and not one after the other where it may not go on.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Collection, Iterable, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np
from typing_extensions import Self

from tokenization.grammar import exchange
from tokenization.records import value_of


class Degree(NamedTuple):
    """When a bar counts as one shortly before."""

    near: int  # bars back, at most
    alike: float  # share of their tokens that both have, at least


DEGREES = (
    Degree(4, 0.8), Degree(4, 0.9), Degree(8, 0.8), Degree(8, 0.9), Degree(16, 0.8), Degree(16, 0.9)
)  # fmt: skip
NATS = 0.5
Limits = tuple[int | None, ...]
"""How far music may go round in circles, a number a degree, None for as far as it does."""


class Past(NamedTuple):
    """How far a sequence is past a limit, and where in it."""

    excess: int  # 0 at the limit
    circle: int  # the place where the circle begins
    last: int  # the place where the last bars begin, one of which this bar may be like


class Circling:
    """How far a sequence goes round in circles, and since where."""

    def __init__(self, limits: Limits = (), place: int = 0) -> None:
        """Begin at a place in what is remembered; without limits nothing is ever past them."""
        self.counts = [0] * len(DEGREES)
        self.highest, self.again, self.bars = [0] * len(DEGREES), [0] * len(DEGREES), 0
        self._limits = [math.inf if limit is None else limit for limit in limits]
        self._place = place
        self._runs = [0] * len(DEGREES)  # bars in a row
        self._starts = [place]  # of bars; what stands before the first counts as one
        self._bar: Counter[int] = Counter()
        self._before: deque[Counter[int]] = deque(maxlen=max(near for near, _ in DEGREES))
        self._past: Past | None = None  # of this bar

    def copy(self) -> Self:
        """Return one that goes on for itself."""
        return deepcopy(self)

    def take(self, token: int, begins: bool) -> None:
        """Take one more token, and whether a bar begins with it."""
        if begins:
            self._end_bar()
        self._bar[token] += 1
        self._place += 1

    def get_used(self) -> None:
        """Take it that as far as it has gone in circles, it may."""
        self._limits = [*map(max, self._limits, self.counts)]
        self._past = self._measured()

    def start(self, bar: int) -> int:
        """Return the place where a bar begins, counted from 0."""
        return self._starts[bar + 1]

    def past(self) -> Past | None:
        """Say how far it is past the limit that it is furthest past; None within all of them."""
        return self._past

    def _measured(self) -> Past | None:
        found = [count - limit for count, limit in zip(self.counts, self._limits, strict=False)]
        if max(found, default=-1) < 0:
            return None
        degree = found.index(max(found))
        last, bar = DEGREES[degree].near, len(self._starts) - 1
        circle = last + self._runs[degree]
        return Past(
            int(found[degree]), self._starts[max(bar - circle, 0)], self._starts[max(bar - last, 0)]
        )

    def _end_bar(self) -> None:
        likenesses = [likeness(self._bar, other) for other in self._before]
        for degree, (near, alike) in enumerate(DEGREES):
            again = max(likenesses[-near:], default=0.0) >= alike
            self.counts[degree] = max(self.counts[degree] + (1 if again else -1), 0)
            self.highest[degree] = max(self.highest[degree], self.counts[degree])
            self.again[degree] += again
            self._runs[degree] = self._runs[degree] + 1 if again else 0
        self.bars += 1
        self._before.append(self._bar)
        self._bar = Counter()
        self._starts.append(self._place)
        self._past = self._measured()


def likeness(bar: Counter[int], other: Counter[int]) -> float:
    """Return the share of tokens that both bars have."""
    return 2 * (bar & other).total() / max(bar.total() + other.total(), 1)


def limits_of(pieces: Iterable[tuple[np.ndarray, Collection[int]]]) -> Limits:
    """Return how far nine pieces in ten go round in circles, by degrees; of ids and the places where bars begin."""
    counted = []
    for ids, bars in pieces:
        circling, bars = Circling(), {*bars}
        for place, token in enumerate(ids.tolist()):
            circling.take(token, place in bars)
        counted.append(circling)
    most = np.percentile([one.highest for one in counted], 90, axis=0, method="higher")
    shares = np.mean([np.array(one.again) / max(one.bars, 1) for one in counted], axis=0)
    return tuple(
        int(count) if share < 0.5 else None for count, share in zip(most, shares, strict=True)
    )


def checked_limits(stored: Any, where: str) -> Limits:
    """Return the limits that a model's file says, or say what is wrong with them; it may say none."""
    limits = value_of(tuple[int | None, ...] | None, stored, where)
    if limits is not None and len(limits) != len(DEGREES):
        raise ValueError(
            f"{where} is {list(limits)}; {len(DEGREES)} whole numbers or null are wanted"
        )
    return limits or ()


def lower(scores: np.ndarray, tokens: Sequence[int], nats: float, kinds: np.ndarray) -> None:
    """Make tokens less likely among those of their kind, each kind as likely as before: scores (V,), kinds (V,).

    What may not come is of another kind.
    """
    for kind in {int(kinds[token]) for token in tokens}:
        of_kind = np.flatnonzero(kinds == kind)
        exchange(scores, of_kind, np.where(np.isin(of_kind, tokens), -nats, 0.0))
