import pytest
import torch

from musicgen.performer import Performer
from tests.musicgen.toys import generator, toy_model, toy_tokens
from training.config import OptimiserConfig
from training.optimiser import MUON, RATE_FACTOR, MuonAndAdam, optimiser_of

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
