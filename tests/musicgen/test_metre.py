"""Metric heads against their definition: whole sequences, cut anywhere and in steps; and the clocks of languages."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from musicgen import metre
from musicgen.metre import MIN_FEATURE, Metre, MetricHeads, Timekeeper
from musicgen.parts import Clock
from musicgen.performer import Performer
from tests.musicgen.toys import CLOCK, METRE, VOCABULARY, generator, toy_model, toy_tokens, whole_of
from tests.tokenization.ensemble.cases import walk as ensemble_walk
from tests.tokenization.groove.cases import walk as groove_walk
from tests.tokenization.remi.cases import walk as remi_walk
from tokenization.ensemble.spelling import Reading as EnsembleReading
from tokenization.groove.spelling import Reading
from tokenization.language import language
from tokenization.records import from_plain
from tokenization.remi.language import BAR, SUBBEAT


def toy(**changes: Any) -> Performer:
    """Return a toy model with metric heads."""
    return toy_model(position="sine_spe", layers=2, metre=METRE, **changes)


def music(length: int, seed: int = 0) -> Tensor:
    """Return tokens of which about a third move time, always forward: (1, T)."""
    forward = torch.tensor([0, 4, 5, 2, 6, 7, 8, 9, 10, 4, 5])
    return forward[toy_tokens(1, length, seed)]


def heads(width: int = 16) -> MetricHeads:
    """Return the metric heads of a layer in double precision, with large weights."""
    torch.manual_seed(0)
    made = MetricHeads(METRE, width, 5).double()
    torch.nn.init.normal_(made.qkv.weight)
    return made


def by_definition(made: MetricHeads, x: Tensor, after: list[int], before: list[int]) -> Tensor:
    """Compute the equation at the top of metre.py for one sequence, term by term: x (T, C) → (T, H, D)."""
    q, k, v = made.qkv(x[None])[0].unflatten(-1, (made.heads, -1)).split([3, 3, 5], -1)
    q, k = q.clamp(min=MIN_FEATURE), k.clamp(min=MIN_FEATURE)
    out = torch.zeros_like(v)
    for h, (period, long) in enumerate(zip(METRE.periods(CLOCK), METRE.remembers, strict=True)):
        r = float(np.float32(1 - 1 / long))
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


def test_chunks_of_a_sequence_equal_the_definition(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(metre.CHUNKS, "cpu", 16)
    shared, made, tokens = Metre(METRE, CLOCK), heads(), music(70)
    x = torch.randn(1, 70, 16, dtype=torch.float64, generator=generator())
    around = times(tokens) + 123_457  # only differences of time matter
    chunks, _ = shared.layout(around, shared.start(1))
    found, _ = made(x, chunks, None)
    after = around[0, 0].tolist()
    wanted = by_definition(made, x[0], after, [123_457, *after[:-1]])
    empty = (wanted == 0).all(-1)
    assert 0 < empty.float().mean() < 0.5
    torch.testing.assert_close(found[0], wanted.flatten(1), rtol=1e-6, atol=1e-9)  # r is float32


@pytest.mark.parametrize(
    "both",
    [
        *(torch.cat([music(length), music(length, seed=3)]) for length in (1, 31, 32, 300)),
        torch.cat([music(40), torch.zeros(1, 400).long(), music(40)], 1).expand(2, -1),
    ],
    ids=lambda both: str(both.shape[1]),
)
def test_sorted_times_give_the_outputs_and_gradients_of_chunks(both: Tensor):
    shared, made = Metre(METRE, CLOCK), heads()
    around = torch.cat([times(both[:1]), times(both[1:]) + 17], 1)  # (2, B, T)
    found = []
    for whole in (False, True):
        layout, _ = shared.layout(around, shared.start(2), whole=whole)
        assert isinstance(layout, metre.SortedTimes) == whole
        x = torch.randn(*both.shape, 16, dtype=torch.float64, generator=generator())
        out, _ = made(x.requires_grad_(), layout, None)
        weights = torch.randn(out.shape, dtype=torch.float64, generator=generator())
        gradients = torch.autograd.grad((out * weights).sum(), [x, made.qkv.weight])
        found.append([out, *gradients])
    assert all(x.isfinite().all() for x in found[0])
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)  # weights are float32


def stepped(model: Performer, tokens: Tensor) -> Tensor:
    state, rows = model.start(generator()), []
    for column in tokens.T:
        logits, state = model.step(column, state)
        rows.append(logits)
    return torch.stack(rows, 1)


@pytest.mark.parametrize(
    ("before", "bars"), [(2, 75), (130, 75), pytest.param(40, 1000, marks=pytest.mark.long)]
)
def test_after_a_long_silence_steps_equal_the_whole(before: int, bars: int, monkeypatch):
    monkeypatch.setitem(metre.CHUNKS, "cpu", 512)  # so that the silence can fit into one chunk
    model, silence = toy().double(), torch.zeros(1, bars, dtype=torch.long)
    tokens = torch.cat([toy_tokens(1, before), silence, toy_tokens(1, 60, 1)], 1)
    whole = whole_of(model, tokens)
    assert whole.isfinite().all()
    torch.testing.assert_close(stepped(model, tokens), whole, rtol=1e-9, atol=1e-9)


def test_steps_in_bfloat16_equal_the_whole_to_its_precision():
    model, tokens = toy().bfloat16(), toy_tokens(2, 60)
    found, whole = stepped(model, tokens).float(), whole_of(model, tokens).float()
    assert (found - whole).abs().mean() / whole.abs().mean() < 0.02


def test_gradients_reach_every_parameter_and_are_the_same_with_checkpointing():
    gradients = []
    for recomputed in (False, True):
        model = toy(checkpoint_activations=recomputed).train()
        model(toy_tokens(2, 140), code=model.begin(generator())).square().sum().backward()
        gradients.append({name: p.grad for name, p in model.named_parameters()})
    for name, gradient in gradients[0].items():
        assert gradient is not None, name
        assert gradient.isfinite().all(), name
        assert gradient.any(), name
        assert torch.equal(gradient, gradients[1][name])


def ensemble_times(ids: np.ndarray) -> np.ndarray:
    """Return times from bars of 48 ticks and the place in the current bar, which goes back for each part."""
    reading = EnsembleReading(ids)
    return (reading.bar + 1) * 48 + np.minimum((np.maximum(reading.step, 0) + 1) // 3, 47)


def remi_times(ids: np.ndarray) -> np.ndarray:
    """Return times from bars of 16 sub-beats and the place in the current bar, token by token."""
    bar, place, times = 0, 0, []
    for token in ids.tolist():
        if token == BAR:
            bar, place = bar + 1, 0
        elif SUBBEAT.holds(token):
            place = int(token) - SUBBEAT.start
        times.append(bar * 16 + place)
    return np.array(times)


TIMES = {
    "groove": (groove_walk, lambda ids: Reading(ids).time_ticks),  # by its own reader
    "remi": (remi_walk, remi_times),
    "ensemble": (ensemble_walk, ensemble_times),
}


@pytest.mark.parametrize("name", TIMES)
@pytest.mark.parametrize("seed", range(2))
def test_a_clock_reads_the_times_of_its_language(name: str, seed: int):
    spoken, (walk, times) = language(name), TIMES[name]
    ids = walk(seed, 200).astype(np.int64)
    tokens, wanted = torch.from_numpy(ids), torch.from_numpy(times(ids))
    assert wanted.max() > spoken.clock()["bar_ticks"]
    clock = from_plain(Clock, spoken.clock(), "the clock")
    time, zero = Timekeeper(clock, len(spoken.vocabulary)), torch.zeros(1, dtype=torch.long)
    assert torch.equal(time.after(tokens[None], zero)[0], wanted)
    for cut in (1, 50, len(ids) - 1):
        at = time.after(tokens[None, :cut], zero)[:, -1]
        assert torch.equal(time.after(tokens[None, cut:], at)[0], wanted[cut:])
    at = zero
    for token, one in zip(tokens, wanted, strict=True):
        at = time.after(token[None, None], at)[0]
        assert at == one
