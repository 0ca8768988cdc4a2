"""Batches give each row what `Performer.step` gives it, whatever the other rows are."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from musicgen.attention import dequantise, quantise
from musicgen.generation.batch import Batch, CompiledBatch, EagerBatch, batch_of
from musicgen.parts import MetreConfig
from musicgen.performer import Performer, State
from tests.musicgen.toys import ENCODINGS, generator, stirred, toy_model, toy_tokens, unlimited

METRE = MetreConfig(bars=(1, 2), remembers=(2, 8), features=3)
SUPPORTED = {  # models for which the loops have their own code
    "gated sine": {"position": "sine_spe"},
    "ungated sine": {"position": {"name": "sine_spe", "gated": False}},
    "sine of each layer": {"position": {"name": "sine_spe", "shared": False}},
    "conv": {"position": "conv_spe"},
    "sine in music": {"position": {"name": "sine_spe", "time": "music"}},
    "rotations": {"position": "rope"},
    "rotations in music": {"position": {"name": "rope", "time": "music"}},
    "vectors": {"position": "absolute"},
    "learned vectors": {"position": {"name": "learned", "max_length": 64}},
    "no encoding": {"position": "none"},
    "random relu": {"features": {"name": "relu", "features": 12}},
    "elu": {"features": "elu"},
    "random elu": {"features": {"name": "elu", "features": 12}},
    "favor": {"features": {"name": "favor", "features": 12}},
    "favor far out": {"features": {"name": "favor", "features": 12}, "initial_deviation": 3.0},
    "norms after": {"norm": "post", "activation": "relu"},
    "gelu": {"activation": "gelu"},
    "horizons": {"horizons": (2.0, 20.0)},
    "metric heads": {"metre": METRE},
    "goals and tied": {"goals": (4, 5, 6), "tie_embeddings": True},
}


def written(batch: Batch, state: State, tokens: Tensor) -> Tensor:
    """Return the logits of rows that continue from a state: tokens (T, B) → (T, B, V)."""
    numbers = batch.join(state, tokens.shape[1])
    return torch.stack([batch.step(numbers, row) for row in tokens])


def after_prompt(model: Performer, length: int = 6, seed: int = 0) -> State:
    return model.prefill(toy_tokens(1, length, seed), model.start(generator(seed)))[1]


@pytest.mark.parametrize("changes", SUPPORTED.values(), ids=SUPPORTED)
def test_the_loops_compute_what_torch_does(changes: dict[str, Any]):
    for in_8_bits in (False, True):
        model = stirred(toy_model(layers=2, **changes))
        for weight in model.parameters():
            if in_8_bits and weight.ndim == 2:
                weight.data = dequantise(*quantise(weight.detach()))
        state, tokens = after_prompt(model), toy_tokens(16, 3, seed=1)
        wanted, together = written(EagerBatch(model), state, tokens), batch_of(model)
        assert isinstance(together, CompiledBatch)
        found = written(together, state, tokens)
        bound = 1e-5 * wanted.abs().max().item()
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=bound)


@pytest.mark.parametrize("position", ["permuteformer", "lrpe", "flt"])
def test_models_that_the_loops_do_not_support_use_torch(position: str):
    model = toy_model(position=position)
    assert isinstance(batch_of(model), EagerBatch)
    assert isinstance(batch_of(toy_model(position="none").double()), EagerBatch)
    assert isinstance(batch_of(toy_model(attention="softmax", position="none")), EagerBatch)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_row_does_not_depend_on_other_rows(encoding: str):
    """To the last bit, with rows at other positions and with other codes that join, pause and leave."""
    model = toy_model(layers=2, position=unlimited(encoding), metre=METRE, goals=(4, 5))
    tokens, state = toy_tokens(12, 1, seed=2), after_prompt(model)
    alone = written(batch_of(model), state, tokens)[:, 0]
    batch, others = batch_of(model), toy_tokens(12, 70, seed=3)
    crowd = batch.join(after_prompt(model, 9, seed=5), 40)
    batch.step(crowd, others[0, :40])
    [own] = batch.join(state, 1)
    more = batch.join(state, 9)
    for at, token in enumerate(tokens):
        if at == 4:
            batch.leave(crowd[:35])
        present: Sequence[int] = [*more, own, *crowd[35 if at >= 4 else 0 :]]
        if at % 2:
            present = [*crowd[-3:], own]  # the others pause
        given = others[at, : len(present)].clone()
        given[present.index(own)] = token
        found = batch.step(present, given)[present.index(own)]
        torch.testing.assert_close(found, alone[at], rtol=0, atol=0)
