"""What must be true of every encoding of position with every feature map; the registries bring in new ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from musicgen.attention.features import FEATURES
from musicgen.model.config import needs_linear_attention
from musicgen.storage.checkpoint import Card, load, save
from tests.musicgen.steps import FastSteps
from tests.musicgen.toys import ENCODINGS, generator, toy_model, toy_tokens, unlimited

pytestmark = [
    pytest.mark.parametrize("position", ENCODINGS),
    pytest.mark.parametrize("features", FEATURES),
]
LENGTH = 37  # no multiple of the chunk


def model_of(position: str, features: str, **overrides: Any) -> Any:
    return toy_model(position=unlimited(position), features=features, **overrides)


def test_all_ways_to_compute_agree(position: str, features: str) -> None:
    tokens, outputs = toy_tokens(2, LENGTH), []
    for backend in ("exact", "chunked", "recurrent"):
        model = model_of(position, features, backend=backend).double()
        with torch.no_grad():
            outputs.append(model(tokens, code=model.begin(generator())))
    for output in outputs[1:]:
        torch.testing.assert_close(output, outputs[0], rtol=1e-9, atol=1e-9)


def test_heads_of_several_horizons_compute_alike(position: str, features: str) -> None:
    tokens, outputs = toy_tokens(2, LENGTH), []
    for backend in ("exact", "chunked", "recurrent"):
        model = model_of(position, features, backend=backend, horizons=(2, 20)).double()
        with torch.no_grad():
            outputs.append(model(tokens, code=model.begin(generator())))
    for output in outputs[1:]:
        torch.testing.assert_close(output, outputs[0], rtol=1e-9, atol=1e-9)
    with torch.no_grad():
        endless = model_of(position, features).double()
        without = endless(tokens, code=endless.begin(generator()))
    assert not torch.allclose(outputs[0], without)


@pytest.mark.parametrize("cut", [1, 8, 30])
def test_prompt_and_steps_equal_the_whole(position: str, features: str, cut: int) -> None:
    model, tokens = model_of(position, features).double(), toy_tokens(2, LENGTH)
    steps = FastSteps(model)
    with torch.no_grad():
        whole = model(tokens, code=model.begin(generator()))
    logits, state = model.prefill(tokens[:, :cut], model.start(generator()))
    for t in range(cut, LENGTH):
        torch.testing.assert_close(logits, whole[:, t - 1], rtol=1e-9, atol=1e-9)
        logits, state = steps(tokens[:, t], state)


@pytest.mark.parametrize("place", [0, 15, 16, 36])
def test_later_tokens_leave_earlier_outputs_alone_to_the_last_bit(
    position: str, features: str, place: int
) -> None:
    model, tokens = model_of(position, features).double(), toy_tokens(2, LENGTH)
    changed = tokens.clone()
    changed[:, place] = (changed[:, place] + 1) % 11
    with torch.no_grad():
        before, after = (model(t, code=model.begin(generator())) for t in (tokens, changed))
    assert torch.equal(before[:, :place], after[:, :place])
    assert not torch.equal(before[:, place], after[:, place])


def test_gradients_reach_every_learned_parameter(position: str, features: str) -> None:
    model = model_of(position, features).train()
    model(toy_tokens(2, LENGTH), code=model.begin(generator())).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.any(), name


def test_the_same_seed_gives_the_same_output(position: str, features: str) -> None:
    tokens = toy_tokens(2, LENGTH)
    outputs = []
    for _ in range(2):
        model = model_of(position, features)
        with torch.no_grad():
            outputs.append(model(tokens, code=model.begin(generator(4))))
    assert torch.equal(*outputs)


def test_saved_and_loaded_it_gives_the_same_bits(
    position: str, features: str, tmp_path: Path
) -> None:
    model, tokens = model_of(position, features, layers=2), toy_tokens(2, LENGTH)
    model.redraw(generator(8))
    save(tmp_path, model, Card(name="toy", language={}, trained_length=0))
    loaded = load(tmp_path)[0]
    with torch.no_grad():
        outputs = [m(tokens, code=m.begin(generator())) for m in (model, loaded)]
    assert torch.equal(*outputs)


@pytest.mark.parametrize("mixed", [False, True], ids=["float32", "bfloat16"])
def test_long_sequences_stay_finite_forward_and_backward(
    position: str, features: str, mixed: bool
) -> None:
    model = model_of(position, features, chunk=128).train()
    with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
        logits = model(toy_tokens(1, 16384), code=model.begin(generator()))
    assert logits.isfinite().all()
    logits.float().square().mean().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


def test_far_steps_stay_finite(position: str, features: str) -> None:
    """Past any trained length there is no table to outgrow: a state says position 30 000, and steps go on."""
    model = model_of(position, features)
    steps = FastSteps(model)
    state = model.prefill(toy_tokens(2, LENGTH), model.start(generator()))[1]
    later = None if state.times is None else state.times._replace(ticks=state.times.ticks + 10**7)
    state = replace(state, position=30_000, times=later)
    for token in range(5):
        logits, state = steps(torch.tensor([token, token]), state)
        assert logits.isfinite().all()


def test_softmax_attention_takes_what_acts_before_the_features(
    position: str, features: str
) -> None:
    if needs_linear_attention(type(toy_model(position=unlimited(position)).position)):
        with pytest.raises(ValueError, match="choose attention: linear"):
            model_of(position, features, attention="softmax")
        return
    model, tokens = model_of(position, features, attention="softmax").double(), toy_tokens(2, 12)
    steps = FastSteps(model)
    with torch.no_grad():
        whole = model(tokens, code=model.begin(generator()))
    state = model.prefill(tokens[:, :5], model.start(generator()))[1]
    for t in range(5, 12):
        logits, state = steps(tokens[:, t], state)
        torch.testing.assert_close(logits, whole[:, t], rtol=1e-9, atol=1e-9)
