"""Measure the style profiles against their definition, pair by pair."""

import time
from collections.abc import Callable

import numpy as np

from evaluation.metrics.style import cosine, onset_duration, time_pitch
from tests.evaluation.metrics.slow_style import slow_cosine, slow_onset_duration, slow_time_pitch
from tests.evaluation.scores import random_trio


def seconds(work: Callable[[], object], times: int) -> float:
    """Return the shortest time of several."""
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return min(taken)


def measure(notes: int = 2000, fast_times: int = 10) -> dict[str, float]:
    """Return the times of both ways for two pieces' similarity by both metrics, their ratio, and the
    largest difference of the results."""
    pieces = [random_trio(seed, notes, beats=notes // 8) for seed in range(2)]
    fast: list[float | None] = []
    slow: list[float] = []

    def quickly() -> None:
        fast[:] = [
            cosine(*(metric(piece.notes, piece.ticks_per_beat) for piece in pieces))
            for metric in (onset_duration, time_pitch)
        ]

    def slowly() -> None:
        slow[:] = [
            slow_cosine(*(metric(piece.notes, piece.ticks_per_beat) for piece in pieces))
            for metric in (slow_onset_duration, slow_time_pitch)
        ]

    slow_seconds, fast_seconds = seconds(slowly, 1), seconds(quickly, fast_times)
    return {
        "fast_seconds": fast_seconds,
        "slow_seconds": slow_seconds,
        "ratio": slow_seconds / fast_seconds,
        "largest_difference": float(np.abs(np.array(fast, dtype=float) - slow).max()),
    }
