"""Weights as 8-bit integers."""

from __future__ import annotations

import pytest
import torch

from musicgen.generation.fast_steps import FastSteps
from musicgen.layers.int8_linear import Int8Linear, quantise, restore, with_int8_weights
from tests.musicgen.toys import generator, toy_model, toy_tokens


def test_the_error_is_half_a_step_at_most() -> None:
    weight = torch.randn(40, 64, generator=generator()) * torch.logspace(-6, 6, 40)[:, None]
    weight[7] = 0
    whole, scale = quantise(weight)
    assert (whole.dtype, scale.dtype) == (torch.int8, torch.float32)
    assert whole.abs().amax(1).tolist() == [127] * 7 + [0] + [127] * 32
    assert ((restore(whole, scale) - weight).abs() <= 0.5001 * scale[:, None]).all()


def test_quantising_what_was_restored_changes_nothing() -> None:
    first = quantise(torch.randn(8, 32, generator=generator()))
    again = quantise(restore(*first))
    assert torch.equal(again[0], first[0])
    torch.testing.assert_close(again[1], first[1], rtol=1e-6, atol=0)


@pytest.mark.parametrize("shape", [(1, 64), (5, 1, 64), (2, 30, 64)])
@pytest.mark.parametrize("bias", [True, False])
def test_both_kernels_compute_the_layer(shape: tuple[int, ...], bias: bool) -> None:
    torch.manual_seed(0)
    layer = torch.nn.Linear(64, 48, bias=bias)
    x = torch.randn(shape, generator=generator())
    expected = layer(x).detach()
    assert ((Int8Linear(layer)(x) - expected).norm() / expected.norm()) < 0.01


def test_a_model_computes_steps_with_them() -> None:
    exact, small = toy_model(width=64, layers=2), with_int8_weights(toy_model(width=64, layers=2))
    tokens = toy_tokens(2, 30)
    logits = []
    for model in (exact, small):
        steps = FastSteps(model)
        out, state = model.prefill(tokens[:, :20], model.start(generator()))
        for t in range(20, 30):
            out, state = steps(tokens[:, t], state)
        logits.append(out)
    assert 0 < (logits[0] - logits[1]).norm() / logits[0].norm() < 0.03
