"""Critics that teach: each judges takes of prompts from which it has not learned (training/preference)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from evaluation.critic import learned
from musicgen.critic import Critic, NewBars, windows_of
from tokenization.score import Score

FOLDS = 5  # of prompts; a critic of the others judges each


def doubts(prompts: Sequence[Sequence[Score]], new: NewBars) -> list[np.ndarray]:
    """Return how much each take of each prompt is doubted, as log-odds; the last of a prompt's is its real bars."""
    if len(prompts) < 2:
        raise ValueError("critics that teach need 2 prompts or more; raise preference.prompts")
    heard = [[windows_of(score, new) for score in takes] for takes in prompts]
    folds = min(FOLDS, len(heard))
    critics = [
        _critic([takes for number, takes in enumerate(heard) if number % folds != fold])
        for fold in range(folds)
    ]
    return [
        np.array([critics[number % folds].doubt_of(take) for take in takes])
        for number, takes in enumerate(heard)
    ]


def _critic(heard: Sequence[Sequence[Sequence[dict[str, float]]]]) -> Critic:
    """Return a critic that has learned from the windows of some prompts."""
    windows = [one for takes in heard for take in takes for one in take]
    written = [
        number + 1 < len(takes)
        for takes in heard
        for number, take in enumerate(takes)
        for _ in take
    ]
    names = sorted({name for one in windows for name in one})
    values = np.array([[one.get(name, np.nan) for name in names] for one in windows])
    arrays: dict[str, Any] = learned(names, values, np.array(written))
    return Critic(arrays)
