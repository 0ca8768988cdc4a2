"""What followed the same notes earlier in the piece, beside what the model expects: so music returns.

Songs say a phrase or a chorus again, note for note. Linear attention sums up its past in a state of constant size, from
which one of ten thousand tokens cannot be taken out again. A list of places can do that. Where the last n tokens, ORDER
or more, stood before, what followed there is a guess; each place counts 2^(n − longest n), and the guess g is mixed in:

    p = (1 − λ) p_model + λ g,    λ / (1 − λ) = strength · exp(w₁ + w₂ log₂ n + w₃ s + w₄ s log₂ n)

with n of the longest, and s the share of the guess that its likeliest token has. The four weights w of a model are what
makes pieces likeliest that it has not learned from, at strength 1 (training/results/recall_fit.py). Music that is drawn
less freely than that needs less: it leaves by itself what it repeats less often. Music that goes round in circles for
longer than pieces do recalls nothing of the circle (circling.py). Where a plan says which bar returns, that bar is
followed (`Returns`).
It is prediction by partial matching (Cleary and Witten 1984) beside a network, as caches are (Grave et al. 2017,
arXiv:1612.04426).

Bars that are written anew are to be other bars. What stood in them often stands elsewhere in the piece too, and would
be recalled note for note; so what followed the same ORDER tokens in them is no guess (`unlike`). The model may still
write it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from typing_extensions import Self

from musicgen.generation.recall.circling import NATS, Circling, Limits, checked_limits, lower
from musicgen.generation.recall.memory import ORDER, Memory, checked_weights, last_with, share

# The repetition settings of a model, fitted to held-out pieces when it is published, and stored in its card.


@dataclass(frozen=True, kw_only=True)
class Habits:
    """How pieces return to what they said."""

    weights: tuple[float, ...]  # by which what is recalled is trusted (memory.py)
    limits: Limits = ()  # how far nine pieces in ten go round in circles (circling.py)

    def facts(self) -> dict[str, Any]:
        """Return what a card says."""
        return {"recall": [*self.weights], "circling": [*self.limits] or None}


def read_habits(facts: Mapping[str, Any], where: str) -> Habits | None:
    """Return what a card says, or say what is wrong with it; None where it says nothing."""
    weights = checked_weights(facts.get("recall"), f"{where}: recall")
    limits = checked_limits(facts.get("circling"), f"{where}: circling")
    return None if weights is None else Habits(weights=weights, limits=limits)


@dataclass(frozen=True, kw_only=True)
class Recall:
    """How far to trust what is recalled, and of what.

    It rests from the first token of a goal on, since what is asked for comes first: an end, or parts that are given.
    A gap is within its piece, so what passes over its seams is recalled as if they were not there.
    """

    weights: tuple[float, ...]
    goals: frozenset[int] = frozenset()
    passing: frozenset[int] = frozenset()
    elsewhere: tuple[int, ...] = ()  # what is known of the piece beside the sequence
    unlike: tuple[int, ...] = ()  # what is not to be said again, after the last tokens before it
    strength: float = 1.0
    bars: frozenset[int] = frozenset()  # places in the prompt where a bar begins
    # Tokens that say what a bar is to be like: nothing is recalled in their place.
    plan: frozenset[int] = frozenset()
    # How many bars back some of them return.
    returns: Mapping[int, int] = field(default_factory=dict, compare=False)
    # The bars that a user's plan has bars return to.
    sources: Mapping[int, int] = field(default_factory=dict, compare=False)
    passes_over: bool = True  # whether a return goes on after tokens that may not come
    limits: Limits = ()  # how far it may go round in circles; without them, as far as it does
    kinds: np.ndarray | None = field(default=None, compare=False)  # of tokens: (V,)

    @cached_property
    def unwanted(self) -> dict[int, set[int]]:
        """What followed each ORDER tokens of `unlike`, by these tokens in one number."""
        found, last = defaultdict(set), 0
        for place, token in enumerate(self.unlike):
            if place >= ORDER:
                found[last].add(token)
            last = last_with(last, token)
        return found

    def share(self, length: int, agreement: float) -> float:
        """Return λ."""
        whole = share(self.weights, length, agreement)
        return self.strength * whole / (1 - whole + self.strength * whole)


# Which earlier bar a planned bar returns to.
#
# A plan says of each bar whether it is new or like an earlier one, 1, 2, 4, 8 or 16 bars back, or another one. The
# network draws that, or a user asks for it. A state of constant size cannot bring back the notes themselves, so the
# cache follows the bar that is meant (memory.py). OTHER names no bar: the one is followed whose plan is the most like
# this bar's; the bar after the last one that was followed is preferred, then one whole phrases back.

RETURN = 32  # tokens that count as the same before the place that a return follows
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
        self._last: int | None = None  # the bar that the last planned return went to

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


class Recalling:
    """A row that is being written, and what it recalls."""

    def __init__(self, recall: Recall, prompt: Sequence[int] = ()) -> None:
        """Stand after a prompt."""
        self._recall, self._rests = recall, False
        self._memory = Memory(recall.elsewhere, recall.kinds)
        self._plan = np.array(sorted(recall.plan), dtype=np.int64)
        self._circling = Circling(recall.limits, len(self._memory))
        self._returns = Returns(recall.returns, recall.sources)
        for place, token in enumerate(prompt):
            self.take(token, place in recall.bars)
        self._circling.get_used()

    def copy(self) -> Self:
        """Return one that goes on for itself."""
        other = copy(self)
        other._memory, other._circling = self._memory.copy(), self._circling.copy()
        other._returns = self._returns.copy()
        return other

    def take(self, token: int, begins: bool = False) -> None:
        """Stand after one more token, knowing whether a bar begins with it."""
        self._rests |= token in self._recall.goals
        if token in self._recall.plan:
            self._returns.take(token)
        else:
            self._follow()
        if not self._rests and token not in self._recall.passing:
            self._memory.take(token)
            self._circling.take(token, begins)
            if begins:
                self._memory.stop_following()
                self._returns.begin_bar()

    def _follow(self) -> None:
        """Follow the bar that the plan of this one returns to."""
        if (source := self._returns.source()) is not None:
            self._memory.go_back(self._circling.start(source) + 1, RETURN)

    def bias(self, scores: np.ndarray, allowed: np.ndarray) -> None:
        """Change the scores of what comes next, (V,), as far as it may come: (V,) bool.

        What would go on in circles gets less likely, where it has for longer than pieces do.
        """
        if self._rests:
            return
        past = self._circling.past()
        if past is not None and self._recall.kinds is not None:
            tokens = [token for token in self._memory.followed(past.last) if allowed[token]]
            kinds = np.where(allowed, self._recall.kinds, -1)  # what may not come is no choice
            lower(scores, tokens, NATS * past.excess, kinds)

    def mix(self, chances: np.ndarray, allowed: np.ndarray) -> None:
        """Mix what is recalled into the chances of what comes next, (V,), as far as it may come: (V,) bool."""
        if self._rests or self._returns.new or allowed[self._plan].any():
            return
        self._follow()
        if self._recall.passes_over:
            self._memory.pass_over(allowed)
        past = self._circling.past()
        guess = self._memory.guess(None if past is None else past.circle)
        if guess is None:
            return
        tokens = np.fromiter(guess.chances, np.int64)
        recalled = np.fromiter(guess.chances.values(), np.float64) * allowed[tokens]
        if unwanted := self._recall.unwanted.get(self._memory.last):
            recalled[np.isin(tokens, [*unwanted])] = 0
        # What may not come is no longer trusted.
        share = self._recall.share(guess.length, guess.agreement) * float(recalled.sum())
        if not share:
            return
        chances *= 1 - share
        chances[tokens] += share * recalled / recalled.sum()
