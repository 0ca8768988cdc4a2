"""From logits to tokens: temperature, top-k, top-p, min-p and masks, over a batch at once, in numpy.

A token is drawn by inverting the cumulative distribution at one uniform number a row, so that each row has its own
stream of randomness. B rows, V vocabulary.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from musicgen.generation.kinds import Kinds
from tokenization.records import whole_number


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How freely to choose among the likely tokens; the limits apply in the order of the fields."""

    temperature: float = 1.0  # 0 always takes the likeliest token
    top_k: int | None = None  # only the k likeliest
    top_p: float = 1.0  # only the likeliest that together reach this probability
    min_p: float = 0.0  # only those at least this fraction as likely as the likeliest
    by_kind: bool | None = None  # within kinds of tokens (kinds.py); None: as suits what is written
    recall: float = 0.0  # how far to trust what followed the same notes before, where that was learned (recall/)

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise ValueError(
                f"temperature is {self.temperature}; it must be 0 or more; 1 leaves the model as it is"
            )
        if self.top_k is not None and whole_number(self.top_k, "top_k") < 1:
            raise ValueError(f"top_k is {self.top_k}; it must be 1 or more, or none for no limit")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p is {self.top_p}; it lies in 0 < top_p ≤ 1, 1 for no limit")
        if not 0 <= self.min_p <= 1:
            raise ValueError(f"min_p is {self.min_p}; it lies in 0 ≤ min_p ≤ 1, 0 for no limit")
        if not 0 <= self.recall <= 1:
            raise ValueError(
                f"recall is {self.recall}; it lies in 0 ≤ recall ≤ 1, 0 for what the model does by itself"
            )


# What suits music where nothing is asked for, as `python -m tests.tools.measure.sampling MODEL DATA` shows. Without
# min-p now and then a token is drawn that stands nowhere in the data, and what follows it wanders off. At temperature 1
# a groove loses its thread: of 16 bars a quarter returns to an earlier one, at 0.8 more than half (real ones: three
# quarters). At 0.6 chords hardly change: heads that look back by musical time find what was likeliest. Without recall
# songs hardly return; with the recall that makes held-out pieces likeliest, those drawn at 0.8 get caught in loops.
MUSICAL = Sampling(temperature=0.8, top_p=0.95, min_p=0.02, recall=0.5)


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
    if sampling.by_kind and kinds is not None:
        return kinds.chances(
            scores,
            temperature=sampling.temperature,
            top_k=sampling.top_k,
            top_p=sampling.top_p,
            min_p=sampling.min_p,
        )
    with np.errstate(over="ignore"):  # a temperature near 0 sends all but the likeliest to −∞
        scores /= sampling.temperature
    if sampling.top_k is not None and sampling.top_k < scores.shape[-1]:
        kth = np.partition(scores, -sampling.top_k, axis=-1)[:, -sampling.top_k, None]
        scores = np.where(scores >= kth, scores, -np.inf)
    chances = np.exp(scores)
    chances /= chances.sum(axis=-1, keepdims=True)
    if sampling.top_p < 1:
        chances = _nucleus(chances, sampling.top_p)
    if sampling.min_p > 0:
        chances = np.where(
            chances >= sampling.min_p * chances.max(axis=-1, keepdims=True), chances, 0
        )
    return chances / chances.sum(axis=-1, keepdims=True)


def _nucleus(chances: np.ndarray, top_p: float) -> np.ndarray:
    """Keep the fewest likeliest tokens that reach top_p (Holtzman et al. 2020, section 3.1), and their ties."""
    falling = -np.sort(-chances, axis=-1)
    before = falling.cumsum(axis=-1) - falling  # the probability of all likelier tokens
    last = (before < top_p).sum(axis=-1, keepdims=True) - 1
    return np.where(chances >= np.take_along_axis(falling, last, axis=-1), chances, 0)


def draw(chances: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
    """Draw one token a row: (B, V) probabilities and (B,) numbers in [0, 1) → (B,) ids."""
    rising = chances.cumsum(axis=-1)
    total = rising[:, -1:]
    goal = np.minimum(uniforms[:, None] * total, np.nextafter(total, 0))  # the product may round up
    return (rising <= goal).sum(axis=-1)
