"""Sampling: from logits to tokens by temperature, top-k, top-p, min-p and masks, over a batch, in numpy.

A token is drawn by inverting the cumulative distribution at one uniform number per row, so that each row has its own
stream of randomness. B rows, V vocabulary, K kinds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any

import numpy as np

from tokenization.records import whole_number

# Sampling by kind keeps the probability of each kind of token (pitches, onsets, bar lines) as the model gives it:
#
#     p(t) = P(kind of t) · p(t)^(1 / temperature) / Σ_u p(u)^(1 / temperature),    u of the kind of t
#
# Over a whole vocabulary, a temperature below 1 makes music sparse: the bar line is one token, but a note can be any of
# fifty tokens, each improbable by itself. Top-k, top-p and min-p apply within a kind. Min-p applies among kinds too: a
# kind less than min-p times as probable as the most probable one is left out.

Keeps = Callable[[np.ndarray, np.ndarray], np.ndarray]


class Kinds:
    """The tokens of a vocabulary grouped by kind.

    Sums run over all tokens, also those allowed in no row: their last bits must not depend on the other rows.
    """

    def __init__(self, kinds: np.ndarray, untouched: Collection[int] = ()) -> None:
        """Group tokens by kind, (V,); whole kinds can be `untouched`: sampled at temperature 1 without limits."""
        self._order = np.argsort(kinds, kind="stable")  # kind by kind
        begins = np.diff(kinds[self._order], prepend=-1) != 0
        self._starts = np.flatnonzero(begins)  # (K,)
        self._of = np.cumsum(begins) - 1  # (V,)
        self._untouched = np.isin(self._order, [*untouched])  # (V,)

    def probabilities(self, scores: np.ndarray, sampling: Sampling) -> np.ndarray:
        """Return the probabilities to sample from, given log-probabilities: (B, V) → (B, V)."""
        scores = np.take(scores, self._order, axis=1)
        of_kinds = self._sums(np.exp(scores - scores.max(axis=-1, keepdims=True)))  # (B, K)
        of_kinds = np.where(
            of_kinds >= sampling.min_p * of_kinds.max(axis=-1, keepdims=True), of_kinds, 0
        )
        highest = self._maximum(scores)
        shifted = scores - np.where(highest > -np.inf, highest, 0)
        with np.errstate(over="ignore"):  # near temperature 0, all but the most probable go to −∞
            temperatures = np.where(self._untouched, 1.0, sampling.temperature)
            whole = within = self._shares(np.exp(shifted / temperatures))
        if (most := sampling.top_k) is not None:
            within = self._shares(self._most_probable(within, lambda _, rank: rank < most))
        if sampling.top_p < 1:  # Holtzman et al. 2020, section 3.1
            within = self._most_probable(within, lambda before, _: before < sampling.top_p)
        if sampling.min_p > 0:
            within = np.where(within >= sampling.min_p * self._maximum(within), within, 0)
        within = np.where(self._untouched, whole, within)
        chances = self._shares(within) * self._of_each(of_kinds)
        found = np.empty_like(scores)
        found[:, self._order] = chances / chances.sum(axis=-1, keepdims=True)
        return found

    def _of_each(self, values: np.ndarray) -> np.ndarray:
        """Return the value of each token's kind, in C order: (B, K) → (B, V)."""
        return np.take(values, self._of, axis=1)

    def _sums(self, values: np.ndarray) -> np.ndarray:
        """Return the sum of each kind: (B, V) → (B, K)."""
        return np.add.reduceat(values, self._starts, axis=-1)

    def _maximum(self, values: np.ndarray) -> np.ndarray:
        """Return the greatest value of each token's kind: (B, V) → (B, V)."""
        return self._of_each(np.maximum.reduceat(values, self._starts, axis=-1))

    def _shares(self, values: np.ndarray) -> np.ndarray:
        """Normalise the values of each kind to a sum of 1, or to 0 if all are 0: (B, V) → (B, V)."""
        whole = self._sums(values)
        return values / self._of_each(np.where(whole > 0, whole, 1))

    def _most_probable(self, shares: np.ndarray, keeps: Keeps) -> np.ndarray:
        """Zero all but the most probable tokens of each kind: (B, V) → (B, V).

        `keeps` decides by the share of the more probable tokens of a kind, and by their number; ties are kept too.
        """
        # In descending order within each kind.
        order = np.argsort(2 * self._of - shares, axis=-1)
        descending = np.take_along_axis(shares, order, axis=-1)
        before = descending.cumsum(axis=-1) - descending
        before -= self._of_each(np.take(before, self._starts, axis=1))
        kept = keeps(before, np.arange(len(self._of)) - self._starts[self._of])
        least = np.minimum.reduceat(np.where(kept, descending, np.inf), self._starts, axis=-1)
        return np.where(shares >= self._of_each(least), shares, 0)


@dataclass(frozen=True)
class Control:
    """How users set a number: by a command-line option, and by a slider of the page."""

    help: str
    letter: str
    label: str
    hint: str
    least: float = 0
    most: float = 1  # of the slider; `Sampling` checks the bounds
    step: float = 0.01


MOST_GUIDANCE = 10


def _set_by(default: Any, control: Control) -> Any:
    return field(default=default, metadata={"control": control})


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How freely tokens are chosen; of the limits, top_k applies first, then top_p, then min_p.

    `temperature` 0 takes the most probable token, and 1 is the model itself. `recall` scales how strongly earlier bars
    are recalled, and `guidance` how strictly a requested plan is kept. Commands, endpoints and page take names,
    descriptions and bounds from the fields.
    """

    temperature: float = _set_by(1.0, Control(
        "randomness: 0 always takes the most probable token, 1 samples from the model's own probabilities", "T",
        "Creativity", "0: the most predictable music, 1: as varied as the model has learned", most=2,
    ))  # fmt: skip
    top_p: float = _set_by(1.0, Control(
        "sample from the most probable tokens whose probabilities add up to P", "P",
        "Top-p", "1: no limit", least=0.05,
    ))  # fmt: skip
    top_k: int | None = _set_by(None, Control(
        "sample from the K most probable tokens (default: no limit)", "K",
        "Top-k", "0: no limit", most=200, step=1,
    ))  # fmt: skip
    min_p: float = _set_by(0.0, Control(
        "sample from tokens at least P times as probable as the most probable one; 0: no limit", "P",
        "Min-p", "0: no limit", most=0.5,
    ))  # fmt: skip
    by_kind: bool | None = None  # see `Kinds`; None: as the language prefers
    # Of earlier bars (recall.py), if the model has learned it.
    recall: float = _set_by(1.0, Control(
        "how strongly earlier bars are recalled, 0 (not at all) to 1", "R",
        "Recall", "how strongly earlier bars are recalled; 0: not at all", step=0.05,
    ))  # fmt: skip
    # Classifier-free guidance (Ho and Salimans 2022) towards a requested plan:
    # logits without the plan + guidance · (logits with it − logits without it).
    guidance: float = _set_by(2.0, Control(
        "how closely bars follow the requested plan; 1: no guidance", "G",
        "Guidance", "how closely bars follow a plan; 1: no guidance", least=1, most=4, step=0.1,
    ))  # fmt: skip

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise ValueError(
                f"temperature is {self.temperature}; it must be 0 or more; 1 leaves the model as it is"
            )
        if self.top_k is not None and whole_number(self.top_k, "top_k") < 1:
            raise ValueError(f"top_k is {self.top_k}; it must be 1 or more, or None for no limit")
        if not 0 < self.top_p <= 1:
            raise ValueError(
                f"top_p is {self.top_p}; it must be in 0 < top_p ≤ 1; 1 means no limit"
            )
        for name, value, least, most, meaning in (
            ("min_p", self.min_p, 0, 1, "0 means no limit"),
            ("recall", self.recall, 0, 1, "0 turns recall off"),
            ("guidance", self.guidance, 1, MOST_GUIDANCE, "1 turns guidance off"),
        ):
            if not least <= value <= most:
                bounds = f"{least} ≤ {name} ≤ {most}"
                raise ValueError(f"{name} is {value}; it must be in {bounds}; {meaning}")


# The default for music. Without min-p, now and then a token is drawn that never follows such a context in the data, and
# the music after it loses its way. At a temperature of 0.9, songs had too few pitches.
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
    """Return the probabilities to sample from, (B, V) → (B, V); each row of `allowed` must allow a token.

    The mask applies first, so that the limits count allowed tokens only. `kinds` are needed for sampling by kind.
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
    return kinds.probabilities(scores, sampling)


@cache
def _one_kind(size: int) -> Kinds:
    """Return `size` tokens as one kind: the limits apply over the whole vocabulary."""
    return Kinds(np.zeros(size, np.int64))


def draw(chances: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
    """Draw one token per row: (B, V) probabilities and (B,) uniform numbers in [0, 1) → (B,) ids."""
    rising = chances.cumsum(axis=-1)
    total = rising[:, -1:]
    goal = np.minimum(uniforms[:, None] * total, np.nextafter(total, 0))  # the product may round up
    return (rising <= goal).sum(axis=-1)
