import pytest
import torch
from torch import Tensor

from musicgen.position.phase import waves
from musicgen.position.spe import sine as module
from musicgen.position.spe.sine import wave_product

PLACES = torch.arange(7, 18)
BATCH, LENGTH, HEADS, SINES, WIDTH, REALISATIONS = 2, 11, 2, 3, 4, 5


@pytest.fixture(params=[1, 200, 1 << 21], ids=["one by one", "ragged", "at once"])
def block(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(module, "_BLOCK", {"cpu": request.param})
    return request.param


def given() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    x = torch.randn(BATCH, LENGTH, HEADS, WIDTH, dtype=torch.float64)
    gains = torch.randn(HEADS, WIDTH, dtype=torch.float64)
    frequencies = torch.rand(HEADS, SINES, WIDTH, dtype=torch.float64) / 2
    weights = torch.randn(HEADS, 2 * SINES, WIDTH, REALISATIONS, dtype=torch.float64)
    return tuple(each.requires_grad_() for each in (x, gains, frequencies, weights))  # pyright: ignore[reportReturnType]


def product(x: Tensor, gains: Tensor, frequencies: Tensor, weights: Tensor) -> Tensor:
    table = torch.cat(waves(frequencies.detach(), PLACES, like=x), 2).transpose(0, 1)
    return wave_product(x, gains, frequencies, weights, table, PLACES)


@pytest.mark.usefixtures("block")
def test_equals_the_sum_it_stands_for() -> None:
    x, gains, frequencies, weights = given()
    table = torch.cat(waves(frequencies, PLACES, like=x), 2).transpose(0, 1)
    wanted = torch.einsum("bthd,hd,htwd,hwdr->bthr", x, gains, table, weights)
    torch.testing.assert_close(product(x, gains, frequencies, weights), wanted)


@pytest.mark.usefixtures("block")
def test_gradients_are_those_of_the_sum() -> None:
    assert torch.autograd.gradcheck(product, given())


def test_frozen_frequencies_get_no_gradient() -> None:
    x, gains, frequencies, weights = given()
    product(x, gains, frequencies.detach(), weights).sum().backward()
    assert frequencies.grad is None
    assert x.grad is not None
