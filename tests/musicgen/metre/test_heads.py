"""A model with metric heads is the same model whole, cut anywhere, in steps, in company, saved and in 8 bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from musicgen.layers.multiplications import quantise, restore

from musicgen.generation.request import Request, Stop
from musicgen.metre import heads as metre
from musicgen.storage.checkpoint import Card, load, save
from tests.musicgen.generation.generate import written
from tests.musicgen.metre.toys import LENGTH, music, toy
from tests.musicgen.steps import FastSteps, selected
from tests.musicgen.toys import VOCABULARY, check_prompt_and_steps, generator, toy_tokens


@pytest.mark.parametrize("position", ["sine_spe", "none", "lrpe"])
@pytest.mark.parametrize("cut", [1, 100, 140])
def test_prompt_and_steps_equal_the_whole(position: str, cut: int) -> None:
    check_prompt_and_steps(toy(position=position), toy_tokens(2, LENGTH), cut, 170)


@pytest.mark.parametrize("bars", [75, 400, 1000])
@pytest.mark.parametrize("before", [2, 40, 130])
def test_after_a_long_silence_steps_equal_the_whole(
    bars: int, before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(metre.CHUNKS, "cpu", 512)  # so that it may lie within a stretch
    model = toy().double()
    steps = FastSteps(model)
    silence = torch.zeros(1, bars, dtype=torch.long)
    tokens = torch.cat([toy_tokens(1, before), silence, toy_tokens(1, 60, 1)], 1)
    with torch.no_grad():
        whole = model(tokens, code=model.begin(generator()))
    state, rows = model.start(generator()), []
    for token in tokens[0]:
        logits, state = steps(token[None], state)
        rows.append(logits)
    assert whole.isfinite().all()
    torch.testing.assert_close(torch.stack(rows, 1), whole, rtol=1e-9, atol=1e-9)


def test_steps_in_bfloat16_are_the_whole_to_its_precision() -> None:
    model, tokens = toy().bfloat16(), toy_tokens(2, 60)
    steps = FastSteps(model)
    with torch.inference_mode():
        whole = model(tokens, code=model.begin(generator())).float()
        state, rows = model.start(generator()), []
        for at in range(60):
            logits, state = steps(tokens[:, at], state)
            rows.append(logits.float())
    difference = (torch.stack(rows, 1) - whole).abs().mean() / whole.abs().mean()
    assert difference < 0.02


def test_single_precision_steps_choose_the_tokens_of_the_whole() -> None:
    model, tokens = toy(layers=3), toy_tokens(2, 60)
    steps = FastSteps(model)
    with torch.inference_mode():
        whole = model(tokens, model.begin(generator()))
        state, rows = model.start(generator()), []
        for at in range(60):
            logits, state = steps(tokens[:, at], state)
            rows.append(logits)
    found = torch.stack(rows, 1)
    torch.testing.assert_close(found, whole, rtol=0, atol=1e-5 * whole.abs().max().item())
    assert (found.argmax(-1) == whole.argmax(-1)).all()


@pytest.mark.parametrize("place", [0, 127, 128, 299])
def test_later_tokens_leave_earlier_outputs_alone_to_the_last_bit(place: int) -> None:
    model, tokens = toy().double(), toy_tokens(2, LENGTH)
    changed = tokens.clone()
    changed[:, place] = (changed[:, place] + 1) % VOCABULARY
    with torch.no_grad():
        before, after = (model(t, code=model.begin(generator())) for t in (tokens, changed))
    assert torch.equal(before[:, :place], after[:, :place])
    assert not torch.equal(before[:, place], after[:, place])


def test_gradients_reach_every_learned_parameter() -> None:
    model = toy().train()
    model(toy_tokens(2, LENGTH), code=model.begin(generator())).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.any(), name


def test_recomputed_activations_give_the_same_gradients() -> None:
    gradients = []
    for recomputed in (False, True):
        model = toy(checkpoint_activations=recomputed).train()
        model(toy_tokens(2, 140), code=model.begin(generator())).square().sum().backward()
        gradients.append([p.grad for p in model.parameters()])
    for one, other in zip(*gradients, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("mixed", [False, True], ids=["float32", "bfloat16"])
def test_long_sequences_stay_finite_forward_and_backward(mixed: bool) -> None:
    model = toy(chunk=128).train()
    with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
        logits = model(toy_tokens(1, 16384), code=model.begin(generator()))
    assert logits.isfinite().all()
    logits.float().square().mean().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


def test_the_state_does_not_grow() -> None:
    model, sizes = toy(), []
    for length in (10, 1000):
        _, state = model.prefill(music(length), model.start(generator()))
        times: Any = state.times
        sizes.append([*(x.numel() for layer in state.layers for x in layer if x is not None),
                      *(x.numel() for x in times)])  # fmt: skip
    assert sizes[0] == sizes[1]


@pytest.mark.parametrize("count", [2, 8, 11])
def test_a_variation_does_not_depend_on_its_company(count: int) -> None:
    def run(variations: int) -> np.ndarray:
        asked = Request(variations=variations, seed=3, stop=Stop(tokens=80))
        return written(toy(), np.array([4, 3, 2, 1]), asked)

    np.testing.assert_array_equal(run(count)[:1], run(1))


def test_a_state_can_be_gone_on_from_twice() -> None:
    model, tokens = toy(), toy_tokens(1, 40)
    steps = FastSteps(model)
    _, state = model.prefill(tokens[:, :20], model.start(generator()))
    _, state = steps(tokens[:, 20], state)
    copied = selected(state, torch.zeros(1, dtype=torch.long))
    rows = []
    for at in (state, copied):
        for token in tokens[0, 21:]:
            logits, at = steps(token[None], at)
        rows.append(logits)
    assert torch.equal(*rows)


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_saved_and_loaded_it_is_the_same_model(tmp_path: Path, dtype: str) -> None:
    model, tokens = toy(), toy_tokens(2, 50)
    save(tmp_path, model, Card(name="toy", language={}, trained_length=0), dtype)
    loaded = load(tmp_path)[0]
    assert loaded.config == model.config
    if dtype == "int8":
        with torch.no_grad():
            for module in model.modules():
                if isinstance(module, torch.nn.Linear | torch.nn.Embedding):
                    module.weight.copy_(restore(*quantise(module.weight)))
    with torch.no_grad():
        outputs = [m(tokens, code=m.begin(generator())) for m in (model, loaded)]
    assert torch.equal(*outputs)
