"""What followed the same notes earlier in the piece, beside what the model expects: so music returns.

Songs say a phrase or a chorus again, note for note. Linear attention sums up its past in a state of constant size, from
which one of ten thousand tokens cannot be taken out again. A list of places can do that. Where the last n tokens, ORDER
or more, stood before, what followed there is a guess; each place counts 2^(n − longest n), and the guess g is mixed in:

    p = (1 − λ) p_model + λ g,    λ / (1 − λ) = strength · exp(w₁ + w₂ log₂ n + w₃ s + w₄ s log₂ n)

with n of the longest, and s the share of the guess that its likeliest token has. The four weights w of a model are what
makes pieces likeliest that it has not learned from, at strength 1 (training/results/recall_fit.py). Music that is drawn
less freely than that needs less: it leaves by itself what it repeats less often. Music that goes round in circles for
longer than pieces do recalls nothing of the circle (circling.py). It is prediction by partial
matching (Cleary and Witten 1984) beside a network, as caches are (Grave et al. 2017, arXiv:1612.04426).

A token costs as much at any position, since MANY places at most are followed, and a piece takes two numbers a token.

Bars that are written anew are to be other bars. What stood in them often stands elsewhere in the piece too, and would
be recalled note for note; so what followed the same ORDER tokens in them is no guess (`unlike`). The model may still
write it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from typing_extensions import Self

from musicgen.generation.circling import NATS, Circling, Limits, lower
from tokenization.records import value_of

ORDER = 4  # tokens that have to be the same
MANY = 64  # places that are followed, the latest
NEAR = 4  # places whose n is less than the longest by more count nothing
LONGEST = 512  # n counts up to here
_BITS = 16  # a token, in what stands for the last four of them
_LAST = (1 << _BITS * ORDER) - 1


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
    limits: Limits = ()  # how far it may go round in circles; without them, as far as it does
    kinds: np.ndarray | None = field(default=None, compare=False)  # of tokens: (V,)

    @cached_property
    def unwanted(self) -> dict[int, set[int]]:
        """What followed each ORDER tokens of `unlike`, by these tokens in one number."""
        found, last = defaultdict(set), 0
        for place, token in enumerate(self.unlike):
            if place >= ORDER:
                found[last].add(token)
            last = _last(last, token)
        return found

    def share(self, length: int, agreement: float) -> float:
        """Return λ."""
        whole = share(self.weights, length, agreement)
        return self.strength * whole / (1 - whole + self.strength * whole)


def checked_weights(said: Any, where: str) -> list[float] | None:
    """Return the weights that a model's file says, or say what is wrong with them; None where it says none."""
    weights = value_of(tuple[float, ...] | None, said, where)
    if weights is not None and len(weights) != 4:
        raise ValueError(f"{where} is {list(weights)}; four numbers are wanted")
    return None if weights is None else [*weights]


def share(weights: Sequence[float], length: int, agreement: float) -> float:
    """Return the λ of strength 1, for the longest n and the share of the likeliest."""
    a, b, c, d = weights
    log = math.log2(min(length, LONGEST))
    logit = a + b * log + (c + d * log) * agreement
    return 1 / (1 + math.exp(-min(max(logit, -30.0), 30.0)))


def _last(before: int, token: int) -> int:
    return (before << _BITS | token) & _LAST


class Guess(NamedTuple):
    """What may come, by what came before."""

    chances: dict[int, float]  # of tokens; they sum to 1
    length: int  # of the longest stretch that is the same
    agreement: float  # the likeliest's


class Memory:
    """The tokens of one sequence, and the places in it that are like where it stands."""

    def __init__(self, heard: Iterable[int] = ()) -> None:
        """Stand after some tokens."""
        self._ids: list[int] = []
        self.last = 0  # the last ORDER tokens, in one number
        self._latest: dict[int, int] = {}  # the place after the same ones, the latest
        self._earlier: list[int] = []  # the one before that, of each place; 0 where there is none
        self._matches: dict[int, int] = {}  # how many tokens before a place are those before here
        for token in heard:
            self.take(token)

    def copy(self) -> Self:
        """Return a memory that goes on for itself."""
        other = type(self)()
        other._ids, other.last = self._ids.copy(), self.last
        other._latest, other._earlier = self._latest.copy(), self._earlier.copy()
        other._matches = self._matches.copy()
        return other

    def take(self, token: int) -> None:
        """Stand after one more token."""
        ids = self._ids
        here = {place + 1: n + 1 for place, n in self._matches.items() if ids[place] == token}
        ids.append(token)
        self.last = _last(self.last, token)
        place = 0
        if len(ids) >= ORDER:
            place = self._latest.get(self.last, 0)
            self._latest[self.last] = len(ids)
        self._earlier.append(place)
        for _ in range(MANY):
            if not place:
                break
            here.setdefault(place, ORDER)
            place = self._earlier[place - 1]
        if len(here) > MANY:
            here = {place: here[place] for place in sorted(here)[-MANY:]}
        self._matches = here

    def __len__(self) -> int:
        return len(self._ids)

    def guess(self, stop: int | None = None) -> Guess | None:
        """Say what may come next, by what stands before a place; None where nothing was like this."""
        matches = self._matches
        if stop is not None:
            matches = {place: n for place, n in matches.items() if place < stop}
        if not matches:
            return None
        longest = max(matches.values())
        chances: dict[int, float] = {}
        for place, n in matches.items():
            if n >= longest - NEAR:
                token = self._ids[place]
                chances[token] = chances.get(token, 0.0) + 2.0 ** (n - longest)
        total = sum(chances.values())
        chances = {token: chance / total for token, chance in chances.items()}
        return Guess(chances, longest, max(chances.values()))

    def followed(self, start: int) -> list[int]:
        """Return what followed the same tokens from a place on."""
        return sorted({self._ids[place] for place in self._matches if place >= start})


class Recalling:
    """A row that is being written, and what it recalls."""

    def __init__(self, recall: Recall, prompt: Sequence[int] = ()) -> None:
        """Stand after a prompt."""
        self._recall, self._rests = recall, False
        self._memory = Memory(recall.elsewhere)
        self._circling = Circling(recall.limits, len(self._memory))
        for place, token in enumerate(prompt):
            self.take(token, place in recall.bars)
        self._circling.get_used()

    def copy(self) -> Self:
        """Return one that goes on for itself."""
        other = copy(self)
        other._memory, other._circling = self._memory.copy(), self._circling.copy()
        return other

    def take(self, token: int, begins: bool = False) -> None:
        """Stand after one more token, knowing whether a bar begins with it."""
        self._rests |= token in self._recall.goals
        if not self._rests and token not in self._recall.passing:
            self._memory.take(token)
            self._circling.take(token, begins)

    def discourage(self, scores: np.ndarray) -> None:
        """Make what would go on in circles less likely, where it has for longer than pieces do: scores (V,)."""
        past = None if self._rests else self._circling.past()
        if past is not None and self._recall.kinds is not None:
            lower(scores, self._memory.followed(past.last), NATS * past.excess, self._recall.kinds)

    def mix(self, chances: np.ndarray, allowed: np.ndarray) -> None:
        """Mix what is recalled into the chances of what comes next, (V,), as far as it may come: (V,) bool."""
        if self._rests:
            return
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


def guesses(
    ids: np.ndarray, passing: Collection[int] = (), elsewhere: Iterable[int] = ()
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return of each token but the first how far it was guessed, from how long a match, and the likeliest's share.

    (T + 1,) ids → (T,) each; 0 where nothing was like that, and of tokens that are passed over.
    """
    memory, found = Memory(elsewhere), np.zeros((3, max(len(ids) - 1, 0)))
    for place, (token, coming) in enumerate(zip(ids[:-1].tolist(), ids[1:].tolist(), strict=True)):
        if token not in passing:
            memory.take(token)
        if coming not in passing and (guess := memory.guess()) is not None:
            found[:, place] = guess.chances.get(coming, 0.0), guess.length, guess.agreement
    return found[0], found[1], found[2]


def with_recall(
    losses: np.ndarray,
    ids: np.ndarray,
    weights: Sequence[float],
    passing: Collection[int] = (),
    elsewhere: Iterable[int] = (),
) -> np.ndarray:
    """Return the losses of a piece's tokens, in nats, with what is recalled mixed in: (T,) → (T,)."""
    guessed, lengths, agreements = guesses(ids, passing, elsewhere)
    trusted = np.array([
        share(weights, int(n), s) if n else 0.0 for n, s in zip(lengths, agreements, strict=True)
    ])  # fmt: skip
    return -np.log((1 - trusted) * np.exp(-losses) + trusted * guessed)
