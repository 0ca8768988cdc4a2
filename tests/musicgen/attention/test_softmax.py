"""Softmax attention against its formula, whole and continued."""

from __future__ import annotations

import torch

from musicgen.model.block import softmax_attend


def draw(length: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(2, length, 3, 4, generator=generator, dtype=torch.float64) for _ in "qkv"]


def test_is_the_masked_softmax() -> None:
    q, k, v = draw(9)
    scores = torch.einsum("bihd,bjhd->bhij", q, k) / 2
    weights = scores.masked_fill(torch.ones(9, 9).triu(1).bool(), -torch.inf).softmax(-1)
    expected = torch.einsum("bhij,bjhd->bihd", weights, v)
    out, state = softmax_attend(q, k, v)
    torch.testing.assert_close(out, expected)
    assert state.keys.shape == k.shape


def test_prefix_and_steps_are_one_pass() -> None:
    q, k, v = draw(11)
    whole, _ = softmax_attend(q, k, v)
    outs, state = [], None
    for part in (slice(0, 4), slice(4, 9), slice(9, 10), slice(10, 11)):
        out, state = softmax_attend(q[:, part], k[:, part], v[:, part], state=state)
        outs.append(out)
    torch.testing.assert_close(torch.cat(outs, 1), whole)


def test_later_tokens_change_nothing_to_the_last_bit() -> None:
    q, k, v = draw(11)
    before, _ = softmax_attend(q, k, v)
    k[:, 6:] *= 2
    after, _ = softmax_attend(q, k, v)
    assert torch.equal(after[:, :6], before[:, :6])
    assert not torch.equal(after[:, 6:], before[:, 6:])


def test_a_copy_of_a_state_is_its_own() -> None:
    _, state = softmax_attend(*draw(5))
    copy = state.map(torch.clone)
    copy.keys[0] = 0
    assert not torch.equal(copy.keys[0], state.keys[0])
    assert torch.equal(copy.values, state.values)
