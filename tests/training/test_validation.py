from pathlib import Path

import numpy as np
import pytest
import torch

from tests.training.makers import toy_config, toy_run
from training.data.batches import IGNORED, next_token_loss
from training.validation import summary


def test_loss_matches_its_definition_at_each_position():
    logits = torch.randn(2, 5, 7, dtype=torch.float64)
    targets = torch.randint(7, (2, 5))
    targets[1, 3:] = IGNORED
    loss = next_token_loss(logits, targets)
    probability = logits.softmax(-1).gather(2, targets.clamp(min=0)[..., None])[..., 0]
    expected = torch.where(targets == IGNORED, 0.0, -probability.log())
    torch.testing.assert_close(loss, expected)
    assert next_token_loss(logits.bfloat16(), targets).dtype == torch.float32


def test_summary_has_means_by_position_within_and_past_the_trained_length():
    losses = np.tile(np.arange(24.0), (3, 1))
    counts = np.ones_like(losses)
    counts[2, 20:], losses[2, 20:] = 0, 0
    measured = summary(losses, counts, trained=16)
    assert measured.inside == pytest.approx(np.arange(16).mean())
    beyond = np.concatenate([np.arange(16, 24), np.arange(16, 24), np.arange(16, 20)])
    assert measured.beyond == pytest.approx(beyond.mean())
    assert [row[:2] for row in measured.rows] == [(i, i + 2) for i in range(0, 24, 2)]
    assert [row[2] for row in measured.rows] == [i + 0.5 for i in range(0, 24, 2)]
    assert [row[4] for row in measured.rows] == [3] * 10 + [2] * 2
    assert all(row[3] == pytest.approx(0) for row in measured.rows)
    odd = summary(np.ones((2, 25)), np.ones((2, 25)), trained=16)
    assert 16 in {row[0] for row in odd.rows}  # the trained length is an edge
    assert sum(stop - start for start, stop, *_ in odd.rows) == 25
    short = summary(np.array([[1.0, 1.0], [2.0, 4.0]]), np.ones((2, 2)), trained=9)
    assert short.rows[0][2:] == (1.5, pytest.approx(2**-0.5), 2)  # over the sequences
    assert short.beyond is None


def test_validation_measures_the_loss_of_the_model(pianos: Path, tmp_path: Path):
    run = toy_run(toy_config(tmp_path, pianos, validation={"length": 48}))
    run.model.eval()
    code = run.model.begin(torch.Generator().manual_seed(3))
    with torch.no_grad():
        measured = run.validation.measure(run.devices, run.module, code)
        tokens = torch.from_numpy(run.batches.validation(3, 48))
        losses = next_token_loss(run.model(tokens[:, :-1].clamp(min=0), code), tokens[:, 1:])
    asked = tokens[:, 1:] != IGNORED
    assert measured.inside == pytest.approx(float(losses[:, :32].sum() / asked[:, :32].sum()))
    assert measured.beyond == pytest.approx(float(losses[:, 32:].sum() / asked[:, 32:].sum()))
    assert measured.sequences == 2
