import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from musicgen.model.config import ModelConfig
from musicgen.model.performer import Performer
from tests.musicgen.toys import generator, toy_model
from training.config import OptimiserConfig
from training.optimiser import TIMES, MuonAndAdam, kept_of, optimiser_of

TOKENS = torch.arange(20).view(2, 10)


def model() -> Performer:
    values = {"layers": 3, "width": 16, "heads": 2, "feedforward": 24, "dropout": 0.0}
    torch.manual_seed(1)
    return Performer(ModelConfig.read({"vocabulary_size": 20, "features": "relu", **values}))


def test_muon_moves_the_matrices_of_layers_and_adam_the_rest():
    learner = model()
    optimiser = optimiser_of(OptimiserConfig(steps=1, method="muon"), learner)
    assert isinstance(optimiser, MuonAndAdam)
    muons, adams = (
        {id(p) for group in part.param_groups for p in group["params"]} for part in optimiser.parts
    )
    assert not muons & adams
    assert len(muons) == 4 * 3
    assert muons | adams == {id(p) for p in learner.parameters()}
    before = [p.detach().clone() for p in learner.parameters()]
    for group in optimiser.param_groups:
        group["lr"] = 0.1  # both hear of it
    learner(TOKENS).square().sum().backward()
    optimiser.step()
    for parameter, old in zip(learner.parameters(), before, strict=True):
        assert parameter.grad is not None
        assert not parameter.equal(old) or not parameter.grad.any()
        assert set(optimiser.state[parameter]) == set(kept_of(optimiser, parameter))


def test_muon_moves_every_direction_of_a_matrix_alike():
    learner = model()
    optimiser = optimiser_of(OptimiserConfig(steps=1, method="muon"), learner)
    for group in optimiser.param_groups:
        group["lr"] = 1.0
    matrix = learner.blocks[0].get_submodule("feedforward.inner").weight
    before = matrix.detach().clone()
    learner(TOKENS).square().sum().backward()
    optimiser.step()
    # But for the last: the mean of what a layer is given, which was taken away before.
    moved, gradient = (
        torch.linalg.svdvals(x)[:-1] for x in (matrix.detach() - before, matrix.grad)
    )
    assert gradient[0] > 50 * gradient[-1]
    assert moved[0] < 2 * moved[-1]


@pytest.mark.parametrize("method", ["adam", "muon"])
def test_goals_learn_at_a_rate_of_their_own(method: str):
    learner = toy_model(goals=(5, 6, 7))
    assert learner.goals is not None
    before = [p.detach().clone() for p in (learner.goals.vectors.weight, learner.embedding.weight)]
    settings = OptimiserConfig(steps=1, method=method, goal_rate=10)  # type: ignore[arg-type]
    optimiser = optimiser_of(settings, learner)
    assert {p for group in optimiser.param_groups for p in group["params"]} == {
        *learner.parameters()
    }
    for group in optimiser.param_groups:
        group["lr"] = 0.01 * group.get(TIMES, 1)
    tokens = torch.tensor([[1, 5, 2, 6, 3, 7, 4, 8]])
    learner(tokens, learner.begin(generator())).square().sum().backward()
    optimiser.step()
    goals, tokens_of = (
        (new - old).abs().max()
        for new, old in zip(
            (learner.goals.vectors.weight, learner.embedding.weight), before, strict=True
        )
    )
    assert goals.item() == pytest.approx(0.1, rel=0.01)
    assert tokens_of.item() == pytest.approx(0.01, rel=0.01)
    same = optimiser_of(OptimiserConfig(steps=1, method=method), learner)  # type: ignore[arg-type]
    assert not any(TIMES in group for group in same.param_groups)


@pytest.mark.parametrize("method", ["adam", "muon"])
@pytest.mark.parametrize("position", ["sine_spe", "conv_spe", "flt", "lrpe", "learned"])
def test_what_places_tokens_learns_at_a_rate_of_its_own_and_never_decays(
    method: str, position: str
):
    if position == "learned":
        position = {"name": "learned", "max_length": 20}
    learner = toy_model(goals=(5, 6, 7), position=position)
    settings = OptimiserConfig(steps=1, method=method, position_rate=30, weight_decay=0.5)  # type: ignore[arg-type]
    optimiser = optimiser_of(settings, learner)
    assert sorted(id(p) for group in optimiser.param_groups for p in group["params"]) == sorted(
        id(p) for p in learner.parameters()
    )
    placing = {id(p) for p in learner.position.parameters()}
    assert placing
    assert learner.goals is not None
    never = placing | {id(p) for p in learner.goals.parameters()}
    for group in optimiser.param_groups:
        own = {id(p) for p in group["params"]}
        assert own <= placing if group.get(TIMES) == 30 else not own & placing
        if own & never:
            assert own <= never
            assert group["weight_decay"] == 0
        elif any(p.ndim > 1 for p in group["params"]):
            assert group["weight_decay"] == 0.5


def test_gates_hardly_move_at_the_common_rate_and_do_at_their_own():
    moved = []
    for rate in (1, 30):
        learner = toy_model(position="sine_spe")
        gates = learner.position.get_parameter("gates")
        before = gates.detach().clone()
        optimiser = optimiser_of(OptimiserConfig(steps=1, position_rate=rate), learner)
        for group in optimiser.param_groups:
            group["lr"] = 0.001 * group.get(TIMES, 1)
        learner(TOKENS % 11, learner.begin(generator())).square().sum().backward()
        optimiser.step()
        moved.append((gates.detach() - before).abs().mean().item())
    assert moved[1] == pytest.approx(30 * moved[0], rel=0.01)


def on_a_processor(monkeypatch: pytest.MonkeyPatch, bfloat16: str | None) -> Performer:
    """Return a model that has taken three steps of Muon on a processor that multiplies bfloat16 or not."""
    monkeypatch.setattr("training.optimiser.multiplies_bfloat16", lambda: bfloat16)
    learner = model()
    optimiser = optimiser_of(
        OptimiserConfig(steps=1, method="muon", learning_rate=0.01, weight_decay=0.1), learner
    )
    for _ in range(3):
        optimiser.zero_grad()
        learner(TOKENS).square().sum().backward()
        optimiser.step()
    return learner


def test_muon_takes_the_same_steps_in_float32(monkeypatch: pytest.MonkeyPatch):
    """As torch's own does where it is made to compute in float32 too."""
    ours = on_a_processor(monkeypatch, None)
    monkeypatch.setattr(torch.Tensor, "bfloat16", lambda self: self.clone())
    torchs = on_a_processor(monkeypatch, "AMX")
    for name, one in ours.named_parameters():
        torch.testing.assert_close(one, torchs.get_parameter(name), atol=1e-5, rtol=1e-4)
    assert (
        not ours.blocks[0]
        .get_submodule("feedforward.inner")
        .weight.equal(model().blocks[0].get_submodule("feedforward.inner").weight)
    )


class Dtypes(TorchDispatchMode):
    """Notes the types of all numbers that are computed."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[torch.dtype] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        self.found |= {x.dtype for x in tree_leaves(result) if isinstance(x, torch.Tensor)}
        return result


def test_no_step_of_muon_is_in_bfloat16_where_that_is_imitated(monkeypatch: pytest.MonkeyPatch):
    with Dtypes() as dtypes:
        on_a_processor(monkeypatch, None)
    assert torch.bfloat16 not in dtypes.found
    with Dtypes() as dtypes:
        on_a_processor(monkeypatch, "AMX")
    assert torch.bfloat16 in dtypes.found
