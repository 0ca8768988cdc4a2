"""Tokens by calls made ready are those of the whole model in the precision that users run."""

import copy
import gc
import weakref
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from musicgen.layers.compiled import available

from musicgen.model.performer import State
from musicgen.position import POSITIONS
from tests.musicgen.steps import FastSteps, selected
from tests.musicgen.toys import generator, toy_model, toy_tokens, unlimited

LENGTH = 40


@pytest.fixture(autouse=True, params=["loops", "torch"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test with the loops that are compiled, and with torch's calls alone."""
    if request.param == "torch":
        monkeypatch.setattr(available, "_loops", lambda: None)


def by_hand(state: State) -> State:
    """Return a state of cloned tensors."""
    return replace(state, layers=tuple(layer.map(torch.Tensor.clone) for layer in state.layers))


@pytest.mark.parametrize("position", POSITIONS)
def test_single_precision_steps_choose_the_tokens_of_the_whole(position: str) -> None:
    model = toy_model(layers=3, position=unlimited(position))
    steps = FastSteps(model)
    tokens = toy_tokens(2, LENGTH)
    with torch.inference_mode():
        whole = model(tokens, model.begin(generator()))
        state, rows = model.start(generator()), []
        for at in range(LENGTH):
            logits, state = steps(tokens[:, at], state)
            rows.append(logits)
    found = torch.stack(rows, 1)
    torch.testing.assert_close(found, whole, rtol=0, atol=1e-5 * whole.abs().max().item())
    assert (found.argmax(-1) == whole.argmax(-1)).all()


@pytest.mark.parametrize("position", POSITIONS)
def test_a_state_that_was_copied_goes_on_for_itself(position: str) -> None:
    model = toy_model(layers=2, position=position)
    steps = FastSteps(model)
    tokens = toy_tokens(3, 12)
    state = model.prefill(tokens[:1, :6], model.start(generator()))[1]
    _, state = steps(tokens[:1, 6], state)
    copied = selected(state, torch.zeros(3, dtype=torch.long))
    for at in range(7, 12):
        alone, state = steps(tokens[:1, at], state)
        among, copied = steps(tokens[:, at], copied)
    again = model.prefill(tokens[:1, :6], model.start(generator()))[1]
    again = selected(again, torch.zeros(3, dtype=torch.long))
    _, again = steps(tokens[:1, 6].expand(3), again)
    for at in range(7, 12):
        row, again = steps(tokens[:, at], again)
    torch.testing.assert_close(among[:1], alone, rtol=0, atol=0)
    torch.testing.assert_close(among, row, rtol=0, atol=0)


@pytest.mark.parametrize("copied", [copy.deepcopy, by_hand])
def test_a_copy_and_the_first_do_not_meet(copied: Callable[[State], State]) -> None:
    model, tokens = toy_model(layers=2, position="sine_spe"), toy_tokens(1, 12)
    steps = FastSteps(model)
    state = model.prefill(tokens[:, :6], model.start(generator()))[1]
    _, state = steps(tokens[:, 6], state)
    other = copied(state)
    for at in range(7, 12):
        first, state = steps(tokens[:, at], state)
        second, other = steps(tokens[:, at], other)
        torch.testing.assert_close(first, second, rtol=0, atol=0)


def test_a_state_goes_on_with_the_model_that_is_asked() -> None:
    a, b = (toy_model(layers=2, position="rope", seed=seed) for seed in (1, 2))
    state = a.prefill(toy_tokens(1, 6), a.start(generator()))[1]
    _, state = FastSteps(a)(torch.tensor([1]), state)
    wanted, _ = FastSteps(b)(torch.tensor([2]), selected(state, torch.tensor([0])))
    steps = FastSteps(b)
    found, state = steps(torch.tensor([2]), state)  # whose tensors a's calls have written
    torch.testing.assert_close(found, wanted, rtol=0, atol=0)


@pytest.mark.parametrize("position", POSITIONS)
def test_steps_are_those_of_the_definition(position: str) -> None:
    """`Performer.step` computes a token as it computes a sequence; the ready calls come to the same."""
    model, tokens = toy_model(layers=2, position=position), toy_tokens(2, 14)
    state = model.prefill(tokens[:, :6], model.start(generator()))[1]
    plain, fast, steps = state, selected(state, torch.arange(2)), FastSteps(model)
    for at in range(6, 14):
        wanted, plain = model.step(tokens[:, at], plain)
        found, fast = steps(tokens[:, at], fast)
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("position", POSITIONS)
def test_nothing_of_a_sequence_outlives_it(position: str) -> None:
    model = toy_model(layers=2, position=position)
    state = model.prefill(toy_tokens(1, 6), model.start(generator()))[1]
    steps = FastSteps(model)
    state = steps(torch.zeros(1, dtype=torch.long), state)[1]
    calls = steps.ready
    assert calls is not None
    kept = [weakref.ref(x) for x in (calls, calls.flow, calls.inputs, state.layers[0].sums)]
    gc.disable()
    try:
        del state, steps, calls
        assert [x() for x in kept] == [None] * len(kept), (
            "its calls refer to themselves, which Python looks for once in a while"
        )
    finally:
        gc.enable()


@pytest.mark.parametrize("position", ["sine_spe", "conv_spe"])
def test_autocast_leaves_a_step_in_full_precision(position: str) -> None:
    model = toy_model(layers=3, position=position)
    steps = FastSteps(model)
    tokens = toy_tokens(1, 20)
    logits = []
    for enabled in (False, True):
        state = model.prefill(tokens[:, :4], model.start(generator()))[1]
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            for at in range(4, 20):  # past the positions that a prompt's code covers
                row, state = steps(tokens[:, at], state)
        logits.append(row)
    torch.testing.assert_close(logits[1], logits[0], rtol=0, atol=0)
