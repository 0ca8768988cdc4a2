"""Metric heads: what they compute is the definition, whole or in steps, and depends on differences of time alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from musicgen import metre
from musicgen.checkpoint import Card, load, save
from musicgen.clock import Clock
from musicgen.config import ModelConfig
from musicgen.generate import Request, Stop, generate
from musicgen.metre import LEAST, Metre, MetreConfig, MetricHeads
from musicgen.model import Performer
from musicgen.quantise import with_int8_weights
from tests.musicgen.toys import VOCABULARY, generator, toy_config, toy_tokens

# Tokens 0 … 3 move time: a bar on, or to a tick of this bar of 6; where that is an earlier one, time stands still.
CLOCK = Clock(bar_ticks=6, step_ticks=6, moves=((0, 1, 0), (1, 0, 2), (2, 1, 3), (3, 0, 5)))
METRE = MetreConfig(bars=(1, 0.5, 2), remembers=(2, 8, 3), features=3)
LENGTH = 300  # three stretches


def config(**changes: Any) -> ModelConfig:
    """Return the configuration of a toy with metric heads."""
    given = {"position": "sine_spe", "layers": 2, "initial_deviation": 0.3, **changes}
    return replace(toy_config(**given), metre=METRE, clock=CLOCK)


def toy(**changes: Any) -> Performer:
    """Return the toy in evaluation mode."""
    return Performer(config(**changes), 0).eval()


def heads(width: int = 16) -> MetricHeads:
    """Return the metric heads of a layer in double precision, their weights large."""
    torch.manual_seed(0)
    made = MetricHeads(METRE, width, 5).double()
    torch.nn.init.normal_(made.qkv.weight)
    return made


def by_definition(made: MetricHeads, x: Tensor, behind: list[int], before: list[int]) -> Tensor:
    """Return the equation at the head of metre.py, term by term, for one sequence: x (T, C) → (T, H, D)."""
    q, k, v = made.qkv(x[None])[0].unflatten(-1, (made.heads, -1)).split([3, 3, 5], -1)
    q, k = q.clamp(min=LEAST), k.clamp(min=LEAST)
    out = torch.zeros_like(v)
    for h, (period, remembers) in enumerate(
        zip(METRE.periods(CLOCK), METRE.remembers, strict=True)
    ):
        r = float(np.float32(1 - 1 / remembers))
        for i, t in enumerate(behind):
            total = torch.zeros((), dtype=torch.float64)
            for j in range(i + 1):
                passed, rest = divmod(t - before[j], period)
                if rest == 0:
                    weight = r**passed * (q[i, h] @ k[j, h])
                    total, out[i, h] = total + weight, out[i, h] + weight * v[j, h]
            if total:
                out[i, h] /= total
    return out


def music(length: int, seed: int = 0) -> Tensor:
    """Return tokens of which a third move time, forward: (1, T)."""
    tokens = toy_tokens(1, length, seed)
    forward = torch.tensor([0, 4, 5, 2, 6, 7, 8, 9, 10, 4, 5])
    return forward[tokens]


def test_the_whole_is_the_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(metre.CHUNK, "cpu", 16)
    shared, made, tokens = Metre(METRE, CLOCK, VOCABULARY), heads(), music(70)
    x = torch.randn(1, 70, 16, dtype=torch.float64, generator=generator())
    stretches, times = shared.stretches(tokens, shared.start(1))
    found, _ = made(x, stretches, None)
    behind = shared.time.behind(tokens, torch.zeros(1, dtype=torch.long))[0].tolist()
    assert times.ticks.tolist() == behind[-1:]
    wanted = by_definition(made, x[0], behind, [0, *behind[:-1]])
    nothing_there = (wanted == 0).all(-1)
    assert 0 < nothing_there.float().mean() < 0.5
    torch.testing.assert_close(found[0], wanted.flatten(1), rtol=1e-6, atol=1e-9)  # r is float32


@pytest.mark.parametrize("later", [1, 7, 123456])
def test_only_differences_of_time_matter(later: int) -> None:
    shared, made, tokens = Metre(METRE, CLOCK, VOCABULARY), heads(), music(200)
    x = torch.randn(1, 200, 16, dtype=torch.float64, generator=generator())
    times = torch.cat(
        [torch.zeros(1, 1).long(), shared.time.behind(tokens, torch.zeros(1).long())], 1
    )
    outputs = []
    for moved in (times, times + later):
        stretches, _ = shared.between(moved[:, :-1], moved[:, 1:], shared.start(1).newest)
        outputs.append(made(x, stretches, None)[0])
    torch.testing.assert_close(*outputs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("position", ["sine_spe", "none", "lrpe"])
@pytest.mark.parametrize("cut", [1, 100, 140])
def test_prompt_and_steps_equal_the_whole(position: str, cut: int) -> None:
    model, tokens = toy(position=position).double(), toy_tokens(2, LENGTH)
    with torch.no_grad():
        whole = model(tokens, code=model.begin(generator()))
    logits, state = model.prefill(tokens[:, :cut], model.start(generator()))
    for t in range(cut, 170):
        torch.testing.assert_close(logits, whole[:, t - 1], rtol=1e-9, atol=1e-9)
        logits, state = model.step(tokens[:, t], state)
    rest, _ = model.read(tokens[:, 170:], state)
    torch.testing.assert_close(rest, whole[:, 170:], rtol=1e-9, atol=1e-9)


def test_after_a_silence_of_a_thousand_bars_steps_equal_the_whole() -> None:
    model = toy().double()
    tokens = torch.cat(
        [toy_tokens(1, 40), torch.zeros(1, 1000, dtype=torch.long), toy_tokens(1, 60, 1)], 1
    )
    with torch.no_grad():
        whole = model(tokens, code=model.begin(generator()))
    state, rows = model.start(generator()), []
    for token in tokens[0]:
        logits, state = model.step(token[None], state)
        rows.append(logits)
    assert whole.isfinite().all()
    torch.testing.assert_close(torch.stack(rows, 1), whole, rtol=1e-8, atol=1e-8)


def test_single_precision_steps_choose_the_tokens_of_the_whole() -> None:
    model, tokens = toy(layers=3), toy_tokens(2, 60)
    with torch.inference_mode():
        whole = model(tokens, model.begin(generator()))
        state, rows = model.start(generator()), []
        for at in range(60):
            logits, state = model.step(tokens[:, at], state)
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


def test_what_stood_at_the_same_place_of_an_earlier_bar_is_heard_and_no_other() -> None:
    made, shared = heads(), Metre(METRE, CLOCK, VOCABULARY)
    tokens = torch.tensor([[5, 1, 6, 3, 7, 0, 8, 1, 9]])  # ticks 0 0 2 2 5 5→6 6 6→8 8
    x = torch.randn(1, 9, 16, dtype=torch.float64, generator=generator())
    stretches, _ = shared.stretches(tokens, shared.start(1))
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
        return np.stack(list(generate(toy(), np.array([4, 3, 2, 1]), asked)), axis=1)

    np.testing.assert_array_equal(run(count)[:1], run(1))


def test_a_state_can_be_gone_on_from_twice() -> None:
    model, tokens = toy(), toy_tokens(1, 40)
    _, state = model.prefill(tokens[:, :20], model.start(generator()))
    _, state = model.step(tokens[:, 20], state)
    copied = state.select(torch.zeros(1, dtype=torch.long))
    rows = []
    for at in (state, copied):
        for token in tokens[0, 21:]:
            logits, at = model.step(token[None], at)
        rows.append(logits)
    assert torch.equal(*rows)


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_saved_and_loaded_it_is_the_same_model(tmp_path: Path, dtype: str) -> None:
    model, tokens = toy(), toy_tokens(2, 50)
    save(tmp_path, model, Card(name="toy", language={}, trained_length=0), dtype)
    loaded = load(tmp_path)[0]
    assert loaded.config == model.config
    with torch.no_grad():
        outputs = [m(tokens, code=m.begin(generator())) for m in (model, loaded)]
    torch.testing.assert_close(*outputs, rtol=0, atol=0 if dtype == "float32" else 0.5)


def test_8_bit_weights_go_in_steps() -> None:
    model, tokens = with_int8_weights(toy(width=64, feedforward=64)), toy_tokens(1, 50)
    with torch.inference_mode():
        whole = model(tokens, code=model.begin(generator()))
        state = model.start(generator())
        for token in tokens[0]:
            logits, state = model.step(token[None], state)
    torch.testing.assert_close(logits, whole[:, -1], rtol=0, atol=0.05 * whole.abs().max().item())


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
    ],
)
def test_a_wrong_metre_is_refused(values: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        MetreConfig(**values)
