"""The model: its parts, and that a whole sequence equals a prompt and steps."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from musicgen.model.config import ModelConfig
from musicgen.model.performer import Performer, parameter_count
from tests.musicgen.steps import selected
from tests.musicgen.toys import VOCABULARY, generator, toy_config, toy_model, toy_tokens

VARIANTS = [
    {},
    {"norm": "post"},
    {"activation": "relu"},
    {"tie_embeddings": True},
    {"attention": "softmax", "position": "rope"},
    {"layers": 3, "position": "sine_spe"},
]


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_a_whole_sequence_equals_prompt_and_steps(variant: dict[str, Any]) -> None:
    model = toy_model(**variant).double()
    tokens = toy_tokens(2, 30)
    with torch.no_grad():
        whole = model(tokens, code=model.begin(generator(5)))
    logits, state = model.prefill(tokens[:, :13], model.start(generator(5)))
    logits, state = model.prefill(tokens[:, 13:20], state)
    for t in range(20, 30):
        torch.testing.assert_close(logits, whole[:, t - 1], rtol=1e-9, atol=1e-9)
        logits, state = model.step(tokens[:, t], state)
    torch.testing.assert_close(logits, whole[:, -1], rtol=1e-9, atol=1e-9)
    assert state.position == 30


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_rows_of_a_state_can_be_chosen(variant: dict[str, Any]) -> None:
    model = toy_model(**variant)
    tokens = toy_tokens(3, 9)
    state = model.prefill(tokens, model.start(generator()))[1]
    rows = torch.tensor([2, 0, 2, 1])
    chosen = selected(state, rows)
    all_logits = model.step(torch.tensor([1, 2, 3]), state)[0]
    some = model.step(torch.tensor([1, 2, 3])[rows], chosen)[0]
    torch.testing.assert_close(some, all_logits[rows])


def test_the_seed_determines_the_weights() -> None:
    first, again, other = (Performer(toy_config(), seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)


def test_building_leaves_the_global_stream_of_randomness_alone() -> None:
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    Performer(toy_config(position="sine_spe"), seed=4)
    assert torch.equal(torch.rand(3), expected)


def test_an_untrained_model_is_unsure_and_its_branches_start_small() -> None:
    model = Performer(ModelConfig.preset("tiny", vocabulary_size=300), seed=0).eval()
    tokens = torch.randint(300, (2, 64), generator=generator())
    with torch.no_grad():
        logits = model(tokens)
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())
    assert loss.item() == pytest.approx(math.log(300), abs=0.2)
    weights = model.state_dict()
    inner, output = (weights[f"blocks.0.feedforward.{part}.weight"] for part in ("inner", "output"))
    assert inner.std().item() == pytest.approx(0.02, rel=0.05)
    assert output.std().item() == pytest.approx(0.02 / math.sqrt(12), rel=0.05)


def test_tied_embeddings_save_one_matrix() -> None:
    tied, free = (Performer(toy_config(tie_embeddings=t)) for t in (True, False))
    assert parameter_count(free) - parameter_count(tied) == VOCABULARY * 16


def test_redraw_changes_the_random_features_of_every_layer() -> None:
    model = toy_model(layers=2)
    before = {name: value.clone() for name, value in model.named_buffers()}
    model.redraw(generator(9))
    drawn = [name for name, value in model.named_buffers() if not torch.equal(before[name], value)]
    assert len(drawn) == 2
    after = {name: value.clone() for name, value in model.named_buffers()}
    model.redraw(generator(9))
    assert all(torch.equal(after[name], value) for name, value in model.named_buffers())


def test_a_stochastic_encoding_wants_a_code_and_its_code_matters() -> None:
    model, tokens = toy_model(position="sine_spe"), toy_tokens(1, 12)
    with pytest.raises(
        ValueError, match=r"sine_spe draws a code for each sequence; pass code=model\.begin"
    ):
        model(tokens)
    with torch.no_grad():
        one, two = (model(tokens, code=model.begin(generator(seed))) for seed in (1, 2))
    assert not torch.equal(one, two)


def test_activation_checkpointing_changes_no_number() -> None:
    tokens, gradients = toy_tokens(2, 20), []
    for checkpoint in (False, True):
        config = toy_config(
            layers=2, position="sine_spe", checkpoint_activations=checkpoint, dropout=0.1
        )
        model = Performer(config, seed=1)
        torch.manual_seed(3)  # of dropout
        model(tokens, code=model.begin(generator())).square().mean().backward()
        gradients.append([p.grad for p in model.parameters()])
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.filterwarnings(
    "ignore:.*should not be instantiated:DeprecationWarning"
)  # dynamo's own
@pytest.mark.parametrize("position", ["none", "rope", "sine_spe", "permuteformer"])
def test_the_training_step_compiles_as_one_graph(position: str) -> None:
    model = Performer(toy_config(position=position))
    tokens, code = toy_tokens(2, 20), model.begin(generator())
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(tokens, code=code), model(tokens, code=code))


def test_other_realisations_share_the_weights() -> None:
    model = toy_model(position={"name": "sine_spe", "realisations": 8}, layers=2)
    other = model.with_realisations(12, seed=1)
    tokens = toy_tokens(1, 12)
    assert other.config.position.realisations == 12
    assert not other.training
    with torch.no_grad():
        assert other(tokens, code=other.begin(generator())).isfinite().all()
        model.embedding.weight.mul_(2)
    pairs = dict(other.named_parameters())
    assert all(torch.equal(value, pairs[name]) for name, value in model.named_parameters())
    assert pairs.keys() == dict(model.named_parameters()).keys()


def test_training_lowers_the_loss() -> None:
    torch.manual_seed(0)
    model = Performer(toy_config(width=32, position="rope"))
    tokens = (torch.arange(24)[None] + torch.arange(4)[:, None]) % VOCABULARY
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(20):
        logits = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


def test_making_a_model_leaves_the_generators_of_devices_alone(monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "manual_seed_all", lambda seed: pytest.fail("it was seeded"))
    before = torch.get_rng_state()
    Performer(toy_config())
    assert torch.equal(torch.get_rng_state(), before)
