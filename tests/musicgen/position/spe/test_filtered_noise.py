from typing import Any

import pytest
import torch
from torch import Tensor

from musicgen.position.spe.convolutional import (
    BLOCK,
    WhiteNoise,
    filtered,
    place_filtered,
    toeplitz,
    toeplitz_transposed,
)

DOUBLE = torch.float64
HEADS, WIDTH, REALISATIONS, TAPS = 2, 4, 3, 5


def noise() -> WhiteNoise:
    return WhiteNoise(1, (HEADS, WIDTH, REALISATIONS), like=torch.zeros((), dtype=DOUBLE))


def filters(taps: int = TAPS) -> Tensor:
    torch.manual_seed(0)
    return torch.randn(2, HEADS, WIDTH, taps, dtype=DOUBLE).requires_grad_()


def naive(taps: Tensor, start: int, stop: int) -> Tensor:
    """Return (2, T, H, D, R) by the definition, with gradients."""
    windows = noise().window(start, stop + taps.shape[-1] - 1).unfold(2, taps.shape[-1], 1)
    return torch.einsum("shdp,hdtrp->sthdr", taps, windows)


def test_toeplitz_holds_the_taps_from_the_diagonal_on() -> None:
    assert toeplitz(torch.tensor([1, 2, 3]), 2).tolist() == [[1, 2, 3, 0], [0, 1, 2, 3]]


def test_toeplitz_transposed_is_its_adjoint() -> None:
    x, y = torch.randn(6, 5, dtype=DOUBLE), torch.randn(6, 7, 11, dtype=DOUBLE)
    left = (toeplitz(x, 7) * y).sum()
    torch.testing.assert_close(left, (x * toeplitz_transposed(y, 5)).sum())


@pytest.mark.parametrize("taps", [1, 5, 2 * BLOCK + 1])
@pytest.mark.parametrize(("start", "stop"), [(0, 1), (0, BLOCK), (37, 200), (1000, 1130)])
def test_filtered_equals_the_definition(taps: int, start: int, stop: int) -> None:
    found = filtered(filters(taps), noise(), start, stop, DOUBLE)
    torch.testing.assert_close(found, naive(filters(taps), start, stop))


@pytest.mark.parametrize("batch", [1, 40])  # the larger one outweighs the code in between
@pytest.mark.parametrize("length", [1, BLOCK - 1, 2 * BLOCK + 3])
def test_gradients_equal_those_through_the_code(batch: int, length: int) -> None:
    torch.manual_seed(1)
    size = (3, 2, batch, length, HEADS, WIDTH)  # layers, sides
    x, own = torch.randn(size, dtype=DOUBLE).requires_grad_(), filters()
    placement = place_filtered(own, noise(), 9, 9 + length, DOUBLE)
    fast = [torch.stack(placement(*layer, 0)) for layer in x]
    slow = torch.einsum("lsbthd,sthdr->lsbthr", x, naive(own, 9, 9 + length))
    torch.testing.assert_close(torch.stack(fast), slow)
    found = torch.autograd.grad(torch.stack(fast).sin().sum(), [x, own])
    wanted = torch.autograd.grad(slow.sin().sum(), [x, own])
    torch.testing.assert_close(found, wanted)


def test_gradients_of_part_of_a_window() -> None:
    x, own = torch.randn(2, 1, 10, HEADS, WIDTH, dtype=DOUBLE), filters()
    fast = torch.stack(place_filtered(own, noise(), 0, 100, DOUBLE)(*x, 70))
    slow = torch.einsum("sbthd,sthdr->sbthr", x, naive(own, 70, 80))
    torch.testing.assert_close(fast, slow)
    found, wanted = (torch.autograd.grad(y.sin().sum(), own) for y in (fast, slow))
    torch.testing.assert_close(found, wanted)


def test_backward_twice_adds_nothing_of_the_first_time() -> None:
    x, own = torch.randn(2, 1, 70, HEADS, WIDTH, dtype=DOUBLE).requires_grad_(), filters()
    total = torch.stack(place_filtered(own, noise(), 0, 70, DOUBLE)(*x, 0)).sin().sum()
    first = torch.autograd.grad(total, own, retain_graph=True)
    torch.testing.assert_close(torch.autograd.grad(total, own), first)


def test_the_code_has_no_gradient_of_its_size() -> None:
    """Between forward and backward nothing of the code's size is kept but the code."""
    placement = place_filtered(filters(), noise(), 0, 70, DOUBLE)
    kept: dict[int, int] = {}

    def keep(x: Tensor) -> Any:
        kept[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes()
        return x

    x = torch.randn(2, 1, 70, HEADS, WIDTH, dtype=DOUBLE).requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        for _ in range(5):
            placement(*x, 0)
    code = placement.code.untyped_storage()
    assert kept.pop(code.data_ptr()) == code.nbytes()
    assert sum(kept.values()) == x.untyped_storage().nbytes()
