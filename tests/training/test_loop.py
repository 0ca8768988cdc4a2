"""Runs learn, resume bit for bit, and end when they should."""

import shutil
from pathlib import Path

import pytest
import torch

from musicgen import weights
from musicgen.common.learning import seed_of
from tests.training.makers import (
    RecordingListener,
    fitted,
    outcome,
    prepared_set,
    toy_config,
    toy_run,
)
from training import run_folder
from training.comparison import read_table
from training.loop import FINISHED, OUT_OF_PATIENCE, STOPPED

MUSIC = {
    "position": {"name": "sine_spe", "realisations": 4, "sines": 2, "time": "music"},
    "metre": {"bars": [1, 2], "remembers": [2, 8]},
}


def test_twenty_steps_lower_the_loss(pianos: Path, tmp_path: Path):
    run, listener = toy_run(toy_config(tmp_path, pianos, log_every=1)), RecordingListener()
    assert run.fit(listener) == FINISHED
    losses = [progress.loss for progress in listener.progresses]
    assert listener.steps == list(range(1, 21))
    assert losses[-1] < 0.9 * losses[0]
    validations = read_table(run.folder / "validation.csv")
    assert validations["step"].tolist() == [5, 10, 15, 20]
    inside = validations["inside"]
    assert run.state.best_loss == pytest.approx(min(inside))
    best, card = weights.load(run.folder / "model")
    assert card.training["steps"] == run.state.best_step
    assert (card.trained_length, card.language["language"]) == (32, "remi")
    assert best.config == run.model.config


LONG = pytest.mark.long
CONV = {"name": "conv_spe", "taps": 4, "realisations": 4}


@pytest.mark.parametrize(
    "changes",
    [
        {"save_every": 3, "log_every": 7, "optimiser": {"method": "muon"}},
        {"data": {"length": 24}, "model": MUSIC, "optimiser": {"accumulate": 2}},
        pytest.param({}, marks=LONG),
        pytest.param({"model": {"position": "rope", "norm": "post"}}, marks=LONG),
        pytest.param({"model": {"position": CONV}, "optimiser": {"schedule": "hold"}}, marks=LONG),
    ],
)
def test_interrupted_run_equals_the_uninterrupted_one(grooves: Path, tmp_path: Path, changes: dict):
    whole = fitted(toy_config(tmp_path / "whole", grooves, **changes))
    config = toy_config(tmp_path / "pieces", grooves, **changes)
    for stop_at in (3, 10, 14, None):
        run = toy_run(config)
        run.resume()
        assert run.fit(RecordingListener(stop_at, run.stop)) == (STOPPED if stop_at else FINISHED)
    assert outcome_without_stops(run.folder) == outcome_without_stops(whole.folder)


def outcome_without_stops(folder: Path) -> dict:
    """Return the outcome without checkpoints before the last, which depend on where a run was stopped."""
    newest = run_folder.newest(folder)
    files = outcome(folder)
    return {k: v for k, v in files.items() if "checkpoints" not in k or str(newest.name) in k}


def test_seed_determines_weights_and_accumulation_does_not(pianos: Path, tmp_path: Path):
    weights = []
    for seed, parts in ((1, 1), (1, 3), (2, 1)):
        changes = {"model": {"dropout": 0.0}, "optimiser": {"steps": 3, "accumulate": parts}}
        run = fitted(toy_config(tmp_path / f"{seed}-{parts}", pianos, seed=seed, **changes))
        weights.append(run.model.head.weight.detach().clone())
    torch.testing.assert_close(weights[1], weights[0], rtol=1e-4, atol=1e-6)
    assert not torch.allclose(weights[2], weights[0], rtol=1e-4, atol=1e-6)
    seeds = {seed_of(a, b, c) for a in range(4) for b in range(4) for c in range(4)}
    assert len(seeds) == 64
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_non_finite_loss_ends_the_run_and_keeps_the_last_state(pianos, tmp_path: Path):
    config = toy_config(tmp_path, pianos, log_every=4)
    run = toy_run(config)
    message = r"not finite at step 7; the last good state is .*00000005\."
    with pytest.raises(ValueError, match=message):
        run.fit(RecordingListener(6, lambda: run.model.embedding.weight.data.fill_(torch.nan)))
    again = toy_run(config)
    assert again.resume()
    assert again.state.step == 5
    assert torch.isfinite(again.model.embedding.weight).all()
    assert weights.load(run.folder / "model")[1].training["steps"] == 5
    assert again.fit(RecordingListener()) == FINISHED


def test_patience_ends_a_run(pianos: Path, tmp_path: Path):
    changes = {"validation": {"every": 2, "patience": 2}, "optimiser": {"learning_rate": 1e-12}}
    run = toy_run(toy_config(tmp_path, pianos, **changes))
    run.state.best_loss = 0.0  # which no validation reaches
    assert run.fit(RecordingListener()) == OUT_OF_PATIENCE
    assert run.state.step == 4
    again = toy_run(run.config)
    again.resume()
    assert again.fit(RecordingListener()) == OUT_OF_PATIENCE
    assert again.state == run.state
    assert int(run_folder.newest(run.folder).name) == 4


def test_resuming_with_other_data_or_optimiser_is_refused(trained, grooves, pianos, tmp_path):
    shutil.copytree(trained, tmp_path / "run")
    with pytest.raises(ValueError, match="was trained on other data"):
        toy_run(toy_config(tmp_path, grooves)).resume()
    assert toy_run(toy_config(tmp_path, pianos, model={"dropout": 0.3})).resume()
    with pytest.raises(ValueError, match="holds optimiser state of adam; continue with --set"):
        toy_run(toy_config(tmp_path, pianos, optimiser={"method": "muon"})).resume()
    # The same tokens, but pieces held out now have been trained on.
    data = prepared_set(tmp_path / "data", "remi", train=6, held_out=4)
    run = toy_run(toy_config(tmp_path, data))
    state = run_folder.read_state(run_folder.newest(run.folder))
    assert run.batches.shards.checksum == state.data
    with pytest.raises(ValueError, match="or with other pieces held out"):
        run.resume()
