"""Log-linear attention, random feature attention and its gate, held to their definitions."""

import pytest
import torch
from torch import Tensor

from evaluation.benchmarks.recipe import recipe
from evaluation.benchmarks.variants import (
    VARIANTS,
    RandomFeatures,
    gated_sums,
    language_model,
    model_config,
    toeplitz_attend,
)
from musicgen.attention.linear_attention import GUARD
from musicgen.position import POSITIONS

CAUSAL = [name for name, variant in VARIANTS.items() if variant.causal]
SMALL = {
    "vocabulary_size": 9,
    "layers": 2,
    "width": 16,
    "heads": 2,
    "feedforward": 24,
    "dropout": 0.0,
}


def toeplitz_exact(fq: Tensor, fk: Tensor, v: Tensor, weights: Tensor) -> Tensor:
    """Return the same by the (T, T) matrix of the definition."""
    place = torch.arange(fq.shape[1], device=fq.device)
    matrix = weights[:, place.view(-1, 1) - place + len(place) - 1]  # (H, T, T)
    scores = torch.einsum("bihm,bjhm->bhij", fq, fk) * matrix
    scores = scores / (scores.sum(-1, keepdim=True) + GUARD)
    return torch.einsum("bhij,bjhd->bihd", scores, v)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("length", [1, 2, 7, 64, 101])
@pytest.mark.parametrize("causal", [False, True])
def test_the_fourier_form_is_the_dense_form(length: int, causal: bool) -> None:
    source = generator(1)
    fq, fk = (torch.rand(2, length, 3, 5, generator=source).double() for _ in range(2))
    v = torch.randn(2, length, 3, 4, generator=source).double()
    weights = torch.randn(3, 2 * length - 1, generator=source).double().exp()
    if causal:
        weights[:, : length - 1] = 0
    leaves = [[x.clone().requires_grad_() for x in (fq, fk, v, weights)] for _ in range(2)]
    found, wanted = toeplitz_attend(*leaves[0]), toeplitz_exact(*leaves[1])
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-9)
    for y in (found, wanted):
        y.sin().sum().backward()
    for one, other in zip(*leaves, strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-7, atol=1e-9)


def features(kind: str, count: int, seed: int) -> RandomFeatures:
    made = RandomFeatures(6, count, kind).double()
    made.redraw(generator(seed))
    with torch.no_grad():
        made.log_scale.copy_(torch.linspace(-0.5, 0.5, 6))
    return made


@torch.no_grad()
@pytest.mark.parametrize("kind", ["gaussian", "arccos"])
def test_random_features_estimate_their_kernel_without_bias(kind: str) -> None:
    x, y = torch.randn(2, 40, 6, generator=generator(2)).double()
    scale = torch.linspace(-0.5, 0.5, 6).double().exp()
    a, b = (v / v.norm(dim=-1, keepdim=True) * scale for v in (x, y))
    if kind == "gaussian":
        wanted = torch.exp(-(a - b).square().sum(-1) / 2)
    else:
        norms = a.norm(dim=-1) * b.norm(dim=-1)
        angle = torch.arccos(((a * b).sum(-1) / norms).clamp(-1, 1))
        wanted = norms * (angle.sin() + (torch.pi - angle) * angle.cos()) / torch.pi
    errors = []
    for draws in (16, 256):
        found = torch.stack(
            [
                (f.queries(x) * f.keys(y)).sum(-1)
                for f in (features(kind, 200, s) for s in range(draws))
            ]
        )
        deviation = found.std(0) / draws**0.5
        assert ((found.mean(0) - wanted).abs() < 6 * deviation + 1e-9).all()
        errors.append((found.mean(0) - wanted).abs().mean())
    assert errors[1] < errors[0] / 2  # as 1/√n


@pytest.mark.parametrize("length", [1, 63, 64, 65, 130])
def test_gated_sums_are_the_recurrence(length: int) -> None:
    source = generator(4)
    q, k = (torch.randn(2, length, 3, 5, generator=source).double() for _ in range(2))
    v = torch.randn(2, length, 3, 4, generator=source).double()
    gates = torch.rand(2, length, 3, generator=source).double()
    state, wanted = torch.zeros(2, 3, 5, 4).double(), []
    for t in range(length):
        g = gates[:, t, :, None, None]
        state = g * state + (1 - g) * k[:, t].unsqueeze(-1) * v[:, t].unsqueeze(-2)
        wanted.append(torch.einsum("bhm,bhmd->bhd", q[:, t], state))
    found = gated_sums(q, k, v, gates.log())
    torch.testing.assert_close(found, torch.stack(wanted, 1), rtol=1e-9, atol=1e-10)


def test_closed_gates_over_long_stretches_stay_finite() -> None:
    q = torch.ones(1, 500, 1, 2, requires_grad=True)
    found = gated_sums(q, q, q, torch.full((1, 500, 1), -60.0))
    found.sum().backward()
    assert found.isfinite().all()
    assert q.grad is not None
    assert q.grad.isfinite().all()


@pytest.mark.parametrize("name", CAUSAL)
def test_language_models_see_nothing_of_what_follows(name: str) -> None:
    variant = recipe("language-short").variant(name, None)
    config = model_config(variant, {**SMALL, "features": {"name": "favor", "features": 8}})
    model = language_model(variant, config, 1).double()
    tokens = torch.randint(9, (2, 80), generator=generator())
    changed = tokens.clone()
    changed[:, 50] = (changed[:, 50] + 1) % 9
    with torch.no_grad():
        before, after = (model(t, code=model.begin(generator())) for t in (tokens, changed))
    # Fourier transforms round all positions together: what they see of the future is rounding, of 1e-16.
    torch.testing.assert_close(before[:, :50], after[:, :50], rtol=0, atol=1e-10)
    assert not torch.allclose(before[:, 50:], after[:, 50:], atol=1e-6)
    model.train()
    model(tokens, code=model.begin(generator())).sin().sum().backward()
    for label, parameter in model.named_parameters():
        assert parameter.grad is not None, label
        assert parameter.grad.isfinite().all(), label


def test_every_encoding_of_sequences_is_compared() -> None:
    assert set(POSITIONS) <= {variant.position for variant in VARIANTS.values()}
