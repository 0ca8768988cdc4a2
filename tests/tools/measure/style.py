"""Measure the style profiles against their definition, pair by pair."""

from collections.abc import Callable
from math import sqrt
from timeit import repeat
from typing import Any

import numpy as np

from evaluation.metrics.style import cosine, onset_duration, time_pitch
from tests.evaluation.metrics.slow_style import Cells, slow_onset_duration, slow_time_pitch
from tests.evaluation.scores import random_trio


def slow_cosine(a: Cells, b: Cells) -> float:
    """Return the cosine of two histograms with notes in them."""
    dot = sum(count * b.get(cell, 0) for cell, count in a.items())
    return dot / sqrt(sum(c * c for c in a.values()) * sum(c * c for c in b.values()))


def measure(notes: int = 2000, fast_times: int = 10) -> dict[str, float]:
    """Return how many times as fast two pieces' similarity by both metrics is, and the largest difference."""
    pieces = [random_trio(seed, notes, beats=notes // 8) for seed in range(2)]

    def found(alike: Callable[..., Any], *metrics: Callable[..., Any]) -> np.ndarray:
        profiles = ([m(one.notes, one.ticks_per_beat) for one in pieces] for m in metrics)
        return np.array([alike(*both) for both in profiles], dtype=float)

    fast = cosine, onset_duration, time_pitch
    slow = slow_cosine, slow_onset_duration, slow_time_pitch
    seconds = min(repeat(lambda: found(*fast), number=1, repeat=fast_times))
    return {
        "ratio": repeat(lambda: found(*slow), number=1, repeat=1)[0] / seconds,
        "largest_difference": float(np.abs(found(*fast) - found(*slow)).max()),
    }
