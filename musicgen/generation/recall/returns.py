"""Which earlier bar a planned bar returns to.

A plan says of each bar whether it is new or like an earlier one, 1, 2, 4, 8 or 16 bars back, or some other one
(tokenization/ensemble). The network draws that, or a user asks for it; a state of constant size cannot bring back the
notes themselves, so the cache follows the bar that is meant (memory.py). `other` names no bar, so the one is
followed whose plan is the most like this bar's; the bar after the last one that was followed is preferred, and then one
whole phrases back.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy

from typing_extensions import Self

PHRASE = 4  # bars
OTHER = -1  # bars back: an earlier bar that has no name


class Returns:
    """The plans of the bars of one sequence."""

    def __init__(self, back: Mapping[int, int], given: Mapping[int, int]) -> None:
        """Take how many bars back each token returns, 0 for a new bar, OTHER for one that is not named.

        `given` names the source of each bar of which it is known.
        """
        self._back, self._given = back, given
        self._plans: list[frozenset[int]] = []
        self._asked: int | None = None
        self.new = False  # whether the plan says that this bar is new
        self._last: int | None = (
            None  # the bar that was returned to last, if the bar before this one returned
        )

    def copy(self) -> Self:
        """Return one that goes on for itself."""
        other = copy(self)
        other._plans = self._plans.copy()
        return other

    def begin_bar(self) -> None:
        """Take it that a bar begins."""
        self._plans.append(frozenset())
        self._asked, self.new = None, False

    def take(self, token: int) -> None:
        """Take a token of the plan of this bar."""
        if token in self._back:
            self._asked = self._back[token]
            self.new = not self._asked
        elif self._plans:
            self._plans[-1] |= {token}

    def source(self) -> int | None:
        """Return the bar that this one returns to, from 0; the answer is given once, when the plan is complete."""
        asked, self._asked = self._asked, None
        if asked is None:
            return None
        bar = len(self._plans) - 1
        if bar in self._given:
            self._last = self._given[bar]
        elif asked == OTHER:
            self._last = self._like(bar)
        else:
            self._last = bar - asked if 0 < asked <= bar else None
        return self._last

    def _like(self, bar: int) -> int | None:
        own, next_one = self._plans[bar], None if self._last is None else self._last + 1
        named = {bar - back for back in self._back.values() if back > 0}
        others = [other for other in range(bar) if other not in named]
        if not others or not own:
            return None

        def likeness(other: int) -> tuple[int, int]:
            common = len(own & self._plans[other])
            return common + 2 * (other == next_one) + ((bar - other) % PHRASE == 0), other

        return max(others, key=likeness)
