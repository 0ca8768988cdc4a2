"""Metric heads: what they compute is the definition, and depends on differences of time alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from musicgen.metre import heads as metre
from musicgen.metre.clock import Timekeeper
from musicgen.metre.heads import LEAST, Metre, MetreConfig, MetricHeads, Stretches
from tests.musicgen.metre.toys import LENGTH, METRE, config, music
from tests.musicgen.toys import CLOCK, VOCABULARY, generator


def heads(width: int = 16) -> MetricHeads:
    """Return the metric heads of a layer in double precision, their weights large."""
    torch.manual_seed(0)
    made = MetricHeads(METRE, width, 5).double()
    torch.nn.init.normal_(made.qkv.weight)
    return made


def by_definition(made: MetricHeads, x: Tensor, after: list[int], before: list[int]) -> Tensor:
    """Return the equation at the head of heads.py, term by term, for one sequence: x (T, C) → (T, H, D)."""
    q, k, v = made.qkv(x[None])[0].unflatten(-1, (made.heads, -1)).split([3, 3, 5], -1)
    q, k = q.clamp(min=LEAST), k.clamp(min=LEAST)
    out = torch.zeros_like(v)
    for h, (period, remembers) in enumerate(
        zip(METRE.periods(CLOCK), METRE.remembers, strict=True)
    ):
        r = float(np.float32(1 - 1 / remembers))
        for i, t in enumerate(after):
            total = torch.zeros((), dtype=torch.float64)
            for j in range(i + 1):
                passed, rest = divmod(t - before[j], period)
                if rest == 0:
                    weight = r**passed * (q[i, h] @ k[j, h])
                    total, out[i, h] = total + weight, out[i, h] + weight * v[j, h]
            if total:
                out[i, h] /= total
    return out


def times(tokens: torch.Tensor) -> torch.Tensor:
    """Return the times after and before each token of one sequence, (2, 1, T)."""
    return Timekeeper(CLOCK, VOCABULARY).around(tokens, torch.zeros(1, dtype=torch.long))


@pytest.mark.parametrize("training", [True, False])
def test_the_whole_is_the_definition(training: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(metre.CHUNKS, "cpu", 16)
    shared, made, tokens = Metre(METRE, CLOCK), heads(), music(70)
    x = torch.randn(1, 70, 16, dtype=torch.float64, generator=generator())
    around = times(tokens)
    with torch.set_grad_enabled(training):
        stretches, _ = shared.stretches(*around, shared.start(1))
        found, _ = made(x, stretches, None)
    assert (stretches.dense is not None) == training
    after = around[0, 0].tolist()
    wanted = by_definition(made, x[0], after, [0, *after[:-1]])
    nothing_there = (wanted == 0).all(-1)
    assert 0 < nothing_there.float().mean() < 0.5
    torch.testing.assert_close(found[0], wanted.flatten(1), rtol=1e-6, atol=1e-9)  # r is float32


@pytest.mark.parametrize("later", [1, 7, 123456])
def test_only_differences_of_time_matter(later: int) -> None:
    shared, made, tokens = Metre(METRE, CLOCK), heads(), music(200)
    x = torch.randn(1, 200, 16, dtype=torch.float64, generator=generator())
    around, outputs = times(tokens), []
    for moved in (around, around + later):
        stretches, _ = shared.stretches(*moved, shared.start(1))
        outputs.append(made(x, stretches, None)[0])
    torch.testing.assert_close(*outputs, rtol=1e-9, atol=1e-9)


def test_a_key_that_is_like_no_query_is_found_where_it_is_alone() -> None:
    made, shared = heads(), Metre(METRE, CLOCK)
    torch.nn.init.zeros_(made.qkv.weight)
    bias = made.qkv.bias.detach().view(3, -1)
    bias[:, :6], bias[:, 6:] = -1.0, 2.5
    stretches, _ = shared.stretches(*times(torch.tensor([[5]])), shared.start(1))
    found, _ = made(torch.zeros(1, 1, 16, dtype=torch.float64), stretches, None)
    torch.testing.assert_close(found, torch.full_like(found, 2.5))


def test_sums_are_in_single_precision_under_autocast() -> None:
    shared, made = Metre(METRE, CLOCK), heads().float()
    with torch.no_grad():
        stretches, _ = shared.stretches(*times(music(LENGTH)), shared.start(1))
    x = torch.randn(1, LENGTH, 16, generator=generator())
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        qkv = made.qkv(x)
        mixed, memory = made(x, stretches, None)
    assert (mixed.dtype, memory.dtype) == (torch.bfloat16, torch.float32)
    q, k, v = made._split(qkv.float())
    table = torch.zeros(shared.rows, 3 * 6)
    for stretch in stretches.each:
        _, table = made._stretch(q, k, v, stretch, table)
    assert torch.equal(memory.view_as(table), table)


def test_dense_products_and_their_gradients_are_those_of_each_token() -> None:
    shared, made = Metre(METRE, CLOCK), heads()
    around = torch.cat([times(music(150)), times(music(150, seed=3))], 1)  # (2, B, T)
    stretches, _ = shared.stretches(*around, shared.start(2))
    assert stretches.dense is not None
    found = []
    for dense in (stretches.dense, None):
        x = torch.randn(2, 150, 16, dtype=torch.float64, generator=generator()).requires_grad_()
        size = (2, shared.rows, 3, 6)
        memory = torch.rand(size, dtype=torch.float64, generator=generator()).requires_grad_()
        out, after = made(x, Stretches(stretches.each, dense), memory)
        weights = torch.randn(out.shape, dtype=torch.float64, generator=generator())
        loss = (out * weights).sum() + (after**2).sum()
        found.append([out, after, *torch.autograd.grad(loss, [x, memory, made.qkv.weight])])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("length", [1, 30, 31, 32, 300])
def test_sums_over_sorted_times_and_their_gradients_are_those_of_each_token(length: int) -> None:
    shared, made = Metre(METRE, CLOCK), heads()
    around = torch.cat([times(music(length)), times(music(length, seed=3)) + 17], 1)  # (2, B, T)
    stretches, _ = shared.stretches(*around, shared.start(2))
    whole = shared.whole(*around)
    assert whole is not None
    found = []
    for one in (stretches, whole):
        x = torch.randn(2, length, 16, dtype=torch.float64, generator=generator()).requires_grad_()
        out, _ = made(x, one, None)
        weights = torch.randn(out.shape, dtype=torch.float64, generator=generator())
        gradients = torch.autograd.grad((out * weights).sum(), [x, made.qkv.weight])
        found.append([out, *gradients])
    for one, other in zip(*found, strict=True):
        assert one.isfinite().all()
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)  # weights are float32


def test_sorted_times_after_a_long_silence_are_heard() -> None:
    shared, made = Metre(METRE, CLOCK), heads()
    tokens = torch.cat([music(40), torch.zeros(1, 400, dtype=torch.long), music(40)], 1)
    around, found = times(tokens), []
    stretches, _ = shared.stretches(*around, shared.start(1))
    x = torch.randn(1, 480, 16, dtype=torch.float64, generator=generator())
    for one in (stretches, shared.whole(*around)):
        assert one is not None
        found.append(made(x, one, None)[0])
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)


def test_what_stood_at_the_same_place_of_an_earlier_bar_is_heard_and_no_other() -> None:
    made, shared = heads(), Metre(METRE, CLOCK)
    tokens = torch.tensor([[5, 1, 6, 3, 7, 0, 8, 1, 9]])  # ticks 0 0 2 2 5 5→6 6 6→8 8
    x = torch.randn(1, 9, 16, dtype=torch.float64, generator=generator())
    stretches, _ = shared.stretches(*times(tokens), shared.start(1))
    out = made(x, stretches, None)[0].unflatten(-1, (3, 5))[0, -1]  # at tick 8
    heard = []
    for place in range(9):
        other = x.clone()
        other[0, place] += 1
        changed = made(other, stretches, None)[0].unflatten(-1, (3, 5))[0, -1]
        heard.append((changed != out).any(-1).tolist())
    one_bar, half_a_bar, two_bars = zip(*heard, strict=True)
    assert [p for p in range(8) if one_bar[p]] == [2, 3]  # which began at tick 2
    assert [p for p in range(8) if half_a_bar[p]] == [2, 3, 4, 5]  # … and at tick 5
    assert not any(two_bars[:8])


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"clock": None}, "a metre needs the clock of the language"),
        ({"attention": "softmax", "position": "none"}, "a metre goes with attention: linear"),
        ({"vocabulary_size": 3}, "the clock moves by token 3, but there are 3 tokens"),
        ({"metre": MetreConfig(bars=(0.7,), remembers=(2,))}, r"0\.7 bars are 4\.\d* ticks"),
    ],
)
def test_what_cannot_be_is_said(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        replace(config(), **changes)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"bars": (1, 2)}, r"bars are \[1, 2\] and remembers .* each head has one of both"),
        ({"remembers": (2, 8, 8, 1)}, r"remembers \[2, 8, 8, 1\] \(above 1\)"),
        ({"features": 0}, r"features 0 \(at least 1\)"),
        ({"bars": (1, 1, 2, float("inf"))}, r"bars are .*inf\] \(above 0, 64 at most\)"),
        ({"remembers": (2, 8, 8, float("nan"))}, r"remembers .*nan\] \(above 1\)"),
    ],
)
def test_a_wrong_metre_is_refused(values: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        MetreConfig(**values)
