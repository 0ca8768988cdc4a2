import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from musicgen.common.learning import seed_of
from musicgen.storage import checkpoint
from tests.training.makers import Heard, Stopper, outcome, prepared_set, toy_config, toy_run
from training import run_folder
from training.initial_model import first_model
from training.loop import FINISHED, OUT_OF_PATIENCE, STOPPED, TRAIN, Diverged
from training.results.curves import read_table


def test_twenty_steps_lower_the_loss(pianos: Path, tmp_path: Path):
    run, heard = toy_run(toy_config(tmp_path, pianos, log_every=1)), Heard()
    assert run.fit(heard) == FINISHED
    losses = [progress.loss for progress in heard.progresses]
    assert heard.steps == list(range(1, 21))
    assert heard.validations == [5, 10, 15, 20]
    assert losses[-1] < 0.9 * losses[0]
    assert run.state.best_loss == pytest.approx(
        min(read_table(run.folder / "validation.csv")["inside"])
    )
    best, card = checkpoint.load(run.folder / "model")
    assert card.training["steps"] == run.state.best_step
    assert (card.trained_length, card.language["language"]) == (32, "remi")
    assert best.config == run.model.config


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {
            "save_every": 3,
            "log_every": 7,
            "model": {"position": {"name": "conv_spe", "taps": 4, "realisations": 4}},
        },
        {"model": {"position": "rope", "norm": "post"}, "optimiser": {"accumulate": 2}},
        {"data": {"windows": 3}},
        {
            "data": {"windows": 4, "length": 24},
            "model": {
                "position": {"name": "sine_spe", "realisations": 4, "sines": 2, "time": "music"},
                "metre": {"bars": [1, 2], "remembers": [2, 8]},
            },
            "optimiser": {"accumulate": 2},
        },
        {"optimiser": {"method": "muon"}},
    ],
)
def test_a_run_in_pieces_is_the_run_at_once(grooves: Path, tmp_path: Path, changes: dict):
    whole = toy_run(toy_config(tmp_path / "whole", grooves, **changes))
    whole.fit(Heard())
    config = toy_config(tmp_path / "pieces", grooves, **changes)
    for stop_at in (3, 10, 14, None):
        run = toy_run(config)
        run.resume()
        heard = Stopper(run, stop_at)
        assert run.fit(heard) == (STOPPED if stop_at else FINISHED)
    assert run_folder.newest(run.folder)
    assert outcome_without_stops(run.folder) == outcome_without_stops(whole.folder)


def outcome_without_stops(folder: Path) -> dict:
    """Return what came out, without checkpoints before the last, which lie where each run saved."""
    newest = run_folder.newest(folder)
    files = outcome(folder)
    return {k: v for k, v in files.items() if "checkpoints" not in k or str(newest.name) in k}


def test_a_long_sequence_is_learned_from_as_if_it_were_read_at_once(grooves: Path, tmp_path: Path):
    """With the weights as they were, the losses of its windows are those of the whole."""
    losses = []
    for windows in (1, 4):
        changes = {
            "data": {"length": 128 // windows, "windows": windows, "batch": 2},
            "model": {
                "dropout": 0.0,
                "position": {"name": "sine_spe", "realisations": 4, "sines": 2, "time": "music"},
                "metre": {"bars": [1, 2], "remembers": [2, 8]},
            },
            "optimiser": {"steps": 5 * windows, "learning_rate": 1e-30, "redraw": 0.0},
            "log_every": windows,
        }
        run = toy_run(toy_config(tmp_path / str(windows), grooves, **changes))
        # The draw of a sequence is that of its first step.
        run._generator = lambda *_: torch.Generator().manual_seed(3)
        heard = Heard()
        run.fit(heard)
        losses.append([progress.loss for progress in heard.progresses])
    assert len(losses[0]) == 5
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)


def test_a_run_that_goes_on_in_whole_sequences_learns_from_each_once(grooves: Path, tmp_path: Path):
    begun: list[int | None] = []
    for steps, windows in ((4, 3), (8, 1), (12, 1)):
        changes = {"data": {"windows": windows}, "optimiser": {"steps": steps}}
        run = toy_run(toy_config(tmp_path, grooves, **changes))
        run.resume()
        begun.append(run.state.batches)
        run.fit(Heard())
    assert begun[1] is not None
    assert begun[2] == begun[1] + 4
    assert run.state.batches == begun[2] + 4


def test_new_features_amid_a_sequence_are_refused(pianos: Path, tmp_path: Path):
    with pytest.raises(ValueError, match="redraw_every would draw new features amid a sequence"):
        toy_config(
            tmp_path, pianos, data={"windows": 2}, optimiser={"redraw": 0.0, "redraw_every": 5}
        )


def test_a_run_lies_in_a_folder_whose_name_is_no_text(pianos: Path, tmp_path: Path):
    config = toy_config(tmp_path / os.fsdecode(b"r\xff"), pianos, optimiser={"steps": 2})
    toy_run(config).fit(Heard())
    later = toy_run(config)
    assert later.resume()
    assert first_model(
        replace(config, start=config.run, model=None, run="new"), later.batches.language
    )


def test_another_seed_is_another_run(pianos: Path, tmp_path: Path):
    losses = []
    for seed in (1, 2):
        run = toy_run(toy_config(tmp_path / str(seed), pianos, seed=seed, optimiser={"steps": 2}))
        run.fit(Heard())
        losses.append(run.state.best_loss)
    assert losses[0] != losses[1]


def test_accumulating_changes_nothing_but_memory(pianos: Path, tmp_path: Path):
    weights = []
    for parts in (1, 2, 3):
        changes = {"model": {"dropout": 0.0}, "optimiser": {"steps": 3, "accumulate": parts}}
        run = toy_run(toy_config(tmp_path / str(parts), pianos, **changes))
        run.fit(Heard())
        weights.append(run.model.head.weight.detach().clone())
    torch.testing.assert_close(weights[1], weights[0], rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(weights[2], weights[0], rtol=1e-4, atol=1e-6)


class Poisoner(Heard):
    """Spoils the weights after a step."""

    def __init__(self, run, at: int) -> None:
        super().__init__()
        self.run, self.at = run, at

    def stepped(self, step: int, steps: int) -> None:
        if step == self.at:
            self.run.model.embedding.weight.data.fill_(torch.nan)


def test_a_last_update_without_a_finite_loss_makes_no_best_model(pianos: Path, tmp_path: Path):
    config = toy_config(tmp_path, pianos, optimiser={"steps": 1, "learning_rate": 1e308})
    run = toy_run(config)
    with pytest.raises(Diverged, match="not finite at step 1; no state was saved before it"):
        run.fit(Heard())
    assert not (run.folder / "model").exists()


def test_a_loss_that_is_not_finite_ends_the_run_and_keeps_the_last_good_state(
    pianos: Path, tmp_path: Path
):
    config = toy_config(tmp_path, pianos, log_every=4)
    run = toy_run(config)
    with pytest.raises(
        Diverged, match=r"not finite at step 7; the last good state is .*00000005\."
    ):
        run.fit(Poisoner(run, 6))
    again = toy_run(config)
    assert again.resume()
    assert again.state.step == 5
    assert torch.isfinite(again.model.embedding.weight).all()
    assert checkpoint.load(run.folder / "model")[1].training["steps"] == 5
    assert again.fit(Heard()) == FINISHED


def test_before_anything_is_saved_it_says_so(pianos: Path, tmp_path: Path):
    run = toy_run(toy_config(tmp_path, pianos))
    with pytest.raises(Diverged, match="at step 2; no state was saved before it"):
        run.fit(Poisoner(run, 1))


def test_patience_ends_a_run(pianos: Path, tmp_path: Path):
    changes = {"validation": {"every": 2, "patience": 2}, "optimiser": {"learning_rate": 1e-12}}
    run = toy_run(toy_config(tmp_path, pianos, **changes))
    run.state.best_loss = 0.0  # what no validation reaches
    assert run.fit(Heard()) == OUT_OF_PATIENCE
    assert run.state.step == 4
    again = toy_run(run.config)
    again.resume()
    assert again.fit(Heard()) == OUT_OF_PATIENCE
    assert again.state == run.state
    assert int(run_folder.newest(run.folder).name) == 4


def test_other_data_is_refused_on_resuming(pianos: Path, grooves: Path, tmp_path: Path):
    toy_run(toy_config(tmp_path, pianos, optimiser={"steps": 2})).fit(Heard())
    with pytest.raises(ValueError, match="was trained on other data"):
        toy_run(toy_config(tmp_path, grooves)).resume()


def test_other_pieces_held_out_are_refused_on_resuming(tmp_path: Path):
    """The tokens are the same ones; but what is held out now has been learned from."""
    data = prepared_set(tmp_path / "data", "remi")
    config = toy_config(tmp_path, data, optimiser={"steps": 2})
    run = toy_run(config)
    run.fit(Heard())
    shutil.rmtree(data)
    prepared_set(data, "remi", train=6, held_out=4)
    later = toy_run(config)
    assert later.batches.shards.checksum == run.batches.shards.checksum
    with pytest.raises(ValueError, match="or with other pieces held out"):
        later.resume()


def test_another_model_is_refused_on_resuming(pianos: Path, tmp_path: Path):
    toy_run(toy_config(tmp_path, pianos, optimiser={"steps": 2})).fit(Heard())
    with pytest.raises(ValueError, match="holds a model of another configuration"):
        toy_run(toy_config(tmp_path, pianos, model={"width": 32})).resume()
    assert toy_run(toy_config(tmp_path, pianos, model={"dropout": 0.3})).resume()


@pytest.mark.parametrize("precision", ["bf16-mixed", "64-true"])
def test_other_precisions_train(pianos: Path, tmp_path: Path, precision: str):
    config = toy_config(tmp_path, pianos, device={"accelerator": "cpu", "precision": precision})
    run, heard = toy_run(config), Heard()
    run.fit(heard)
    assert heard.progresses[-1].loss < heard.progresses[0].loss
    assert set(read_table(run.folder / "train.csv")) == set(TRAIN)


def test_seeds_of_different_purposes_differ():
    seeds = {seed_of(a, b, c) for a in range(4) for b in range(4) for c in range(4)}
    assert len(seeds) == 64
    assert all(0 <= seed < 2**63 for seed in seeds)
