"""Attention over the whole sequence, and the classifier on it."""

from typing import Any

import pytest
import torch
from torch import Tensor

from evaluation.benchmarks.recipe import recipe
from evaluation.benchmarks.training import Classifier
from evaluation.benchmarks.variants import VARIANTS, attend_both_ways
from musicgen.attention.linear_attention import GUARD

TINY = {
    "vocabulary_size": 9,
    "layers": 2,
    "width": 16,
    "heads": 2,
    "feedforward": 24,
    "dropout": 0.0,
}
FAVOR = {"name": "favor", "features": 8}
WHOLE = [name for name, variant in VARIANTS.items() if variant.whole]


def exact_both_ways(fq: Tensor, fk: Tensor, v: Tensor, *, decay: Tensor | None = None) -> Tensor:
    """Return the same by the (T, T) matrix of the definition."""
    weights = torch.einsum("bihm,bjhm->bhij", fq, fk)
    if decay is not None:
        place = torch.arange(fq.shape[1], device=fq.device)
        weights = weights * decay.view(-1, 1, 1) ** (place.view(-1, 1) - place).abs()
    weights = weights / (weights.sum(-1, keepdim=True) + GUARD)
    return torch.einsum("bhij,bjhd->bihd", weights, v)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def drawn(length: int) -> list[torch.Tensor]:
    source = generator(3)
    fq, fk = (torch.rand(2, length, 3, 5, generator=source).double() + 1e-3 for _ in range(2))
    return [fq, fk, torch.randn(2, length, 3, 4, generator=source).double()]


@pytest.mark.parametrize("length", [1, 2, 63, 64, 65, 150])
@pytest.mark.parametrize("decayed", [False, True])
def test_linear_cost_gives_the_numbers_of_the_matrix(length: int, decayed: bool) -> None:
    inputs = drawn(length)
    decay = torch.tensor([0.5, 0.9, 1.0]).double() if decayed else None
    leaves = [[x.clone().requires_grad_() for x in inputs] for _ in range(2)]
    found = attend_both_ways(*leaves[0], decay=decay, chunk=64)
    wanted = exact_both_ways(*leaves[1], decay=decay)
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-10)
    for y in (found, wanted):
        y.sin().sum().backward()
    for one, other in zip(*leaves, strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("decayed", [False, True])
def test_padding_is_seen_by_nobody(decayed: bool) -> None:
    fq, fk, v = drawn(40)
    decay = torch.tensor([0.5, 0.9, 1.0]).double() if decayed else None
    present = torch.ones(2, 40, dtype=torch.bool)
    present[:, 25:] = False
    padded = attend_both_ways(fq, fk, v, decay=decay, present=present)
    alone = attend_both_ways(fq[:, :25], fk[:, :25], v[:, :25], decay=decay)
    torch.testing.assert_close(padded[:, :25], alone, rtol=1e-10, atol=1e-10)


def test_a_normaliser_gives_the_denominator_other_features() -> None:
    fq, fk, v = drawn(30)
    gq, gk, _ = drawn(30)
    found = attend_both_ways(fq, fk, v, normaliser=(gq + 1, gk))
    weights = torch.einsum("bihm,bjhm->bhij", fq, fk)
    total = torch.einsum("bihm,bjhm->bhi", gq + 1, gk)
    wanted = torch.einsum("bhij,bjhd->bihd", weights / total.unsqueeze(-1), v)
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-10)


def classifier(name: str, **more: Any) -> Classifier:
    sizes = (4, 5) if VARIANTS[name].shape == "grid" else None
    variant = recipe("pathfinder-short").variant(name, sizes)
    return Classifier(variant, {**TINY, "features": FAVOR}, classes=3, **more).double().eval()


@pytest.mark.parametrize("name", WHOLE)
def test_a_classifier_reads_what_is_there_and_learns_with_all_it_has(name: str) -> None:
    cloud = VARIANTS[name].shape == "cloud"
    model = classifier(name)
    tokens = torch.randint(9, (4, 20), generator=generator())
    places = torch.rand(4, 20, 3, generator=generator()).double() if cloud else None
    present = torch.ones(4, 20, dtype=torch.bool)
    present[1:, 13:] = False
    code = model.begin(generator(1))
    found = model(tokens, present, code, places)
    assert found.shape == (4, 3)
    changed = tokens.clone()
    changed[1:, 13:] = (changed[1:, 13:] + 1) % 9
    torch.testing.assert_close(model(changed, present, code, places), found, rtol=1e-9, atol=1e-9)
    changed[0, 19] = (
        changed[0, 19] + 1
    ) % 9  # the last token matters, to a mean over all positions
    assert not torch.allclose(model(changed, present, code, places)[0], found[0])
    found.sin().sum().backward()
    for label, parameter in model.named_parameters():
        assert parameter.grad is not None, label
        assert parameter.grad.isfinite().all(), label


def test_a_classifier_may_decide_by_the_first_position() -> None:
    tokens = torch.randint(9, (3, 12), generator=generator())
    present = torch.ones(3, 12, dtype=torch.bool)
    first, mean = (classifier("none", pool=pool) for pool in ("first", "mean"))
    swapped = tokens[
        :, [5, *range(1, 5), 0, *range(6, 12)]
    ]  # another token first, the same ones in all
    both = [[m(t, present, None) for t in (tokens, swapped)] for m in (first, mean)]
    assert not torch.allclose(*both[0])
    torch.testing.assert_close(*both[1])
    with pytest.raises(ValueError, match="pool is 'last'; it must be one of mean, first"):
        classifier("none", pool="last")


def test_pairs_are_read_by_the_same_blocks() -> None:
    model = classifier("none", pairs=True)
    tokens = torch.randint(9, (4, 12), generator=generator())
    present = torch.ones(4, 12, dtype=torch.bool)
    found = model(tokens, present, model.begin(generator()))
    assert found.shape == (2, 3)
    swapped = model(tokens[[1, 0, 2, 3]], present, model.begin(generator()))
    assert not torch.allclose(swapped[0], found[0])
    torch.testing.assert_close(swapped[1], found[1])


def test_without_an_encoding_the_order_of_tokens_says_nothing() -> None:
    tokens = torch.randint(9, (2, 20), generator=generator())
    present = torch.ones(2, 20, dtype=torch.bool)
    for name in ("none", "rope"):
        model = classifier(name)
        both = [model(t, present, model.begin(generator())) for t in (tokens, tokens.flip(1))]
        assert torch.allclose(*both, atol=1e-9) == (name == "none")
