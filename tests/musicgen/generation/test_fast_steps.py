"""Tokens by calls made ready are those of the whole model in the precision that users run."""

import copy
import gc
import weakref
from dataclasses import replace

import pytest
import torch

from musicgen.layers.compiled import available
from musicgen.position import POSITIONS
from tests.musicgen.metre.toys import METRE
from tests.musicgen.steps import FastSteps, selected
from tests.musicgen.toys import generator, stirred, toy_model, toy_tokens, unlimited

LENGTH = 40
MODELS = {
    **{name: {"position": unlimited(name)} for name in POSITIONS},
    "metre": {"metre": METRE, "position": "sine_spe"},
}
every_model = pytest.mark.parametrize("name", MODELS)


@pytest.fixture(autouse=True, params=["loops", "torch"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test with the loops that are compiled, and with torch's calls alone."""
    if request.param == "torch":
        monkeypatch.setattr(available, "_loops", lambda: None)


@every_model
def test_single_precision_steps_choose_the_tokens_of_the_whole(name: str):
    model, tokens = stirred(toy_model(layers=3, **MODELS[name])), toy_tokens(2, LENGTH)
    steps = FastSteps(model)
    with torch.inference_mode():
        whole = model(tokens, model.begin(generator()))
        state, rows = model.start(generator()), []
        for at in range(LENGTH):
            logits, state = steps(tokens[:, at], state)
            rows.append(logits)
    found = torch.stack(rows, 1)
    torch.testing.assert_close(found, whole, rtol=0, atol=1e-5 * whole.abs().max().item())
    assert (found.argmax(-1) == whole.argmax(-1)).all()


@every_model
def test_a_state_that_was_copied_goes_on_for_itself(name: str):
    model, tokens = toy_model(layers=2, **MODELS[name]), toy_tokens(3, 12)
    steps = FastSteps(model)
    state = model.prefill(tokens[:1, :6], model.start(generator()))[1]
    _, state = steps(tokens[:1, 6], state)
    by_hand = replace(state, layers=tuple(layer.map(torch.clone) for layer in state.layers))
    others = [selected(state, torch.zeros(3, dtype=torch.long)), copy.deepcopy(state), by_hand]
    for at in range(7, 12):
        alone, state = steps(tokens[:1, at], state)
        for number, other in enumerate(others):
            rows = 3 if number == 0 else 1
            among, others[number] = steps(tokens[:rows, at], other)
            assert torch.equal(among[:1], alone)


def test_a_state_goes_on_with_the_model_that_is_asked():
    a, b = (toy_model(layers=2, position="rope", seed=seed) for seed in (1, 2))
    state = a.prefill(toy_tokens(1, 6), a.start(generator()))[1]
    _, state = FastSteps(a)(torch.tensor([1]), state)
    wanted, _ = FastSteps(b)(torch.tensor([2]), selected(state, torch.tensor([0])))
    found, _ = FastSteps(b)(torch.tensor([2]), state)  # whose tensors a's calls have written
    assert torch.equal(found, wanted)


@every_model
def test_nothing_of_a_sequence_outlives_it(name: str):
    """Calls that refer to themselves are looked for once in a while alone."""
    model = toy_model(layers=2, **MODELS[name])
    state = model.prefill(toy_tokens(1, 6), model.start(generator()))[1]
    steps = FastSteps(model)
    state = steps(torch.zeros(1, dtype=torch.long), state)[1]
    calls = steps.ready
    assert calls is not None
    kept = [weakref.ref(x) for x in (calls, calls.flow, calls.inputs, state.layers[0].sums)]
    gc.disable()
    try:
        del state, steps, calls
        assert [x() for x in kept] == [None] * len(kept)
    finally:
        gc.enable()


@pytest.mark.parametrize("position", ["sine_spe", "conv_spe"])
def test_autocast_leaves_a_step_in_full_precision(position: str):
    model, tokens, logits = toy_model(layers=3, position=position), toy_tokens(1, 20), []
    steps = FastSteps(model)
    for enabled in (False, True):
        state = model.prefill(tokens[:, :4], model.start(generator()))[1]
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            for at in range(4, 20):  # past the positions that a prompt's code covers
                row, state = steps(tokens[:, at], state)
        logits.append(row)
    assert torch.equal(*logits)
