"""From logits to tokens: temperature, top-k, top-p, min-p and masks, over a batch at once, in numpy.

A token is drawn by inverting the cumulative distribution at one uniform number a row, so that each row has its own
stream of randomness. B rows, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any

import numpy as np

from tokenization.records import whole_number

# Drawing within kinds of tokens (pitches, places in a bar, bar lines), each of which is as likely as the model says:
#
#     p(t) = P(kind of t) · p(t)^(1 / temperature) / Σ_u p(u)^(1 / temperature),    u of the kind of t
#
# Over a whole vocabulary a temperature below 1 makes music thin: a bar line is one token, a note may be any of fifty,
# each unlikely by itself. The limits top-k, top-p and min-p hold within a kind; a kind is left out that is less than
# min-p times as likely as the likeliest one.
#
# B rows, V tokens, K kinds.

Keeps = Callable[[np.ndarray, np.ndarray], np.ndarray]


class Kinds:
    """The tokens of a vocabulary, kind by kind.

    All are reckoned with, also those that may come in no row: the last bit of a sum must not depend on other rows.
    """

    def __init__(self, kinds: np.ndarray, untouched: Collection[int] = ()) -> None:
        """Take the kind of each token, (V,), and whole kinds of tokens that are drawn as the model says."""
        self._order = np.argsort(kinds, kind="stable")  # kind by kind
        begins = np.diff(kinds[self._order], prepend=-1) != 0
        self._starts = np.flatnonzero(begins)  # (K,)
        self._of = np.cumsum(begins) - 1  # (V,)
        self._untouched = np.isin(self._order, [*untouched])  # (V,)

    def chances(self, scores: np.ndarray, sampling: Sampling) -> np.ndarray:
        """Return the distribution to sample from, of the logarithms of chances: (B, V) → (B, V)."""
        scores = np.take(scores, self._order, axis=1)
        of_kinds = self._sums(np.exp(scores - scores.max(axis=-1, keepdims=True)))  # (B, K)
        of_kinds = np.where(
            of_kinds >= sampling.min_p * of_kinds.max(axis=-1, keepdims=True), of_kinds, 0
        )
        highest = self._most(scores)
        apart = scores - np.where(highest > -np.inf, highest, 0)
        with np.errstate(over="ignore"):  # a temperature near 0 sends all but the likeliest to −∞
            freedom = np.where(self._untouched, 1.0, sampling.temperature)
            whole = within = self._shares(np.exp(apart / freedom))
        if (most := sampling.top_k) is not None:
            within = self._shares(self._likeliest(within, lambda _, rank: rank < most))
        if sampling.top_p < 1:  # Holtzman et al. 2020, section 3.1
            within = self._likeliest(within, lambda before, _: before < sampling.top_p)
        if sampling.min_p > 0:
            within = np.where(within >= sampling.min_p * self._most(within), within, 0)
        within = np.where(self._untouched, whole, within)
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
        # Falling, kind by kind; of ties any first.
        order = np.argsort(2 * self._of - shares, axis=-1)
        falling = np.take_along_axis(shares, order, axis=-1)
        before = falling.cumsum(axis=-1) - falling
        before -= self._of_each(np.take(before, self._starts, axis=1))
        kept = keeps(before, np.arange(len(self._of)) - self._starts[self._of])
        least = np.minimum.reduceat(np.where(kept, falling, np.inf), self._starts, axis=-1)
        return np.where(shares >= self._of_each(least), shares, 0)


@dataclass(frozen=True)
class Control:
    """How people set a number of the sampling: by an option, and by a slider of the page."""

    help: str
    letter: str
    label: str
    hint: str
    least: float = 0
    most: float = 1  # of the slider; the check below knows what is possible
    step: float = 0.01


MOST_GUIDANCE = 10


def _set_by(default: Any, control: Control) -> Any:
    return field(default=default, metadata={"control": control})


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How freely to choose among the likely tokens; of the limits, top_k applies first.

    Command, endpoints and page take what can be set from here, with words and bounds.
    """

    temperature: float = _set_by(1.0, Control(
        "how daring: 0 always takes the likeliest token, 1 is the model itself", "T",
        "Temperature", "0: always the likeliest note", most=2,
    ))  # fmt: skip
    top_p: float = _set_by(1.0, Control(
        "only the likeliest tokens that make up P of all together", "P",
        "Top-p", "1: no limit", least=0.05,
    ))  # fmt: skip
    top_k: int | None = _set_by(None, Control(
        "only the K likeliest tokens (default: any)", "K",
        "Top-k", "0: no limit", most=200, step=1,
    ))  # fmt: skip
    min_p: float = _set_by(0.0, Control(
        "only tokens at least P times as likely as the likeliest, 0 for all", "P",
        "Min-p", "0: no limit", most=0.5,
    ))  # fmt: skip
    by_kind: bool | None = None  # within kinds of tokens (`Kinds`); None: as suits what is written
    # Of the piece (recall.py), where that was learned.
    recall: float = _set_by(1.0, Control(
        "how much counts what the piece said before, 0 to 1; 0: nothing", "R",
        "Repetition", "0: remembers nothing of the piece", step=0.05,
    ))  # fmt: skip
    # Classifier-free guidance (Ho and Salimans 2022), where a plan is asked for: logits go on from those without the
    # plan, through those with it, to so many times their distance.
    guidance: float = _set_by(2.0, Control(
        "how strictly bars keep to the plan that is asked for; 1 is the model itself", "G",
        "Guidance", "how strictly a plan is kept; 1: as the model does by itself", least=1, most=4, step=0.1,
    ))  # fmt: skip

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise ValueError(
                f"temperature is {self.temperature}; it must be 0 or more; 1 leaves the model as it is"
            )
        if self.top_k is not None and whole_number(self.top_k, "top_k") < 1:
            raise ValueError(f"top_k is {self.top_k}; it must be 1 or more, or none for no limit")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p is {self.top_p}; it lies in 0 < top_p ≤ 1, 1 for no limit")
        for name, value, least, most, meaning in (
            ("min_p", self.min_p, 0, 1, "0 for no limit"),
            ("recall", self.recall, 0, 1, "0 recalls nothing"),
            ("guidance", self.guidance, 1, MOST_GUIDANCE, "1 guides nothing"),
        ):
            if not least <= value <= most:
                bounds = f"{least} ≤ {name} ≤ {most}"
                raise ValueError(f"{name} is {value}; it lies in {bounds}; {meaning}")


# What suits music where nothing is asked for. Without min-p now and then a token is drawn that stands nowhere in the
# data, and what follows it wanders off. At a temperature of 0.9 songs had too few pitches.
MUSICAL = Sampling(min_p=0.01)


CONTROLS: dict[str, Control] = {
    one.name: one.metadata["control"] for one in fields(Sampling) if one.metadata
}


def probabilities(
    logits: np.ndarray,
    sampling: Sampling,
    allowed: np.ndarray | None = None,
    kinds: Kinds | None = None,
) -> np.ndarray:
    """Return the distribution sampled from, (B, V) → (B, V); every row of `allowed` allows something.

    What is not allowed is left out before anything else, so the limits count allowed tokens only. `kinds` are those of
    the tokens, to draw within.
    """
    scores = logits.astype(np.float64)
    if allowed is not None:
        scores = np.where(allowed, scores, -np.inf)
    scores = scores - scores.max(axis=-1, keepdims=True)
    if sampling.temperature == 0:
        first = np.zeros_like(scores)
        first[np.arange(len(scores)), scores.argmax(axis=-1)] = 1
        return first
    if kinds is None or not sampling.by_kind:
        kinds = _one_kind(scores.shape[-1])
    return kinds.chances(scores, sampling)


@cache
def _one_kind(size: int) -> Kinds:
    """Return so many tokens as one kind: the limits hold over all of them."""
    return Kinds(np.zeros(size, np.int64))


def draw(chances: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
    """Draw one token a row: (B, V) probabilities and (B,) numbers in [0, 1) → (B,) ids."""
    rising = chances.cumsum(axis=-1)
    total = rising[:, -1:]
    goal = np.minimum(uniforms[:, None] * total, np.nextafter(total, 0))  # the product may round up
    return (rising <= goal).sum(axis=-1)
