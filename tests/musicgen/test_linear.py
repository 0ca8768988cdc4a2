"""Linear layers and 8-bit weights."""

import pytest
import torch
import torch.nn.functional as F

from musicgen.attention import Linear, dequantise, quantise, without_autocast
from tests.musicgen.toys import generator


@pytest.mark.parametrize(("shape", "rows"), [((1, 1), 8), ((7, 1), 8), ((4, 2), 8), ((2, 9), 18)])
@pytest.mark.parametrize("bias", [True, False])
def test_a_linear_layer_multiplies_at_least_eight_rows(shape, rows, bias, monkeypatch):
    layer = Linear(16, 24, bias=bias)
    x = torch.randn(*shape, 16, generator=generator(), requires_grad=True)
    product, seen = F.linear, []
    with monkeypatch.context() as patch:
        patch.setattr(F, "linear", lambda x, *rest: seen.append(x) or product(x, *rest))
        found = layer(x)
    assert [one.shape[:-1].numel() for one in seen] == [rows]
    expected = F.linear(x, layer.weight, layer.bias)
    torch.testing.assert_close(found, expected)
    leaves = [x, *layer.parameters()]
    gradients = [torch.autograd.grad(y.square().sum(), leaves) for y in (found, expected)]
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-4)


def test_without_autocast_products_keep_their_precision():
    x, cpu = torch.ones(2, 2), torch.device("cpu")
    with torch.autocast("cpu", torch.bfloat16):
        with without_autocast(cpu):
            assert (x @ x).dtype is torch.float32
        assert (x @ x).dtype is torch.bfloat16
    with without_autocast(cpu):
        assert (x @ x).dtype is torch.float32


def test_int8_weights_are_at_most_half_a_step_off_and_quantise_to_themselves():
    weight = torch.randn(40, 64, generator=generator()) * torch.logspace(-6, 6, 40)[:, None]
    weight[7] = 0
    whole, scale = quantise(weight)
    assert (whole.dtype, scale.dtype) == (torch.int8, torch.float32)
    assert whole.abs().amax(1).tolist() == [127] * 7 + [0] + [127] * 32
    restored = dequantise(whole, scale)
    assert ((restored - weight).abs() <= 0.5001 * scale[:, None]).all()
    again = quantise(restored)
    assert torch.equal(again[0], whole)
    torch.testing.assert_close(again[1], scale, rtol=1e-6, atol=0)
