"""The kinds of attention equal their definitions, and all parameters learn."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from evaluation.benchmarks.mixers import delta_sums, gated_sums, sums_both_ways
from evaluation.benchmarks.tasks import recipe
from evaluation.benchmarks.training import Classifier
from evaluation.benchmarks.variants import VARIANTS, language_model, model_config
from musicgen.attention import attend
from tests.musicgen.toys import generator
from tokenization.language import language as language_named

TINY = {
    "vocabulary_size": 9, "layers": 2, "width": 16, "heads": 2, "feedforward": 24, "dropout": 0.0,
    "features": {"name": "favor", "features": 8},
}  # fmt: skip
DECAY = torch.tensor([0.5, 0.9, 1.0]).double()


def dense(fq: Tensor, fk: Tensor, v: Tensor, lags: Tensor, own: Any = None) -> Tensor:
    """Compute attention by its (T, T) matrix, with weights by lag, (H, 2T − 1), and optionally other divisors."""
    place = torch.arange(fq.shape[1])
    by_lag = lags[:, place.view(-1, 1) - place + len(place) - 1]  # (H, T, T)
    scores, total = (
        torch.einsum("bihm,bjhm->bhij", *pair) * by_lag for pair in ((fq, fk), own or (fq, fk))
    )
    return torch.einsum("bhij,bjhd->bihd", scores / total.sum(-1, keepdim=True), v)


def drawn(length: int) -> list[Tensor]:
    source = generator(3)
    fq, fk = (torch.rand(2, length, 3, 5, generator=source).double() + 1e-3 for _ in range(2))
    return [fq, fk, torch.randn(2, length, 3, 4, generator=source).double()]


def same_values_and_gradients(inputs: list[Tensor], fast: Callable, exact: Callable) -> None:
    leaves = [[x.clone().requires_grad_() for x in inputs] for _ in range(2)]
    found, wanted = fast(*leaves[0]), exact(*leaves[1])
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-10)
    for y in (found, wanted):
        y.sin().sum().backward()
    for one, other in zip(*leaves, strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("length", [1, 64, 65, 150])
@pytest.mark.parametrize("decay", [None, DECAY])
def test_linear_attention_equals_the_matrix(length: int, decay: Tensor | None) -> None:
    inputs = drawn(length)
    away = torch.arange(1 - length, length).abs()
    lags = (torch.ones(3).double() if decay is None else decay).view(-1, 1) ** away
    sums = partial(sums_both_ways, chunk=64)

    def both_ways(*inputs: Tensor, **more: Any) -> Tensor:
        return attend(*inputs, decay=decay, backend=sums, **more)[0]

    same_values_and_gradients(inputs, both_ways, partial(dense, lags=lags))
    own = (inputs[0] + 1, inputs[1])
    found = both_ways(*inputs, normaliser=own)
    exact = dense(inputs[0], inputs[1], inputs[2], lags, own)
    torch.testing.assert_close(found, exact, rtol=1e-10, atol=1e-10)
    # Padding is ignored.
    present = torch.arange(length).expand(2, -1) < length // 2 + 1
    fq, fk, v = inputs
    padded = both_ways(fq, fk * present[..., None, None], v)
    short = [x[:, : length // 2 + 1] for x in inputs]
    alone = both_ways(*short)
    torch.testing.assert_close(padded[:, : length // 2 + 1], alone, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("length", [1, 64, 65, 130])
def test_gated_sums_equal_the_recurrence(length: int) -> None:
    q, k, v = drawn(length)
    gates = torch.rand(2, length, 3, generator=generator(4)).double()
    state, wanted = torch.zeros(2, 3, 5, 4).double(), []
    for t in range(length):
        g = gates[:, t, :, None, None]
        state = g * state + k[:, t].unsqueeze(-1) * v[:, t].unsqueeze(-2)
        wanted.append(torch.einsum("bhm,bhmd->bhd", q[:, t], state))
    found = gated_sums(q, k, v, gates.log())
    torch.testing.assert_close(found, torch.stack(wanted, 1), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("length", [1, 64, 65, 130])
def test_delta_sums_equal_the_recurrence(length: int) -> None:
    q, k, v = drawn(length)
    k = k / k.norm(dim=-1, keepdim=True)
    rates = torch.rand(2, length, 3, generator=generator(4)).double()

    def recurrence(q: Tensor, k: Tensor, v: Tensor, rates: Tensor) -> Tensor:
        state, found = torch.zeros(2, 3, 5, 4).double(), []
        for t in range(length):
            held = torch.einsum("bhm,bhmd->bhd", k[:, t], state)
            new = rates[:, t].unsqueeze(-1) * (v[:, t] - held)
            state = state + k[:, t].unsqueeze(-1) * new.unsqueeze(-2)
            found.append(torch.einsum("bhm,bhmd->bhd", q[:, t], state))
        return torch.stack(found, 1)

    same_values_and_gradients([q, k, v, rates], delta_sums, recurrence)


def all_parameters_learn(model: torch.nn.Module, found: Tensor) -> None:
    found.sin().sum().backward()
    for label, parameter in model.named_parameters():
        assert parameter.grad is not None, label
        assert parameter.grad.isfinite().all(), label


@pytest.mark.parametrize("name", [name for name, variant in VARIANTS.items() if variant.causal])
def test_language_models_do_not_see_the_future(name: str) -> None:
    variant = recipe("language-short").variant(name)
    language, count = None, 9
    if {"metre", "recall"} & {*variant.model}:
        language = language_named("ensemble")
        count = len(language.vocabulary)
    config = model_config(variant, {**TINY, "vocabulary_size": count}, language)
    model = language_model(variant, config, 1).double()
    tokens = torch.randint(count, (2, 80), generator=generator())
    changed = tokens.clone()
    changed[:, 50] = (changed[:, 50] + 1) % count
    with torch.no_grad():
        before, after = (model(t, code=model.begin(generator())) for t in (tokens, changed))
    torch.testing.assert_close(before[:, :50], after[:, :50], rtol=0, atol=1e-10)
    assert not torch.allclose(before[:, 50:], after[:, 50:], atol=1e-6)
    model.train()
    all_parameters_learn(model, model(tokens, code=model.begin(generator())))


@pytest.mark.parametrize("name", [name for name, variant in VARIANTS.items() if variant.whole])
def test_a_classifier_ignores_padding_and_all_its_parameters_learn(name: str) -> None:
    variant = recipe("pathfinder-short").variant(name)
    model = Classifier(variant, TINY, classes=3).double().eval()
    tokens = torch.randint(9, (4, 20), generator=generator())
    cloud = torch.rand(4, 20, 3, generator=generator()).double()
    grid = torch.cartesian_prod(torch.arange(4), torch.arange(5))[None]
    places = cloud if "cloud" in name else grid
    present = torch.ones(4, 20, dtype=torch.bool)
    present[1:, 13:] = False
    code = model.begin(generator(1))
    found = model(tokens, present, code, places)
    assert found.shape == (4, 3)
    changed = tokens.clone()
    changed[1:, 13:] = (changed[1:, 13:] + 1) % 9
    torch.testing.assert_close(model(changed, present, code, places), found, rtol=1e-9, atol=1e-9)
    changed[0, 19] = (changed[0, 19] + 1) % 9  # changes a mean over all positions
    assert not torch.allclose(model(changed, present, code, places)[0], found[0])
    all_parameters_learn(model, found)
