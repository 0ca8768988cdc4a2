"""The places of a sequence that are like where it stands, what followed there, and how far that is to be trusted.

A token costs as much at any position, since MANY places at most are followed. A piece takes two numbers a token, and an
entry for every ORDER tokens that are new: some hundred bytes a token where little comes again.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from typing_extensions import Self

from tokenization.records import value_of

ORDER = 4  # tokens that have to be the same
MANY = 64  # places that are followed: those where most tokens are the same, of these the latest
FAR = 8  # tokens that may not come, which a return is looked for after
NEAR = 4  # places whose n is less than the longest by more count nothing
_BITS = 16  # a token, in what stands for the last four of them
_LAST = (1 << _BITS * ORDER) - 1


def last_with(before: int, token: int) -> int:
    """Return the last ORDER tokens, in one number, with one more."""
    return (before << _BITS | token) & _LAST


class Guess(NamedTuple):
    """What may come, by what came before."""

    chances: dict[int, float]  # of tokens; they sum to 1
    length: int  # of the longest stretch that is the same
    agreement: float  # the likeliest's


class Memory:
    """The tokens of one sequence, and the places in it that are like where it stands."""

    def __init__(self, elsewhere: Iterable[int] = (), kinds: np.ndarray | None = None) -> None:
        """Stand after some tokens; a return that was decided is followed through changes of tokens of the same kind."""
        self._ids: list[int] = []
        self._kinds = kinds
        self.last = 0  # the last ORDER tokens, in one number
        self._latest: dict[int, int] = {}  # the place after the same ones, the latest
        self._earlier: list[int] = []  # the one before that, of each place; 0 where there is none
        self._matches: dict[int, int] = {}  # how many tokens before a place are those before here
        self._back: int | None = None  # the place of a decided return, while it is followed
        for token in elsewhere:
            self.take(token)

    def copy(self) -> Self:
        """Return a memory that goes on for itself."""
        other = type(self)(kinds=self._kinds)
        other._ids, other.last = self._ids.copy(), self.last
        other._latest, other._earlier = self._latest.copy(), self._earlier.copy()
        other._matches, other._back = self._matches.copy(), self._back
        return other

    def take(self, token: int) -> None:
        """Stand after one more token."""
        ids, back = self._ids, self._back
        here = {place + 1: n + 1 for place, n in self._matches.items() if ids[place] == token}
        if back is not None and (aligned := self._aligned(back, token)) is not None:
            here.setdefault(aligned, self._matches.get(back, 0))
            self._back = aligned
        else:
            self._back = None
        ids.append(token)
        self.last = last_with(self.last, token)
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
            most = sorted(here, key=lambda place: (here[place], place))[-MANY:]
            here = {place: here[place] for place in most}
            if self._back not in here:
                self._back = None
        self._matches = here

    def _aligned(self, back: int, token: int) -> int | None:
        """Return the place to follow after a token where `back` was expected; None if the return is over."""
        ids = self._ids
        if ids[back] == token:
            return back + 1
        if self._kinds is None:
            return None
        if token in (near := ids[back : back + FAR]):  # something is left out
            return back + near.index(token) + 1
        same_kind = self._kinds[ids[back]] == self._kinds[token]
        return back + 1 if same_kind else back  # something else, or something more

    def go_back(self, place: int, length: int) -> None:
        """Follow a place as if so many tokens before it were those before here, or more if they are."""
        self._matches[place] = max(self._matches.get(place, 0), length)
        self._back = place

    def stop_following(self) -> None:
        """Follow no return that was decided."""
        if self._back is not None:
            self._matches.pop(self._back, None)
            self._back = None

    def pass_over(self, allowed: np.ndarray) -> None:
        """Let what was gone back to be followed from the next token that may come on: (V,) bool.

        What is spelled only where it changes, such as a tempo, may stand there and need not come here.
        """
        if (back := self._back) is None or allowed[self._ids[back]]:
            return
        for place in range(back + 1, min(back + FAR, len(self._ids))):
            if allowed[self._ids[place]]:
                self._matches[place] = max(self._matches.get(place, 0), self._matches.pop(back))
                self._back = place
                return

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


# How far what is recalled is to be trusted: weights that a model's file says, and what they are worth.

LONGEST = 512  # n counts up to here


def checked_weights(stored: Any, where: str) -> tuple[float, ...] | None:
    """Return the weights that a model's file says, or say what is wrong with them; None where it says none."""
    weights = value_of(tuple[float, ...] | None, stored, where)
    if weights is not None and len(weights) != 4:
        raise ValueError(f"{where} is {list(weights)}; four numbers are wanted")
    return weights


def share(weights: Sequence[float], length: int, agreement: float) -> float:
    """Return the λ of strength 1, for the longest n and the share of the likeliest."""
    a, b, c, d = weights
    log = math.log2(min(length, LONGEST))
    logit = a + b * log + (c + d * log) * agreement
    return 1 / (1 + math.exp(-min(max(logit, -30.0), 30.0)))


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
