"""The backend of pytorch-fast-transformers: our own numbers where it is installed, a clear sentence where it is not."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import pytest
import torch
from torch import Tensor

from musicgen.attention.linear_attention import attend


def draw(length: int = 37) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    fq, fk, v = (torch.rand(2, length, 3, 8, generator=generator) for _ in "qkv")
    return [fq, fk, v[..., :5].contiguous()]


def test_equals_the_definition_or_names_the_extra() -> None:
    inputs = [x.requires_grad_() for x in draw()]
    if find_spec("fast_transformers") is None:
        with pytest.raises(ValueError, match=r"pip install 'musicgen\[fast-transformers\]'"):
            attend(*inputs, backend="fast-transformers")
        return
    for options in ({}, {"normaliser": tuple(draw()[:2])}):
        results = []
        for backend in ("exact", "fast-transformers"):
            out, state = attend(*inputs, backend=backend, **options)
            gradients = torch.autograd.grad(out.square().sum() + state.sums.sin().sum(), inputs)
            results.append([out, state.sums, *gradients])
        for found, expected in zip(results[1], results[0], strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_continues_a_state_and_takes_other_precisions() -> None:
    if find_spec("fast_transformers") is None:
        assert "fast_transformers" not in sys.modules  # nothing imports it by the way
        return
    inputs = [x.double() for x in draw()]
    whole, last = attend(*inputs, backend="exact")
    _, state = attend(*[x[:, :20] for x in inputs], backend="exact")
    fq, fk, v = (x[:, 20:] for x in inputs)
    out, after = attend(fq, fk, v, state=state, backend="fast-transformers")
    assert out.dtype is torch.float64
    torch.testing.assert_close(out, whole[:, 20:], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(after.sums, last.sums, rtol=1e-4, atol=1e-4)


def test_names_the_extra_when_the_package_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fast_transformers", None)
    monkeypatch.setitem(sys.modules, "fast_transformers.causal_product", None)
    with pytest.raises(ValueError, match=r"not installed: run `make fast-transformers`"):
        attend(*draw(), backend="fast-transformers")


def test_refuses_a_decay() -> None:
    with pytest.raises(ValueError, match=r"knows no decay.*use backend 'chunked'"):
        attend(*draw(), decay=torch.full((3,), 0.9), backend="fast-transformers")
