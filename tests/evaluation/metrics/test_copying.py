"""Copies of the prompt and differences of outputs, on token arrays."""

import numpy as np
import pytest

from evaluation.metrics.style import copied_share, diversity

PROMPT = np.arange(10)


def test_a_copied_run_counts_with_all_its_tokens():
    output = np.array([90, 91, 2, 3, 4, 5, 92, 93, 0, 1])
    assert copied_share(output, PROMPT, run=4) == pytest.approx(4 / 10)
    assert copied_share(output, PROMPT, run=2) == pytest.approx(6 / 10)
    assert copied_share(output, PROMPT, run=5) == 0.0


def test_overlapping_runs_count_each_token_once():
    assert copied_share(np.tile(PROMPT, 3), PROMPT, run=4) == 1.0
    assert copied_share(np.concatenate([PROMPT, [99, 98]]), PROMPT, run=4) == pytest.approx(10 / 12)


def test_too_short_to_tell():
    assert copied_share(np.arange(3), PROMPT, run=4) is None
    assert copied_share(PROMPT, np.arange(3), run=4) is None


def test_diversity():
    a, b = np.arange(20), np.arange(100, 120)
    assert diversity([a, a], run=4) == 0.0
    assert diversity([a, b], run=4) == 1.0
    assert diversity([a, a, b], run=4) == pytest.approx(2 / 3)
    assert diversity([np.arange(6), np.arange(2, 8)], run=4) == pytest.approx(1 - 1 / 5)


def test_diversity_counts_repetitions():
    assert diversity([np.zeros(4), np.zeros(8)], run=4) == pytest.approx(1 - 1 / 5)


def test_diversity_takes_two_outputs():
    assert diversity([np.arange(20)], run=4) is None
    assert diversity([np.arange(20), np.arange(2)], run=4) is None
