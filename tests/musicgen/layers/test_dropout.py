"""Dropout drops what it says, keeps the mean, and forgets nothing that the backward pass needs."""

import pytest
import torch

from musicgen.layers.linear import Dropout

SIZE = 400_003  # no multiple of the four numbers that share a random word


@pytest.mark.parametrize("p", [0.1, 0.25, 0.5, 0.9])
def test_as_many_are_dropped_as_were_asked_for(p: float) -> None:
    torch.manual_seed(1)
    y = Dropout(p)(torch.ones(SIZE))
    kept = y != 0
    deviation = (p * (1 - p) / SIZE) ** 0.5
    assert abs(1 - kept.double().mean().item() - p) < 5 * deviation
    torch.testing.assert_close(
        y[kept], torch.full((int(kept.sum()),), 1 / (1 - p)), rtol=1e-4, atol=0
    )


def test_neighbours_are_dropped_apart() -> None:
    """Numbers that share a random word know nothing of each other."""
    torch.manual_seed(2)
    kept = (Dropout(0.5)(torch.ones(SIZE - 3)) != 0).double().view(-1, 4) - 0.5
    correlation = (kept.mT @ kept) / len(kept) * 4
    assert (correlation - torch.eye(4).double()).abs().max() < 5 / len(kept) ** 0.5


def test_the_gradient_passes_where_the_number_did() -> None:
    x = torch.randn(3, 5, 7, dtype=torch.float64, requires_grad=True)
    y = Dropout(0.4)(x)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(gradient * x, y)
    assert 0 < (gradient == 0).sum() < x.numel()


def test_a_seed_fixes_what_is_dropped() -> None:
    drawn = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        drawn.append(Dropout(0.5)(torch.ones(1000)))
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


def test_nothing_is_dropped_in_use_or_at_zero() -> None:
    x = torch.randn(50)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0)(x) is x


def test_all_can_be_dropped() -> None:
    assert torch.equal(Dropout(1.0)(torch.randn(50)), torch.zeros(50))
