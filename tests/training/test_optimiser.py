"""The optimiser, the held learning rate, and the tail of a timed run."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from musicgen import checkpoint
from musicgen.common.learning import cooldown_rate
from musicgen.performer import Performer
from tests.musicgen.toys import generator, toy_model, toy_tokens
from tests.training.makers import RecordingListener, outcome, toy_config, toy_run
from training import run_folder
from training.comparison import read_table
from training.config import OptimiserConfig, RunConfig
from training.data.batches import Batches
from training.loop import FINISHED, STOPPED, Run
from training.optimiser import MUON, RATE_FACTOR, MuonAndAdam, Schedule, optimiser_of
from training.run_folder import TAIL_FROM

METHODS = pytest.mark.parametrize("method", ["adam", "muon"])


def settings(**values) -> OptimiserConfig:
    return OptimiserConfig(steps=1, **values)


def take_step(learner: Performer, optimiser, rate: float, tokens: torch.Tensor) -> dict:
    """Take a step; return the change of each parameter."""
    before = {name: p.detach().clone() for name, p in learner.named_parameters()}
    for group in optimiser.param_groups:
        group["lr"] = rate * group.get(RATE_FACTOR, 1)
    learner(tokens, learner.begin(generator())).square().sum().backward()
    optimiser.step()
    return {name: p.detach() - before[name] for name, p in learner.named_parameters()}


def test_muon_updates_the_layers_matrices_and_adam_the_rest():
    learner = toy_model(layers=3, features="relu")
    optimiser = optimiser_of(settings(method="muon"), learner)
    assert isinstance(optimiser, MuonAndAdam)
    muons, adams = set(), set()
    for group in optimiser.param_groups:
        (muons if MUON in group else adams).update(id(p) for p in group["params"])
    assert not muons & adams
    assert len(muons) == 4 * 3
    assert muons | adams == {id(p) for p in learner.parameters()}
    changes = take_step(learner, optimiser, 0.1, toy_tokens(2, 10))
    for name, parameter in learner.named_parameters():
        assert changes[name].any() or not (parameter.grad is None or parameter.grad.any())
        muon_keeps, adam_keeps = {"momentum_buffer"}, {"step", "exp_avg", "exp_avg_sq"}
        kept = muon_keeps if id(parameter) in muons else adam_keeps
        assert {*optimiser.state[parameter]} == kept


@METHODS
def test_goal_embeddings_have_their_own_learning_rate(method: str):
    learner = toy_model(goals=(5, 6, 7))
    optimiser = optimiser_of(settings(method=method, goal_rate=10), learner)
    changes = take_step(learner, optimiser, 0.01, torch.tensor([[1, 5, 2, 6, 3, 7, 4, 8]]))
    for name, rate in (("goals.vectors.weight", 0.1), ("embedding.weight", 0.01)):
        assert changes[name].abs().max().item() == pytest.approx(rate, rel=0.01)
    same = optimiser_of(settings(method=method), learner)
    assert not any(RATE_FACTOR in group for group in same.param_groups)


@METHODS
@pytest.mark.parametrize("position", ["sine_spe", "flt", {"name": "learned", "max_length": 20}])
def test_position_parameters_have_their_own_learning_rate_and_no_decay(method: str, position):
    learner = toy_model(goals=(5, 6, 7), position=position)
    changes = {"position_rate": 30, "weight_decay": 0.5}
    optimiser = optimiser_of(settings(method=method, **changes), learner)
    held = [id(p) for group in optimiser.param_groups for p in group["params"]]
    assert sorted(held) == sorted(id(p) for p in learner.parameters())
    placing = {id(p) for p in learner.position.parameters()}
    assert placing
    never = placing | {id(p) for p in learner.goals.parameters()}
    for group in optimiser.param_groups:
        own = {id(p) for p in group["params"]}
        assert own <= placing if group.get(RATE_FACTOR) == 30 else not own & placing
        if own & never:
            assert own <= never
            assert group["weight_decay"] == 0
        elif any(p.ndim > 1 for p in group["params"]):
            assert group["weight_decay"] == 0.5


HOLD = {"schedule": "hold", "warmup": 2, "final_rate": 0.1}


def timed(config: RunConfig, monkeypatch, seconds: float) -> Run:
    """Return a timed run whose steps take one second each."""
    run = toy_run(config, seconds)
    run.resume()
    first = run.state.step
    monkeypatch.setattr(Schedule, "clock", property(lambda _: run.state.step - first))
    return run


def test_held_rate_falls_linearly_at_the_end():
    how = {"peak": 1.0, "floor": 0.1, "tail": 0.25}
    rates = [cooldown_rate(step, total=20, **how) for step in range(20)]
    assert rates[:15] == [1.0] * 15
    assert rates[15:] == pytest.approx([0.82, 0.64, 0.46, 0.28, 0.1])
    assert cooldown_rate(10**9, total=None, **how) == 1.0
    assert cooldown_rate(19, total=20, **{**how, "tail": 0}) == 1.0


def test_timed_run_ends_with_a_tail_and_resumes_from_before_it(pianos: Path, tmp_path, monkeypatch):
    changes = {"log_every": 1, "keep": 9, "optimiser": HOLD}
    once = timed(toy_config(tmp_path / "once", pianos, **changes), monkeypatch, 25)
    assert once.fit(RecordingListener()) == FINISHED
    config = toy_config(tmp_path / "twice", pianos, **changes)
    run = timed(config, monkeypatch, 10)
    listener = RecordingListener()
    assert run.fit(listener) == FINISHED
    assert listener.steps == [*range(1, 11)]
    assert listener.progresses[-1].steps == 10
    assert read_table(run.folder / "validation.csv")["step"].iloc[-1] == 10
    assert run_folder.newest(run.folder).name == "00000008"
    card = checkpoint.read_card(run.folder / "model")[1].training
    assert (card["steps"], card[TAIL_FROM]) == (10, 8)
    annealed = card["validation_loss"]
    rates = read_table(run.folder / "train.csv")["learning_rate"]
    assert rates.tolist()[-3:] == pytest.approx([1e-2, 1e-2, 0.55e-2])

    run = timed(config, monkeypatch, 15)
    assert run.state.step == 8
    run.state.best_loss = 1e9  # worse than any validation
    assert run.fit(RecordingListener(19, run.stop)) == STOPPED
    assert checkpoint.read_card(run.folder / "model")[1].training["validation_loss"] == annealed
    abrupt = replace(config, optimiser=replace(config.optimiser, tail=0.0))
    run = timed(abrupt, monkeypatch, 1)
    run.fit(RecordingListener())
    names = {path.name for path in (run.folder / "checkpoints").iterdir()}
    assert {"00000008", "00000019", "00000020"} <= names
    # Resumed runs equal the uninterrupted one while the rate is held.
    ours, theirs = (outcome(one.folder / "checkpoints" / "00000020") for one in (run, once))
    assert ours["model.safetensors"] == theirs["model.safetensors"]


def test_warm_up_restarts_with_the_optimiser_averages(pianos: Path, tmp_path: Path):
    config = toy_config(tmp_path, pianos, optimiser={**HOLD, "warmup": 4})
    schedule = Schedule(config.optimiser, Batches(config.data, 1), seconds=9)
    assert [schedule.rate(step) for step in (0, 3, 10)] == [2.5e-3, 1e-2, 1e-2]
    assert [schedule.rate(step, began=10) for step in (10, 13, 14)] == [2.5e-3, 1e-2, 1e-2]


def test_timed_run_needs_a_held_rate_and_a_duration(pianos: Path, tmp_path: Path):
    for changes, seconds, message in (
        ({}, 1, r"add --set optimiser.schedule=hold"),
        ({"optimiser": HOLD}, 0, "takes more than 0 seconds, not 0"),
        ({"optimiser": HOLD}, float("nan"), "takes more than 0 seconds, not nan"),
    ):
        config = toy_config(tmp_path, pianos, **changes)
        batches = Batches(config.data, 1)
        with pytest.raises(ValueError, match=message):
            Schedule(config.optimiser, batches, seconds=seconds)
