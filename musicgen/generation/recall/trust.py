"""How far what is recalled is to be trusted: weights that a model's file says, and what they are worth."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np

from musicgen.generation.recall.memory import guesses
from tokenization.records import value_of

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
