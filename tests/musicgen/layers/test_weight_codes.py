"""Weights as 8-bit integers."""

from __future__ import annotations

import torch
from musicgen.layers.multiplications import quantise, restore

from tests.musicgen.toys import generator


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
