"""Drawing within kinds of tokens: what is chosen more or less freely is which note, not whether there is one.

A temperature below 1 makes likely tokens likelier. Over a whole vocabulary it does more than that: a bar line is one
token, a note may be any of fifty, each unlikely by itself, so that notes lose to bar lines and music gets thinner than
the model expects. Here each kind of token, be it pitches, places in a bar or bar lines, is as likely as the model says:

    p(t) = P(kind of t) · p(t)^(1 / temperature) / Σ_u p(u)^(1 / temperature),    u of the kind of t,

and the limits on what is drawn, top-k, top-p and min-p, hold within a kind; a kind is left out that is less than min-p
times as likely as the likeliest one.

Letters: B rows, V tokens, K kinds.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Keeps = Callable[[np.ndarray, np.ndarray], np.ndarray]


class Kinds:
    """The tokens of a vocabulary, kind by kind.

    All are reckoned with, also those that may come in no row: the last bit of a sum must not depend on other rows.
    """

    def __init__(self, kinds: np.ndarray) -> None:
        """Take the kind of each token: (V,)."""
        self._order = np.argsort(kinds, kind="stable")  # kind by kind
        begins = np.diff(kinds[self._order], prepend=-1) != 0
        self._starts = np.flatnonzero(begins)  # (K,)
        self._of = np.cumsum(begins) - 1  # (V,)

    def chances(
        self,
        scores: np.ndarray,
        *,
        temperature: float,
        top_k: int | None,
        top_p: float,
        min_p: float,
    ) -> np.ndarray:
        """Return the distribution to sample from, of the logarithms of chances: (B, V) → (B, V)."""
        scores = np.take(scores, self._order, axis=1)
        of_kinds = self._sums(np.exp(scores - scores.max(axis=-1, keepdims=True)))  # (B, K)
        of_kinds = np.where(of_kinds >= min_p * of_kinds.max(axis=-1, keepdims=True), of_kinds, 0)
        highest = self._most(scores)
        apart = scores - np.where(highest > -np.inf, highest, 0)
        with np.errstate(over="ignore"):  # a temperature near 0 sends all but the likeliest to −∞
            within = self._shares(np.exp(apart / temperature))
        if top_k is not None:
            within = self._shares(self._likeliest(within, lambda _, rank: rank < top_k))
        if top_p < 1:
            within = self._likeliest(within, lambda before, _: before < top_p)
        if min_p > 0:
            within = np.where(within >= min_p * self._most(within), within, 0)
        chances = self._shares(within) * self._of_each(of_kinds)
        found = np.empty_like(scores)
        found[:, self._order] = chances / chances.sum(axis=-1, keepdims=True)
        return found

    def _of_each(self, values: np.ndarray) -> np.ndarray:
        """Return for each token the value of its kind, row by row in memory: (B, K) → (B, V)."""
        return np.take(values, self._of, axis=1)

    def _sums(self, values: np.ndarray) -> np.ndarray:
        """Return the sum of each kind: (B, V) → (B, K)."""
        return np.add.reduceat(values, self._starts, axis=-1)

    def _most(self, values: np.ndarray) -> np.ndarray:
        """Return the greatest value of each token's kind: (B, V) → (B, V)."""
        return self._of_each(np.maximum.reduceat(values, self._starts, axis=-1))

    def _shares(self, values: np.ndarray) -> np.ndarray:
        """Return what share each token has of its kind, 0 where the kind has nothing: (B, V) → (B, V)."""
        whole = self._sums(values)
        return values / self._of_each(np.where(whole > 0, whole, 1))

    def _likeliest(self, shares: np.ndarray, keeps: Keeps) -> np.ndarray:
        """Keep the likeliest of each kind, by what share is likelier and how many are, and their ties: (B, V) each."""
        order = np.argsort(2 * self._of - shares, axis=-1, kind="stable")  # falling, kind by kind
        falling = np.take_along_axis(shares, order, axis=-1)
        before = falling.cumsum(axis=-1) - falling
        before -= self._of_each(np.take(before, self._starts, axis=1))
        kept = keeps(before, np.arange(len(self._of)) - self._starts[self._of])
        least = np.minimum.reduceat(np.where(kept, falling, np.inf), self._starts, axis=-1)
        return np.where(shares >= self._of_each(least), shares, 0)
