"""Linear layers and the number of rows."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from musicgen.layers.linear import Linear, linear
from tests.musicgen.toys import generator


@pytest.mark.parametrize("width", [16, 256])
@pytest.mark.parametrize("shape", [(1, 1), (2, 1), (1, 3), (8, 1), (2, 9)])
@pytest.mark.parametrize("bias", [True, False])
def test_it_is_a_linear_layer_forward_and_backward(
    width: int, shape: tuple[int, int], bias: bool
) -> None:
    layer = Linear(width, 24, bias=bias)
    x = torch.randn(*shape, width, generator=generator(), requires_grad=True)
    found, expected = layer(x), F.linear(x, layer.weight, layer.bias)
    torch.testing.assert_close(found, expected)
    leaves = [x, *layer.parameters()]
    found_gradients = torch.autograd.grad(found.square().sum(), leaves)
    expected_gradients = torch.autograd.grad(expected.square().sum(), leaves)
    for a, b in zip(found_gradients, expected_gradients, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_a_library_never_sees_fewer_than_eight_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = []

    def product(x: torch.Tensor, *_: object) -> torch.Tensor:
        rows.append(x.shape[0] * (x.shape[1] if x.ndim == 3 else 1))
        return x

    monkeypatch.setattr(F, "linear", product)
    for count in (1, 2, 7, 8, 30):
        assert linear(torch.ones(count, 1, 16), torch.ones(3, 16)).shape[0] == count
    assert rows == [8, 8, 8, 8, 30]
